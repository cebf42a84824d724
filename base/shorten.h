// Cuts texts to a limit in bytes. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/characters.h"

namespace lockstep {

// Returns at most `bytes` bytes of the text, cut between characters so that UTF-8 stays valid.
// Appends `mark` to a text that was cut; the limit does not include it.
inline std::string Shortened(std::string text, std::size_t bytes, std::string_view mark = "") {
  if (text.size() <= bytes) return text;
  std::size_t end = bytes;
  while (end > 0 && !BeginsCharacter(text[end])) --end;
  text.resize(end);
  return text.append(mark);
}

}  // namespace lockstep
