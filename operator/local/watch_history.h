// The latest changes of an in-memory API server, from which watches read. Not thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "operator/kube/client.h"
#include "operator/local/object_filter.h"

namespace lockstep::local {

using StoredObject = std::shared_ptr<const kube::Object>;

class WatchHistory {
 public:
  struct Change {
    std::string resource;        // "group/plural"
    StoredObject before, after;  // null: the object did not exist, or no longer exists
    StoredObject last;           // sent to a watcher whose filter the object has left
  };

  // Keeps the last `limit` changes.
  explicit WatchHistory(std::size_t limit) : limit_(limit) {}

  // Adds a change, which gets the version next_version().
  void Record(Change change);
  std::uint64_t version() const { return version_; }  // of the last change
  std::uint64_t next_version() const { return version_ + 1; }

  // Returns the version from which a watch starts: the present one if `version` is empty or "0".
  // FailedPrecondition: not a number. DeadlineExceeded: a version that is yet to come.
  absl::StatusOr<std::uint64_t> Start(const std::string& version) const;

  // Returns the events of `resource` (empty: of all) after `cursor`, and advances `cursor` to
  // version(). OutOfRange if the history no longer contains them all.
  absl::StatusOr<std::vector<kube::WatchEvent>> EventsAfter(const std::string& resource,
                                                            const ObjectFilter& filter,
                                                            std::uint64_t& cursor) const;

 private:
  const std::size_t limit_;
  std::uint64_t version_ = 1;   // 0 is reserved: a watch from 0 starts anywhere
  std::deque<Change> changes_;  // the last one has version_
};

}  // namespace lockstep::local
