// The address that a caller has dialled. The caller's proof covers it: otherwise a stranger who has
// the address of a member that is gone could pass on the proof to the member's successor, and be
// taken for the caller. Pure.
#pragma once

#include <string>
#include <string_view>

namespace lockstep::train {

// Returns the IP address in the name that gRPC gives a connection's other end: "10.0.0.5" for
// "ipv4:10.0.0.5:2222", "fd00::5" for "ipv6:%5Bfd00::5%5D:2222". Empty for other names.
std::string HostOfPeer(std::string_view peer);

// Returns whether a caller that has dialled this IP address means the server that listens at
// `listens_at`, such as "10.0.0.5:2222". True if the caller does not say, as one of an earlier
// version, or if the server listens at no single IP address.
bool IsMeant(std::string_view dialled, std::string_view listens_at);

}  // namespace lockstep::train
