#include "operator/cli/exit_codes.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace lockstep::cli {
namespace {

constexpr std::size_t kMeaningAt = 30;  // the column of the descriptions of options
constexpr std::size_t kMeaningWidth = 70;

// Takes a line's words off the beginning of the text.
std::string_view TakeLine(std::string_view& text) {
  std::size_t end = text.size();
  if (end > kMeaningWidth) end = std::min(text.rfind(' ', kMeaningWidth), end);
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return line;
}

}  // namespace

bool IsOneOf(const ExitCode& code, const std::vector<ExitCode>& declared) {
  return std::ranges::any_of(declared, [&code](const ExitCode& one) {
    return code.meaning == one.meaning && code.code >= one.code && code.last <= one.last;
  });
}

std::string ExitCodesText(std::vector<ExitCode> codes) {
  std::ranges::stable_sort(codes, {},
                           [](const ExitCode& one) { return std::pair(one.code, one.last); });
  std::string text = "Exit codes:\n";
  for (const ExitCode& code : codes) {
    std::string name = fmt::format("  {}", code.code);
    if (code.last != code.code) name += fmt::format("-{}", code.last);
    std::string_view left = code.meaning;
    do {
      text += fmt::format("{:<{}}{}\n", std::exchange(name, ""), kMeaningAt, TakeLine(left));
    } while (!left.empty());
  }
  return text;
}

}  // namespace lockstep::cli
