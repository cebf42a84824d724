#include "operator/cli/logs/resumed_log.h"

#include <algorithm>

#include "base/rfc3339.h"

namespace lockstep::cli {
namespace {

constexpr std::size_t kLongestPiece = std::size_t{1} << 20U;
constexpr std::size_t kWholeLine = std::string_view::npos;

}  // namespace

void ResumedLog::Add(std::string_view text) {
  while (!text.empty()) {
    const std::size_t found = text.find_first_of(redraws_ ? "\r\n" : "\n");
    std::size_t end = found == std::string_view::npos ? text.size() : found + 1;
    if (text.substr(end - 1, 2) == "\r\n") ++end;
    piece_ += text.substr(0, end);
    text.remove_prefix(end);
    if (found != std::string_view::npos || piece_.size() >= kLongestPiece) PassPiece();
  }
}

void ResumedLog::Resume() {
  if (bytes_ > 0 && old_ != kWholeLine) broken_ = {time_, std::max(bytes_, old_)};
  piece_.clear();
  bytes_ = 0;
  old_until_ = latest_;
}

void ResumedLog::End() {
  if (!piece_.empty() || bytes_ > 0) {
    piece_ += '\n';
    PassPiece();
  }
  if (broken_) pass_("\n");
  broken_.reset();
}

void ResumedLog::PassPiece() {
  const std::string piece = std::exchange(piece_, {});
  const bool is_last = piece.ends_with('\n');
  if (bytes_ == 0) BeginLine(piece);
  // The line feed of a line that was cut off has not been passed on yet.
  const std::size_t most_old = piece.size() - (is_last && old_ != kWholeLine ? 1 : 0);
  const std::size_t old = old_ > bytes_ ? std::min(old_ - bytes_, most_old) : 0;
  bytes_ = is_last ? 0 : bytes_ + piece.size();
  if (old < piece.size()) pass_(std::string_view(piece).substr(old));
}

void ResumedLog::BeginLine(std::string_view piece) {
  time_ = ParseRfc3339(piece.substr(0, piece.find(' ')));
  old_ = 0;
  if (time_ && broken_ && broken_->time == time_) {
    old_ = broken_->bytes;
    broken_.reset();
    return;
  }
  if (time_ && old_until_ && *time_ <= *old_until_) {
    old_ = kWholeLine;
    return;
  }
  if (broken_) pass_("\n");
  broken_.reset();
  if (time_) latest_ = std::max(latest_.value_or(*time_), *time_);  // clocks may be set back
}

}  // namespace lockstep::cli
