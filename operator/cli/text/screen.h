// A text that is kept up to date: drawn in place on a terminal, as far as it fits there, printed
// again elsewhere.
#pragma once

#include <cstddef>
#include <cstdio>
#include <string>

namespace lockstep::cli {

// Not thread-safe.
class Screen {
 public:
  // Without `in_place`, a terminal is like any other file. `whole` is the option of the verb that
  // has it print its text once, as a whole.
  Screen(std::FILE* out, std::string whole, bool in_place = true, bool repeats = false);

  // Prints the text, which ends with a line feed, over the one before it if this redraws, else
  // below it. Does nothing if the two are equal, unless this repeats below it what is equal. Where
  // this redraws, prints only the first lines of what is longer than the terminal, and how many
  // more there are: lines that have left the terminal cannot be drawn over.
  void Show(const std::string& text);
  // Prints the last text as a whole, if only its first lines were shown.
  void End();
  bool redraws() const { return redraws_; }

 private:
  void Print(const std::string& text);

  std::string FirstLines(const std::string& text) const;

  std::FILE* const out_;
  const std::string whole_;
  const bool redraws_, repeats_;
  std::string text_;   // the latest
  std::string shown_;  // what was printed of it
};

}  // namespace lockstep::cli
