// Makes text valid UTF-8 in place. Pure.
#pragma once

#include <cstddef>

namespace lockstep::kube {

// Replaces each byte that belongs to no UTF-8 character (RFC 3629, section 4) by '?'.
void ReplaceInvalidUtf8(char* text, std::size_t size);

}  // namespace lockstep::kube
