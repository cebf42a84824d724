// What a rank of a Gloo group publishes, in a few bytes for each peer.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace lockstep::train {

// Gloo lists a rank's addresses, one for each of its `count` peers, of 128 bytes and more each, and
// every rank reads the lists of all others: for n ranks that is n³ addresses on the leader's
// network. They differ in a port or a sequence number only, so the packed list has the first
// address and, of each, the bytes in which any two differ. An address begins with a
// sockaddr_storage, of which Gloo sends what happened to be on its stack, canary included: what no
// IP address needs of it is set to zero.
std::string PackAddresses(std::string_view list, std::size_t count);

// What was packed, so without those bytes. InvalidArgument: it is not a list of `count` addresses.
absl::StatusOr<std::string> UnpackAddresses(std::string_view packed, std::size_t count);

}  // namespace lockstep::train
