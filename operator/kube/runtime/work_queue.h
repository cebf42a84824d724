// A queue of keys for workers. A key is queued at most once and never processed by two workers at a
// time; if it is added while it is processed, it is handed out again afterwards. Thread-safe.
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

// Called with the queue locked: must be quick and must not call the queue.
class WorkQueueObserver {
 public:
  virtual ~WorkQueueObserver() = default;
  virtual void OnTaken(Duration waited) = 0;  // since the key became ready
  virtual void OnDone(Duration worked) = 0;
};

struct WorkQueueStats {
  std::size_t ready = 0, delayed = 0;
  std::optional<Duration> next_due;  // until the first delayed key is due; nullopt if there is none
  std::int64_t adds = 0, retries = 0;
  // The key that has been processed for longest, and for how long; empty if none is.
  Key longest;
  Duration longest_running{0};
};

class WorkQueue {
 public:
  // Namespaces take turns. At most `most_of_namespace` keys of one namespace are processed at a
  // time (0: no limit).
  explicit WorkQueue(const Clock& clock, BackoffPolicy policy = {}, std::uint32_t seed = 1,
                     int most_of_namespace = 0);

  // Requires: Get() has not been called. The observer must outlive the queue.
  void SetObserver(WorkQueueObserver* observer) { observer_ = observer; }

  void Add(const Key& key);
  // Adds the key after `delay`. If several delays are pending for one key, the earliest counts. Add
  // does not cancel a pending delay.
  void AddAfter(const Key& key, Duration delay);
  // Adds the key after `delay`. Does nothing for a key that has failed and awaits its retry
  // (AddRateLimited). If the key is being processed, the delay begins with Done(key), because the
  // processing may have begun too early to see the reason for this call; if the processing fails,
  // the retry will see it, and nothing is added.
  void AddWithin(const Key& key, Duration delay);
  // As AddWithin, but adds a key that has failed, too, however far off its retry is.
  void AddSoon(const Key& key, Duration delay);
  // Adds the key after a delay that grows with each call, until Forget(key).
  void AddRateLimited(const Key& key);
  // Drops the key's failure count and pending delay, but not a pending Add. Call it after a
  // successful reconcile, before AddAfter schedules the next one.
  void Forget(const Key& key);

  // Blocks until a key is due; nullopt after ShutDown(). The caller must call Done(key).
  std::optional<Key> Get();
  // Like Get, but nullopt if no key is due now.
  std::optional<Key> TryGet();
  void Done(const Key& key);

  // Wakes every Get(). Later adds are dropped.
  void ShutDown();
  std::size_t size() const;  // ready keys
  WorkQueueStats Stats() const;

 private:
  // What AddWithin and AddSoon were called with.
  struct Wish {
    Duration delay;
    bool also_if_failed;
  };
  void AddWish(const Key& key, const Wish& wish);
  // The condition to notify after unlocking, since the thread that wakes up needs the lock; null:
  // none.
  using Wakeup = std::condition_variable*;
  static void UnlockAndNotify(std::unique_lock<std::mutex>& lock, Wakeup wakeup);
  Wakeup ForReadyLocked();
  Wakeup ForDueLocked();
  Wakeup AddLocked(const Key& key);
  Wakeup AddAfterLocked(const Key& key, Duration delay);
  void MoveDueLocked();
  void PutReadyLocked(const Key& key);
  // Returns the namespace whose turn it is; end() if every namespace with ready keys is at its
  // limit.
  std::deque<std::string>::iterator NextLocked();
  std::optional<Key> TakeLocked();
  void WaitLocked(std::unique_lock<std::mutex>& lock);

  const Clock& clock_;
  const BackoffPolicy policy_;
  const int most_of_namespace_;
  mutable std::mutex mutex_;
  // One thread in Get(), the timekeeper, waits until the first key of due_ is due; the others wait
  // for idle_. So not all wake up when a key is due.
  std::condition_variable idle_, timekeeper_;
  // Everything below is guarded by mutex_.
  int idle_count_ = 0;
  bool has_timekeeper_ = false;
  std::mt19937 random_;
  std::map<std::string, std::deque<Key>> ready_;  // by namespace; none is empty
  std::deque<std::string> turns_;  // namespaces of ready_, in the order of their turns
  std::size_t ready_count_ = 0;
  std::map<std::string, int> busy_;       // number of keys in processing_, by namespace
  std::map<Key, SteadyTime> dirty_;       // since when; in ready_, or moved there by Done
  std::map<Key, SteadyTime> processing_;  // since when
  std::map<Key, SteadyTime> delayed_;
  std::set<std::pair<SteadyTime, Key>> due_;  // delayed_, earliest first
  std::map<Key, int> failures_;
  std::map<Key, Wish> wished_;  // of keys in processing_
  bool shut_down_ = false;
  std::int64_t adds_ = 0, retries_ = 0;
  WorkQueueObserver* observer_ = nullptr;
};

}  // namespace lockstep::kube
