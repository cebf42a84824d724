#include "operator/local/watch_history.h"

#include <fmt/format.h>

#include <charconv>
#include <utility>

namespace lockstep::local {

void WatchHistory::Record(Change change) {
  ++version_;
  changes_.push_back(std::move(change));
  if (changes_.size() > limit_) changes_.pop_front();
}

absl::StatusOr<std::uint64_t> WatchHistory::Start(const std::string& version) const {
  if (version.empty() || version == "0") return version_;
  std::uint64_t start = 0;
  const auto [end, error] = std::from_chars(version.data(), version.data() + version.size(), start);
  if (error != std::errc() || end != version.data() + version.size()) {
    return absl::FailedPreconditionError(
        fmt::format("watch: resourceVersion \"{}\" is not a number", version));
  }
  if (start > version_) {
    return absl::DeadlineExceededError(
        fmt::format("watch: resourceVersion {} is yet to come, the last is {}", start, version_));
  }
  return start;
}

absl::StatusOr<std::vector<kube::WatchEvent>> WatchHistory::EventsAfter(
    const std::string& resource, const ObjectFilter& filter, std::uint64_t& cursor) const {
  const std::uint64_t before_history = version_ - changes_.size();
  if (cursor < before_history) {
    return absl::OutOfRangeError(
        fmt::format("watch: version {} is too old, the oldest kept is {}", cursor, before_history));
  }
  const auto is_seen = [&filter](const StoredObject& object) {
    return object != nullptr && filter.Matches(*object);
  };
  using Type = kube::WatchEvent::Type;
  std::vector<kube::WatchEvent> events;
  for (std::uint64_t i = cursor - before_history; i < changes_.size(); ++i) {
    const Change& change = changes_[i];
    if (!resource.empty() && change.resource != resource) continue;
    const bool was_seen = is_seen(change.before);
    if (is_seen(change.after)) {
      events.push_back({was_seen ? Type::kModified : Type::kAdded, *change.after});
    } else if (was_seen) {
      events.push_back({Type::kDeleted, *change.last});
    }
  }
  cursor = version_;
  return events;
}

}  // namespace lockstep::local
