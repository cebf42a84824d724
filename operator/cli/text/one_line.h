// Fits another's message, such as a pod's or an event's, into a line of a table or a list. Pure.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>

#include "base/shorten.h"

namespace lockstep::cli {

inline constexpr std::size_t kLongestLine = 400;  // bytes

// Returns the text with spaces for its line feeds, so that no part of it passes for a line of ours,
// and shortened.
inline std::string OneLine(std::string text) {
  std::ranges::replace(text, '\n', ' ');
  return Shortened(std::move(text), kLongestLine, "…");
}

}  // namespace lockstep::cli
