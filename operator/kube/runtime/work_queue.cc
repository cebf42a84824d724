#include "operator/kube/runtime/work_queue.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace lockstep::kube {

WorkQueue::WorkQueue(const Clock& clock, BackoffPolicy policy, std::uint32_t seed,
                     int most_of_namespace)
    : clock_(clock),
      policy_(policy),
      most_of_namespace_(most_of_namespace > 0 ? most_of_namespace
                                               : std::numeric_limits<int>::max()),
      random_(seed) {}

void WorkQueue::Add(const Key& key) {
  std::unique_lock lock(mutex_);
  const Wakeup wakeup = AddLocked(key);
  UnlockAndNotify(lock, wakeup);
}

void WorkQueue::AddAfter(const Key& key, Duration delay) {
  std::unique_lock lock(mutex_);
  const Wakeup wakeup = AddAfterLocked(key, delay);
  UnlockAndNotify(lock, wakeup);
}

void WorkQueue::AddWithin(const Key& key, Duration delay) {
  AddWish(key, {delay, false});
}

void WorkQueue::AddSoon(const Key& key, Duration delay) {
  AddWish(key, {delay, true});
}

void WorkQueue::AddWish(const Key& key, const Wish& wish) {
  std::unique_lock lock(mutex_);
  if (processing_.contains(key)) {
    const auto [known, is_new] = wished_.try_emplace(key, wish);
    if (is_new) return;
    known->second.delay = std::min(known->second.delay, wish.delay);
    known->second.also_if_failed |= wish.also_if_failed;
  } else if (wish.also_if_failed || !failures_.contains(key)) {
    const Wakeup wakeup = AddAfterLocked(key, wish.delay);
    UnlockAndNotify(lock, wakeup);
  }
}

void WorkQueue::AddRateLimited(const Key& key) {
  std::unique_lock lock(mutex_);
  std::uniform_real_distribution<double> uniform(0.0, 1.0);
  ++retries_;
  const Wakeup wakeup =
      AddAfterLocked(key, BackoffDelay(policy_, ++failures_[key], uniform(random_)));
  UnlockAndNotify(lock, wakeup);
}

void WorkQueue::Forget(const Key& key) {
  const std::lock_guard lock(mutex_);
  failures_.erase(key);
  const auto delayed = delayed_.find(key);
  if (delayed == delayed_.end()) return;
  due_.erase({delayed->second, key});
  delayed_.erase(delayed);
}

std::optional<Key> WorkQueue::Get() {
  std::unique_lock lock(mutex_);
  while (!shut_down_) {
    MoveDueLocked();
    std::optional<Key> key = TakeLocked();
    if (!key) {
      WaitLocked(lock);
      continue;
    }
    const Wakeup wakeup = NextLocked() == turns_.end() ? ForDueLocked() : ForReadyLocked();
    UnlockAndNotify(lock, wakeup);
    return key;
  }
  return std::nullopt;
}

void WorkQueue::WaitLocked(std::unique_lock<std::mutex>& lock) {
  if (due_.empty() || has_timekeeper_) {
    ++idle_count_;
    idle_.wait(lock);
    --idle_count_;
  } else {
    has_timekeeper_ = true;
    timekeeper_.wait_for(lock, due_.begin()->first - clock_.SteadyNow());
    has_timekeeper_ = false;
  }
}

void WorkQueue::UnlockAndNotify(std::unique_lock<std::mutex>& lock, Wakeup wakeup) {
  lock.unlock();
  if (wakeup != nullptr) wakeup->notify_one();
}

WorkQueue::Wakeup WorkQueue::ForReadyLocked() {
  if (idle_count_ > 0) return &idle_;
  return has_timekeeper_ ? &timekeeper_ : nullptr;
}

WorkQueue::Wakeup WorkQueue::ForDueLocked() {
  if (due_.empty() || has_timekeeper_) return nullptr;
  return idle_count_ > 0 ? &idle_ : nullptr;
}

std::optional<Key> WorkQueue::TryGet() {
  const std::lock_guard lock(mutex_);
  if (shut_down_) return std::nullopt;
  MoveDueLocked();
  return TakeLocked();
}

