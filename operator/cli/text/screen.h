// A text that is kept up to date: drawn in place on a terminal, printed again elsewhere.
#pragma once

#include <cstdio>
#include <string>

namespace lockstep::cli {

// Not thread-safe.
class Screen {
 public:
  // Without `in_place`, a terminal is like any other file.
  explicit Screen(std::FILE* out, bool in_place = true, bool repeats = false);

  // Prints the text, which ends with a line feed, over the one before it if this redraws, else
  // below it. Does nothing if the two are equal, unless this repeats below it what is equal.
  void Show(const std::string& text);
  bool redraws() const { return redraws_; }

 private:
  std::FILE* const out_;
  const bool redraws_, repeats_;
  std::string shown_;
};

}  // namespace lockstep::cli
