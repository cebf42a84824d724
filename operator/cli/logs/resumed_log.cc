#include "operator/cli/logs/resumed_log.h"

#include <algorithm>
#include <cstddef>

#include "base/rfc3339.h"

namespace lockstep::cli {
namespace {

constexpr std::size_t kLongestPiece = std::size_t{1} << 20U;

}  // namespace

void ResumedLog::Add(std::string_view text) {
  while (!text.empty()) {
    const std::size_t feed = text.find('\n');
    const std::size_t end = feed == std::string_view::npos ? text.size() : feed + 1;
    line_ += text.substr(0, end);
    text.remove_prefix(end);
    if (feed != std::string_view::npos || line_.size() >= kLongestPiece) PassLine();
  }
}

void ResumedLog::Resume() {
  line_.clear();
  old_until_ = latest_;
}

void ResumedLog::End() {
  if (line_.empty()) return;
  line_ += '\n';
  PassLine();
}

void ResumedLog::PassLine() {
  const std::string line = std::exchange(line_, {});
  const auto time = ParseRfc3339(std::string_view(line).substr(0, line.find(' ')));
  if (time && old_until_ && *time <= *old_until_) return;
  if (time) latest_ = std::max(latest_.value_or(*time), *time);  // clocks may be set back
  pass_(line);
}

}  // namespace lockstep::cli
