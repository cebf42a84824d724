// What a run says while it goes: a line that is redrawn in place on a terminal, plain lines
// elsewhere.
#pragma once

#include <cstdio>
#include <string>

#include "base/clock.h"

namespace lockstep::cli {

// Not thread-safe.
class Console {
 public:
  // `quiet`: says nothing but warnings.
  Console(std::FILE* out, const Clock& clock, bool quiet);

  void Note(const std::string& line);
  // To stderr, even if quiet.
  void Warn(const std::string& line);
  // Redrawn at every call on a terminal; elsewhere a line every few seconds.
  void Progress(const std::string& line);
  // The progress line is over; on a terminal it stays.
  void EndProgress();

 private:
  void ClearLine();

  std::FILE* const out_;
  const Clock& clock_;
  const bool quiet_;
  const bool terminal_;
  std::string shown_;  // the progress line on the terminal now
  std::string last_;   // the last plain one
  SteadyTime next_plain_;
};

}  // namespace lockstep::cli
