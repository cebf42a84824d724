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
#include <string>

#include "base/clock.h"
#include "operator/kube/backoff.h"
#include "operator/kube/object.h"

namespace lockstep::kube {

// Called with the queue locked: quick, and never back into the queue.
class WorkQueueObserver {
 public:
  virtual ~WorkQueueObserver() = default;
  virtual void OnTaken(Duration waited) = 0;  // since the key was due
  virtual void OnDone(Duration worked) = 0;
};

struct WorkQueueStats {
  std::size_t ready = 0, delayed = 0;
  std::optional<Duration> next_due;  // until the first of the delayed; nothing without one
  std::int64_t adds = 0, retries = 0;
  // What has been worked on for longest, and since when; empty when nothing is worked on.
  Key longest;
  Duration longest_running{0};
};

class WorkQueue {
 public:
  // Namespaces take turns, and of one of them at most `most_of_namespace` keys are worked on at a
  // time (0: any number).
  explicit WorkQueue(const Clock& clock, BackoffPolicy policy = {}, std::uint32_t seed = 1,
                     int most_of_namespace = 0);

  // Before the first Get; it outlives the queue.
  void SetObserver(WorkQueueObserver* observer) { observer_ = observer; }

  void Add(const Key& key);
  // Of several delays for one key the shortest counts; Add does not cancel it.
  void AddAfter(const Key& key, Duration delay);
  // Longer for each call, until Forget(key).
  void AddRateLimited(const Key& key);
  // Drops the key's failures and the delay that it waits for; what Add put there stands. For a look
  // that went well: it says itself when the next one is due, and of what is gone none is.
  void Forget(const Key& key);

  // Blocks until a key is due; nothing once shut down. The caller owes a Done(key).
  std::optional<Key> Get();
  // Like Get, but nothing if no key is due by the clock now.
  std::optional<Key> TryGet();
  void Done(const Key& key);

  // Wakes every Get(). Later adds are dropped.
  void ShutDown();
  std::size_t size() const;  // keys that are due
  WorkQueueStats Stats() const;

 private:
  // Whom to notify once the lock is free, since who wakes up needs it; null: nobody.
  using Wakeup = std::condition_variable*;
  static void UnlockAndNotify(std::unique_lock<std::mutex>& lock, Wakeup wakeup);
  Wakeup ForReadyLocked();
  Wakeup ForDueLocked();
  Wakeup AddLocked(const Key& key);
  Wakeup AddAfterLocked(const Key& key, Duration delay);
  void MoveDueLocked();
  void PutReadyLocked(const Key& key);
  // Whose turn it is; the end if all that is due is of namespaces that have their share.
  std::deque<std::string>::iterator NextLocked();
  std::optional<Key> TakeLocked();
  void WaitLocked(std::unique_lock<std::mutex>& lock);

  const Clock& clock_;
  const BackoffPolicy policy_;
  const int most_of_namespace_;
  mutable std::mutex mutex_;
  // Of those in Get() one looks after due_, so that not all wake up when a key is due.
  std::condition_variable idle_, timekeeper_;
  // Everything below is guarded by mutex_.
  int idle_count_ = 0;
  bool has_timekeeper_ = false;
  std::mt19937 random_;
  std::map<std::string, std::deque<Key>> ready_;  // by namespace; none is empty
  std::deque<std::string> turns_;                 // namespaces of ready_
  std::size_t ready_count_ = 0;
  std::map<std::string, int> busy_;       // keys of processing_, by namespace
  std::map<Key, SteadyTime> dirty_;       // since when; in ready_, or to be put there by Done
  std::map<Key, SteadyTime> processing_;  // since when
  std::map<Key, SteadyTime> delayed_;
  std::set<std::pair<SteadyTime, Key>> due_;  // delayed_, earliest first
  std::map<Key, int> failures_;
  bool shut_down_ = false;
  std::int64_t adds_ = 0, retries_ = 0;
  WorkQueueObserver* observer_ = nullptr;
};

}  // namespace lockstep::kube
