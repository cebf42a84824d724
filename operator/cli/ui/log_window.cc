#include "operator/cli/ui/log_window.h"

#include <algorithm>
#include <utility>

#include "base/printable.h"
#include "base/shorten.h"
#include "operator/cli/text/millis.h"

namespace lockstep::cli {
namespace {

constexpr std::size_t kLongestShown = 4000;  // bytes of a line
constexpr char kEscape = '\033', kBell = '\a';

// Returns the length of the sequence that `text`, which starts with ESC, begins with.
std::size_t SequenceLength(std::string_view text) {
  if (text.size() < 2) return text.size();
  if (text[1] == '[') {  // parameters up to a letter
    const auto end = std::ranges::find_if(text.substr(2), [](char c) { return c >= 0x40; });
    return std::min(text.size(), static_cast<std::size_t>(end - text.begin()) + 1);
  }
  if (text[1] == ']') {  // a text up to BEL or ESC and a backslash
    const std::size_t end = text.find_first_of("\a\033", 2);
    if (end == std::string_view::npos) return text.size();
    return text[end] == kBell ? end + 1 : std::min(text.size(), end + 2);
  }
  return 2;
}

}  // namespace

std::string ShownLine(std::string_view text) {
  while (text.ends_with('\r')) text.remove_suffix(1);
  text.remove_prefix(text.rfind('\r') + 1);  // npos + 1 is 0
  std::string plain;
  for (std::size_t i = 0; i < text.size() && plain.size() <= kLongestShown;) {
    if (text[i] == kEscape) {
      i += SequenceLength(text.substr(i));
    } else {
      plain += text[i++];
    }
  }
  std::ranges::replace(plain, '\n', ' ');
  return Printable(Shortened(std::move(plain), kLongestShown, "…"));
}

void LogWindow::Add(std::vector<LogLine> lines) {
  std::ranges::stable_sort(lines, {}, &LogLine::time);
  for (LogLine& line : lines) {
    line.text = ShownLine(line.text);
    bytes_ += line.text.size();
    lines_.push_back(std::move(line));
    while (lines_.size() > kMostLines || bytes_ > kMostBytes) {
      bytes_ -= lines_.front().text.size();
      lines_.pop_front();
      ++first_;
    }
  }
}

nlohmann::ordered_json LogWindow::After(std::uint64_t after) const {
  nlohmann::ordered_json lines = nlohmann::ordered_json::array();
  const std::uint64_t end = first_ + lines_.size();
  // A page can be older than this window, and have had lines of one before.
  std::uint64_t next = after > end ? first_ : std::max(after, first_);
  for (std::size_t bytes = 0; next < end; ++next) {
    const LogLine& line = lines_[next - first_];
    bytes += line.text.size();
    if (bytes > kMostBytesAtOnce) break;
    lines.push_back({Millis(line.time), line.replica, line.text});
  }
  return {{"start", start_}, {"next", next}, {"more", next < end}, {"lines", std::move(lines)}};
}

}  // namespace lockstep::cli
