// A text that is kept up to date: drawn in place on a terminal, printed again elsewhere.
#pragma once

#include <cstdio>
#include <string>

namespace lockstep::cli {

// Not thread-safe.
class Screen {
 public:
  explicit Screen(std::FILE* out);

  // Draws the text, which ends with a line feed, over the one before it on a terminal, below it
  // elsewhere. Does nothing if the two are equal.
  void Show(const std::string& text);
  // Prints the text below the one before it, also on a terminal, unless the two are equal.
  void Append(const std::string& text);
  bool is_terminal() const { return terminal_; }

 private:
  std::FILE* const out_;
  const bool terminal_;
  std::string shown_;
};

}  // namespace lockstep::cli
