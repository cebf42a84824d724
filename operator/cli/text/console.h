// Output of a run in progress: a line that is redrawn in place on a terminal, plain lines
// elsewhere.
#pragma once

#include <cstdio>
#include <string>

#include "base/clock.h"

namespace lockstep::cli {

// Returns the width of the terminal behind `out`; 80 if it is unknown or no terminal.
int TerminalColumns(std::FILE* out);

// Returns how many lines it has; 0 if that is unknown or it is no terminal.
int TerminalRows(std::FILE* out);

// Not thread-safe.
class Console {
 public:
  // `quiet` prints warnings only.
  Console(std::FILE* out, const Clock& clock, bool quiet);

  void Note(const std::string& line);
  // Prints to stderr, even if quiet.
  void Warn(const std::string& line);
  // Redraws the line on a terminal; elsewhere prints it if it differs, at most every 2 s.
  void Progress(const std::string& text);
  // Ends the progress line; on a terminal it remains visible.
  void EndProgress();
  // Whether a line was lost since whoever read `out`, a pipe, has ended. Requires: broken pipes are
  // ignored.
  bool is_unread() const { return is_unread_; }

 private:
  void ClearLine();
  void Flush();

  std::FILE* const out_;
  const Clock& clock_;
  const bool quiet_;
  const bool terminal_;
  bool is_unread_ = false;
  std::string shown_;  // the progress line on the terminal
  std::string last_;   // the latest plain line
  SteadyTime next_plain_;
};

}  // namespace lockstep::cli