void WorkQueue::Done(const Key& key) {
  std::unique_lock lock(mutex_);
  const auto started = processing_.find(key);
  if (started == processing_.end()) return;
  if (observer_ != nullptr) observer_->OnDone(clock_.SteadyNow() - started->second);
  processing_.erase(started);
  const auto busy = busy_.find(key.namespace_name);
  if (--busy->second == 0) busy_.erase(busy);
  if (dirty_.contains(key)) PutReadyLocked(key);
  const auto wished = wished_.extract(key);
  Wakeup for_wish = nullptr;
  // A key that has failed is retried, which is the look that AddWithin wished for.
  if (!wished.empty() && (wished.mapped().also_if_failed || !failures_.contains(key))) {
    for_wish = AddAfterLocked(key, wished.mapped().delay);
  }
  const Wakeup for_ready = NextLocked() == turns_.end() ? nullptr : ForReadyLocked();
  UnlockAndNotify(lock, for_ready);
  if (for_wish != nullptr) for_wish->notify_one();
}

void WorkQueue::ShutDown() {
  const std::lock_guard lock(mutex_);
  shut_down_ = true;
  idle_.notify_all();
  timekeeper_.notify_all();
}

std::size_t WorkQueue::size() const {
  const std::lock_guard lock(mutex_);
  return ready_count_;
}

WorkQueueStats WorkQueue::Stats() const {
  const std::lock_guard lock(mutex_);
  WorkQueueStats stats{
      .ready = ready_count_, .delayed = delayed_.size(), .adds = adds_, .retries = retries_};
  if (!due_.empty()) stats.next_due = due_.begin()->first - clock_.SteadyNow();
  const auto longest =
      std::ranges::min_element(processing_, {}, [](const auto& entry) { return entry.second; });
  if (longest != processing_.end()) {
    stats.longest = longest->first;
    stats.longest_running = clock_.SteadyNow() - longest->second;
  }
  return stats;
}

WorkQueue::Wakeup WorkQueue::AddLocked(const Key& key) {
  if (shut_down_ || !dirty_.try_emplace(key, clock_.SteadyNow()).second) return nullptr;
  ++adds_;
  if (processing_.contains(key)) return nullptr;  // Done moves it to ready_
  PutReadyLocked(key);
  return ForReadyLocked();
}

WorkQueue::Wakeup WorkQueue::AddAfterLocked(const Key& key, Duration delay) {
  if (shut_down_) return nullptr;
  if (delay <= Duration::zero()) return AddLocked(key);
  const SteadyTime due = clock_.SteadyNow() + delay;
  const auto [it, added] = delayed_.try_emplace(key, due);
  if (!added) {
    if (it->second <= due) return nullptr;
    due_.erase({it->second, key});
    it->second = due;
  }
  due_.insert({due, key});
  if (due_.begin()->second != key) return nullptr;  // another key is due earlier
  return has_timekeeper_ ? &timekeeper_ : ForDueLocked();
}

void WorkQueue::MoveDueLocked() {
  const SteadyTime now = clock_.SteadyNow();
  while (!due_.empty() && due_.begin()->first <= now) {
    const Key key = due_.begin()->second;
    due_.erase(due_.begin());
    delayed_.erase(key);
    AddLocked(key);
  }
}

void WorkQueue::PutReadyLocked(const Key& key) {
  std::deque<Key>& ready = ready_[key.namespace_name];
  if (ready.empty()) turns_.push_back(key.namespace_name);
  ready.push_back(key);
  ++ready_count_;
}

std::deque<std::string>::iterator WorkQueue::NextLocked() {
  return std::ranges::find_if(turns_, [this](const std::string& name) {
    const auto busy = busy_.find(name);
    return busy == busy_.end() || busy->second < most_of_namespace_;
  });
}

std::optional<Key> WorkQueue::TakeLocked() {
  const auto next = NextLocked();
  if (next == turns_.end()) return std::nullopt;
  const auto ready = ready_.find(*next);
  turns_.erase(next);
  Key key = std::move(ready->second.front());
  ready->second.pop_front();
  --ready_count_;
  if (ready->second.empty()) {
    ready_.erase(ready);
  } else {
    turns_.push_back(key.namespace_name);
  }
  ++busy_[key.namespace_name];
  const SteadyTime now = clock_.SteadyNow();
  const auto added = dirty_.find(key);
  if (observer_ != nullptr) observer_->OnTaken(now - added->second);
  dirty_.erase(added);
  processing_.emplace(key, now);
  return key;
}

}  // namespace lockstep::kube
