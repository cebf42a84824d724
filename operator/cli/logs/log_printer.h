// Prints a container's log as it comes. Its program decides what is in it.
#pragma once

#include <cstdio>
#include <string>

namespace lockstep::cli {

// On a terminal the log is text: control characters are replaced (see Printable), and a carriage
// return, with which programs redraw a line, begins a new one. Elsewhere, as in a file or a pipe,
// every byte is kept. Not thread-safe.
class LogPrinter {
 public:
  explicit LogPrinter(std::FILE* out);

  // Prints `text` at once. It may begin and end within a character.
  void Print(const std::string& text);
  // Prints what is left of a log that ended within a character.
  void End();

 private:
  void Write(const std::string& text);
  // Returns the text with each of "\r", "\n" and "\r\n" as one line feed.
  std::string WithLineFeeds(const std::string& text);

  std::FILE* const out_;
  const bool is_terminal_;
  std::string partial_;        // the beginning of a character
  bool after_return_ = false;  // the latest byte was a carriage return
};

}  // namespace lockstep::cli
