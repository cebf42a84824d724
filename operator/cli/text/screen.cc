#include "operator/cli/text/screen.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <string_view>

#include "base/characters.h"
#include "operator/cli/text/console.h"

namespace lockstep::cli {
namespace {

// Returns the rows that the lines of the text take on a terminal, which wraps long ones.
std::size_t RowsOf(std::string_view text, std::size_t width) {
  std::size_t rows = 0;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    rows += std::max<std::size_t>(1, (CharacterCount(line) + width - 1) / width);
    text.remove_prefix(std::min(text.size(), line.size() + 1));
  }
  return rows;
}

}  // namespace

Screen::Screen(std::FILE* out, bool in_place, bool repeats)
    : out_(out), redraws_(in_place && isatty(fileno(out)) != 0), repeats_(repeats && !redraws_) {}

void Screen::Show(const std::string& text) {
  if (text == shown_ && !repeats_) return;
  if (redraws_ && !shown_.empty()) {
    const auto width = static_cast<std::size_t>(TerminalColumns(out_));
    fmt::print(out_, "\033[{}A\033[J", RowsOf(shown_, width));
  }
  std::fputs(text.c_str(), out_);
  std::fflush(out_);
  shown_ = text;
}

}  // namespace lockstep::cli
