// A log that is read in several parts: its connection can be lost, and what is read after that
// repeats lines.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/clock.h"

namespace lockstep::cli {

// Not thread-safe.
class ResumedLog {
 public:
  // `pass` gets what it has not had before: lines, each with its time and its line feed. A line of
  // more than a megabyte comes in pieces, of which the first has the time and the last the line
  // feed. With `redraws`, so does a line that its program redraws, as it does with a progress bar,
  // which may get no line feed for hours: each piece ends with a carriage return.
  explicit ResumedLog(std::function<void(std::string_view)> pass, bool redraws = false)
      : pass_(std::move(pass)), redraws_(redraws) {}

  // Adds text of lines that begin with their time (RFC 3339) and a space. `text` may begin and end
  // within a line.
  void Add(std::string_view text);
  // A new part follows. Its lines up to the latest time so far are old. It has all of a line that
  // has not ended: what was not passed of its beginning is forgotten, the rest is not passed again.
  void Resume();
  // The log is over: what there is of a last line is passed, with a line feed.
  void End();

  // The latest time of a line so far; nullopt: there is none.
  std::optional<Time> latest() const { return latest_; }

 private:
  // A line, some bytes of which were passed before a new part followed.
  struct BrokenLine {
    std::optional<Time> time;
    std::size_t bytes = 0;
  };

  void PassPiece();
  // Decides how much of the line that the piece begins is old.
  void BeginLine(std::string_view piece);

  const std::function<void(std::string_view)> pass_;
  const bool redraws_;
  std::string piece_;                // so far
  std::optional<Time> time_;         // of the line that has begun
  std::size_t bytes_ = 0, old_ = 0;  // of that line: in pieces so far, and those that are old
  std::optional<BrokenLine> broken_;
  std::optional<Time> latest_, old_until_;
};

}  // namespace lockstep::cli
