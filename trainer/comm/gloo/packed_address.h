// Packs Gloo's addresses for the rendezvous's store.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace lockstep::train {

// Gloo's address of a port is a sockaddr_storage, in which it sets only what the family needs, and
// a few bytes of its own. Drops the unset bytes, which hold leftovers of its stack, even the stack
// protector's canary. Requires: `address` has at least the size of a sockaddr_storage. Addresses of
// equal length are packed into equal length.
std::string PackAddress(std::string_view address);

// Reverses PackAddress. `length` is the address's length before packing. InvalidArgument: the
// packed address had another length.
absl::StatusOr<std::string> UnpackAddress(std::string_view packed, std::size_t length);

}  // namespace lockstep::train
