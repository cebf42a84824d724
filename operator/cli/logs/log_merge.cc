#include "operator/cli/logs/log_merge.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/rfc3339.h"

namespace lockstep::cli {
namespace {

// Bytes: of all sources, and of each at least and at most.
constexpr std::size_t kMostOfAll = std::size_t{256} << 20U;
constexpr std::size_t kLeastOfOne = std::size_t{64} << 10U, kMostOfOne = std::size_t{1} << 20U;

}  // namespace

std::size_t LogMerge::MostWaiting(std::size_t sources) {
  return std::clamp(kMostOfAll / std::max<std::size_t>(sources, 1), kLeastOfOne, kMostOfOne);
}

int LogMerge::AddSource() {
  const std::scoped_lock lock(mutex_);
  sources_.emplace_back();
  return static_cast<int>(sources_.size()) - 1;
}

void LogMerge::Add(int source, std::string_view piece) {
  std::unique_lock lock(mutex_);
  Source& to = sources_[static_cast<std::size_t>(source)];
  changed_.wait(lock, [&] { return to.bytes < MostWaiting(sources_.size()); });
  const bool ends = piece.ends_with('\n');
  if (ends) piece.remove_suffix(1);
  const bool continues = std::exchange(to.goes_on, !ends);
  const std::size_t space = std::min(piece.find(' '), piece.size());
  const std::optional<Time> time = continues ? std::nullopt : ParseRfc3339(piece.substr(0, space));
  if (time) {
    piece.remove_prefix(std::min(space + 1, piece.size()));
    to.latest = std::max(to.latest, *time);  // clocks may be set back
  }
  to.bytes += piece.size() + 1;
  to.lines.push_back(
      {{source, to.latest, std::string(piece), continues, ends}, std::chrono::steady_clock::now()});
  changed_.notify_all();
}

void LogMerge::End(int source) {
  const std::scoped_lock lock(mutex_);
  Source& from = sources_[static_cast<std::size_t>(source)];
  from.ended = true;
  changed_.notify_all();
}

void LogMerge::Close() {
  const std::scoped_lock lock(mutex_);
  closed_ = true;
  changed_.notify_all();
}

std::optional<std::size_t> LogMerge::Earliest() const {
  std::optional<std::size_t> earliest;
  for (std::size_t i = 0; i < sources_.size(); ++i) {
    if (sources_[i].lines.empty()) continue;
    const auto time_of = [this](std::size_t each) {
      return sources_[each].lines.front().line.time;
    };
    if (!earliest || time_of(i) < time_of(*earliest)) earliest = i;
  }
  return earliest;
}

bool LogMerge::MayHaveEarlier() const {
  return !closed_ || std::ranges::any_of(sources_, [](const Source& source) {
    return !source.ended && source.lines.empty();
  });
}

bool LogMerge::IsOver() const {
  return closed_ && std::ranges::all_of(sources_, [](const Source& source) {
           return source.ended && source.lines.empty();
         });
}

std::optional<LogMerge::Line> LogMerge::Next() {
  std::unique_lock lock(mutex_);
  while (true) {
    if (IsOver()) return std::nullopt;
    const std::optional<std::size_t> earliest = Earliest();
    if (!earliest || (MayHaveEarlier() && !patience_)) {
      changed_.wait(lock);
      continue;
    }
    Source& from = sources_[*earliest];
    const SteadyTime ready = from.lines.front().arrival + patience_.value_or(Duration::zero());
    if (MayHaveEarlier() && std::chrono::steady_clock::now() < ready) {
      changed_.wait_until(lock, ready);
      continue;
    }
    Line line = std::move(from.lines.front().line);
    from.lines.pop_front();
    from.bytes -= line.text.size() + 1;
    changed_.notify_all();
    return line;
  }
}

}  // namespace lockstep::cli
