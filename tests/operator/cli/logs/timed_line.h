// Lines of a container's log as a kubelet gives them with timestamps.
#pragma once

#include <fmt/format.h>

#include <string>

namespace lockstep::testing {

// A line of `second` of one minute.
inline std::string TimedLine(int second, const std::string& text) {
  return fmt::format("2026-05-01T12:00:{:02}.000000000Z {}\n", second, text);
}

}  // namespace lockstep::testing
