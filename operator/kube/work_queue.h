// Keys that wait for a worker. A key waits at most once, is never worked on twice at a time, and
// one that is added while it is worked on is handed out again afterwards. Thread-safe.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <set>

#include "api/base/clock.h"
#include "operator/kube/backoff.h"
#include "operator/kube/object.h"

namespace lockstep::kube {

class WorkQueue {
 public:
  explicit WorkQueue(const Clock& clock, BackoffPolicy policy = {}, std::uint32_t seed = 1);

  void Add(const Key& key);
  // Of several delays for one key the shortest counts; Add does not cancel it.
  void AddAfter(const Key& key, Duration delay);
  // Longer for each call, until Forget(key).
  void AddRateLimited(const Key& key);
  void Forget(const Key& key);

  // Blocks until a key is due; nothing once shut down. The caller owes a Done(key).
  std::optional<Key> Get();
  // Like Get, but nothing if no key is due by the clock now.
  std::optional<Key> TryGet();
  void Done(const Key& key);

  // Wakes every Get(). Later adds are dropped.
  void ShutDown();
  std::size_t size() const;  // keys that are due
  // When the earliest delayed key is due; nothing without one.
  std::optional<SteadyTime> NextDue() const;

 private:
  void AddLocked(const Key& key);
  void AddAfterLocked(const Key& key, Duration delay);
  void MoveDueLocked();
  std::optional<Key> TakeLocked();

  const Clock& clock_;
  const BackoffPolicy policy_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // Everything below is guarded by mutex_.
  std::mt19937 random_;
  std::deque<Key> ready_;
  std::set<Key> dirty_;  // in ready_, or to be put there by Done
  std::set<Key> processing_;
  std::map<Key, SteadyTime> delayed_;
  std::set<std::pair<SteadyTime, Key>> due_;  // delayed_, earliest first
  std::map<Key, int> failures_;
  bool shut_down_ = false;
};

}  // namespace lockstep::kube
