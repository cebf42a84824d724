#include "operator/kube/rest/timer_thread.h"

#include <utility>

namespace lockstep::kube {

TimerThread::TimerThread() : thread_([this](const std::stop_token& stop) { Run(stop); }) {}

TimerThread::~TimerThread() = default;

TimerThread::Id TimerThread::Set(SteadyTime when, std::function<void()> ring) {
  const std::lock_guard lock(mutex_);
  const Id id{when, next_++};
  pending_.emplace(id, std::move(ring));
  if (pending_.begin()->first == id) earlier_.notify_one();
  return id;
}

void TimerThread::Cancel(const Id& id) {
  const std::lock_guard lock(mutex_);
  // The thread wakes up at the old time and finds nothing, which is cheaper than a notify.
  pending_.erase(id);
}

void TimerThread::Run(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (!stop.stop_requested()) {
    if (pending_.empty()) {
      earlier_.wait(lock, stop, [this] { return !pending_.empty(); });
      continue;
    }
    const Id first = pending_.begin()->first;
    if (first.first > std::chrono::steady_clock::now()) {
      earlier_.wait_until(lock, stop, first.first,
                          [&] { return !pending_.empty() && pending_.begin()->first < first; });
      continue;
    }
    const auto ring = std::move(pending_.begin()->second);
    pending_.erase(pending_.begin());
    lock.unlock();
    ring();
    lock.lock();
  }
}

}  // namespace lockstep::kube
