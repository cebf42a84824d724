#include "operator/cli/text/screen.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <utility>

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

Screen::Screen(std::FILE* out, std::string whole, bool in_place, bool repeats)
    : out_(out),
      whole_(std::move(whole)),
      redraws_(in_place && isatty(fileno(out)) != 0),
      repeats_(repeats && !redraws_) {}

// Returns as many of the text's lines as fit on the terminal with the cursor below them, the last
// of which counts the others.
std::string Screen::FirstLines(const std::string& text) const {
  const auto width = static_cast<std::size_t>(TerminalColumns(out_));
  const auto height = static_cast<std::size_t>(TerminalRows(out_));
  if (height == 0 || RowsOf(text, width) < height) return text;
  const auto cut_at = [&](std::size_t end) {
    return fmt::format(
        "{}… {} more lines: {} prints all\n", text.substr(0, end),
        std::count(text.begin() + static_cast<std::ptrdiff_t>(end), text.end(), '\n'), whole_);
  };
  std::string first = cut_at(0);
  for (std::size_t end = text.find('\n'); end != std::string::npos;
       end = text.find('\n', end + 1)) {
    std::string more = cut_at(end + 1);
    if (RowsOf(more, width) >= height) break;
    first = std::move(more);
  }
  return first;
}

void Screen::Show(const std::string& text) {
  if (text == text_ && !repeats_) return;
  text_ = text;
  Print(redraws_ ? FirstLines(text) : text);
}

void Screen::End() {
  if (shown_ != text_) Print(text_);
}

void Screen::Print(const std::string& text) {
  if (redraws_ && !shown_.empty()) {
    const auto width = static_cast<std::size_t>(TerminalColumns(out_));
    fmt::print(out_, "\033[{}A\033[J", RowsOf(shown_, width));
  }
  std::fputs(text.c_str(), out_);
  std::fflush(out_);
  shown_ = text;
}

}  // namespace lockstep::cli
