// Pieces of files for tests of file systems.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace lockstep::train {

inline std::span<const std::byte> PieceOf(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

}  // namespace lockstep::train
