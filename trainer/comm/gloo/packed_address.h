// Gloo's addresses, as ranks send them to each other.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace lockstep::train {

// Gloo's address of a port is a sockaddr_storage, of which it fills what the family needs, and a
// few bytes of its own. Of the rest, which is what happened to be on its stack, the stack
// protector's canary included, nothing is sent. `address` has at least the size of a
// sockaddr_storage; addresses of one length are packed into one length.
std::string PackAddress(std::string_view address);

// `length`: of an address before it was packed. InvalidArgument: what was packed had another.
absl::StatusOr<std::string> UnpackAddress(std::string_view packed, std::size_t length);

}  // namespace lockstep::train
