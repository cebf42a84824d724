#include "operator/cli/logs/log_printer.h"

#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <utility>

#include "base/characters.h"
#include "base/printable.h"

namespace lockstep::cli {
namespace {

// Returns the size of the text without a character of UTF-8 that breaks off at its end.
std::size_t WholeCharacters(std::string_view text) {
  for (std::size_t from_end = 1; from_end <= std::min<std::size_t>(3, text.size()); ++from_end) {
    const char last = text[text.size() - from_end];
    if (!BeginsCharacter(last)) continue;
    const auto byte = static_cast<unsigned char>(last);
    const std::size_t length = byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : byte >= 0xC0 ? 2 : 1;
    return length > from_end ? text.size() - from_end : text.size();
  }
  return text.size();
}

}  // namespace

LogPrinter::LogPrinter(std::FILE* out) : out_(out), is_terminal_(isatty(fileno(out)) != 0) {}

void LogPrinter::Print(const std::string& text) {
  if (!is_terminal_) return Write(text);
  std::string ready = std::exchange(partial_, {}) + text;
  const std::size_t whole = WholeCharacters(ready);
  partial_ = ready.substr(whole);
  ready.resize(whole);
  Write(Printable(WithLineFeeds(ready)));
}

void LogPrinter::End() {
  Write(Printable(std::exchange(partial_, {})));
}

void LogPrinter::Write(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), out_);
  std::fflush(out_);
}

std::string LogPrinter::WithLineFeeds(const std::string& text) {
  std::string lines;
  for (const char byte : text) {
    const bool is_return = byte == '\r';
    if (byte != '\n' || !after_return_) lines += is_return ? '\n' : byte;
    after_return_ = is_return;
  }
  return lines;
}

}  // namespace lockstep::cli
