// Counts the characters of UTF-8 texts. Pure.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>

namespace lockstep {

// In UTF-8, every byte of a character but the first continues it. True if `byte` does not.
constexpr bool BeginsCharacter(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0U) != 0x80U;
}

inline std::size_t CharacterCount(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(text, BeginsCharacter));
}

}  // namespace lockstep
