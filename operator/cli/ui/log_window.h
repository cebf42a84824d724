// The last lines of a log, for a page that asks for those that it has not had.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"

namespace lockstep::cli {

// Returns the text without the sequences that set a terminal's colors, title or cursor, other
// control characters as '?', of a line that was redrawn by carriage returns what it shows at last,
// and shortened.
std::string ShownLine(std::string_view text);

struct LogLine {
  Time time;
  std::string replica;  // "worker-1"
  std::string text;     // as the program wrote it, without its line feed
};

// Not thread-safe.
class LogWindow {
 public:
  static constexpr std::size_t kMostLines = 2000, kMostBytes = std::size_t{1} << 20U;
  static constexpr std::size_t kMostBytesAtOnce = std::size_t{200} << 10U;

  // The first line has the number `start`. A page takes lines for new by their numbers, so no two
  // windows that it may see one after the other have the same.
  explicit LogWindow(std::uint64_t start = 0) : start_(start), first_(start) {}

  // Adds lines in the order of their times.
  void Add(std::vector<LogLine> lines);
  // Returns {"start", "next", "more", "lines"}: the lines from the number `after` on, which is
  // `next` of the answer before, each as [milliseconds since 1970, replica, text]. Has at most
  // kMostBytesAtOnce of texts, which a slow tunnel passes on in time; `more` is true if there are
  // others. All lines are new to a page whose `after` is of another window.
  nlohmann::ordered_json After(std::uint64_t after) const;

 private:
  std::uint64_t start_;
  std::deque<LogLine> lines_;
  std::size_t bytes_ = 0;  // of their texts
  std::uint64_t first_;    // the number of the first
};

}  // namespace lockstep::cli
