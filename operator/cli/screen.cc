#include "operator/cli/screen.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

namespace lockstep::cli {

Screen::Screen(std::FILE* out) : out_(out), terminal_(isatty(fileno(out)) != 0) {}

void Screen::Show(const std::string& text) {
  if (text == shown_) return;
  if (terminal_ && !shown_.empty()) {
    fmt::print(out_, "\033[{}A\033[J", std::ranges::count(shown_, '\n'));
  }
  Append(text);
}

void Screen::Append(const std::string& text) {
  if (text == shown_) return;
  std::fputs(text.c_str(), out_);
  std::fflush(out_);
  shown_ = text;
}

}  // namespace lockstep::cli
