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

void LogMerge::Add(int source, std::string_view text) {
  std::unique_lock lock(mutex_);
  Source& to = sources_[static_cast<std::size_t>(source)];
  while (!text.empty()) {
    changed_.wait(lock, [&] { return to.bytes < MostWaiting(sources_.size()); });
    const std::size_t end = text.find('\n');
    to.partial += text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    // A line without an end must not fill the memory.
    if (end != std::string_view::npos || to.partial.size() >= MostWaiting(sources_.size())) {
      AddLine(to, std::exchange(to.partial, {}));
    }
  }
}

void LogMerge::End(int source) {
  const std::scoped_lock lock(mutex_);
  Source& from = sources_[static_cast<std::size_t>(source)];
  if (!from.partial.empty()) AddLine(from, std::exchange(from.partial, {}));
  from.ended = true;
  changed_.notify_all();
}

void LogMerge::Close() {
  const std::scoped_lock lock(mutex_);
  closed_ = true;
  changed_.notify_all();
}

void LogMerge::AddLine(Source& source, std::string text) {
  const std::size_t space = text.find(' ');
  const std::optional<Time> time = ParseRfc3339(std::string_view(text).substr(0, space));
  if (time) {
    text.erase(0, space == std::string::npos ? text.size() : space + 1);
    source.latest = std::max(source.latest, *time);  // clocks may be set back
  }
  source.bytes += text.size() + 1;
  source.lines.push_back({source.latest, std::chrono::steady_clock::now(), std::move(text)});
  changed_.notify_all();
}

std::optional<std::size_t> LogMerge::Earliest() const {
  std::optional<std::size_t> earliest;
  for (std::size_t i = 0; i < sources_.size(); ++i) {
    if (sources_[i].lines.empty()) continue;
    if (!earliest || sources_[i].lines.front().time < sources_[*earliest].lines.front().time) {
      earliest = i;
    }
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
    Line line{static_cast<int>(*earliest), from.lines.front().time,
              std::move(from.lines.front().text)};
    from.lines.pop_front();
    from.bytes -= line.text.size() + 1;
    changed_.notify_all();
    return line;
  }
}

}  // namespace lockstep::cli
