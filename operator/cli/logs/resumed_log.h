// A log that is read in several parts: its connection can be lost, and what is read after that
// repeats lines.
#pragma once

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
  // `pass` gets whole lines that it has not had before, each with its time and its line feed. A
  // line of more than a megabyte comes in pieces.
  explicit ResumedLog(std::function<void(std::string_view)> pass) : pass_(std::move(pass)) {}

  // Adds text of lines that begin with their time (RFC 3339) and a space. `text` may begin and end
  // within a line.
  void Add(std::string_view text);
  // A new part follows. Its lines up to the latest time so far are old; the beginning of a line
  // that has not ended is forgotten, since the part has all of it.
  void Resume();
  // The log is over: what there is of a last line is passed, with a line feed.
  void End();

  // The latest time of a line so far; nullopt: there is none.
  std::optional<Time> latest() const { return latest_; }

 private:
  void PassLine();

  const std::function<void(std::string_view)> pass_;
  std::string line_;  // so far
  std::optional<Time> latest_, old_until_;
};

}  // namespace lockstep::cli
