#include "base/thread_pool.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <system_error>
#include <utility>

#include "base/log.h"

namespace lockstep {

// The work of one ForEach. Each thread takes the next index until none is left, so a helper that
// comes late, after ForEach has returned, finds nothing to do.
class ThreadPool::Batch {
 public:
  Batch(std::size_t count, const std::function<absl::Status(std::size_t)>& work)
      : count_(count), work_(work), results_(count) {}

  void Work() {
    for (std::size_t i = next_++; i < count_; i = next_++) {
      std::exception_ptr thrown;
      try {
        results_[i] = work_(i);
      } catch (...) {  // rethrown by Wait
        thrown = std::current_exception();
      }
      const std::lock_guard lock(mutex_);
      if (thrown) thrown_ = thrown;
      if (++done_ == count_) all_done_.notify_one();
    }
  }

  absl::Status Wait() {
    std::unique_lock lock(mutex_);
    all_done_.wait(lock, [this] { return done_ == count_; });
    if (thrown_) std::rethrow_exception(thrown_);
    for (absl::Status& result : results_) {
      if (!result.ok()) return std::move(result);
    }
    return absl::OkStatus();
  }

 private:
  const std::size_t count_;
  const std::function<absl::Status(std::size_t)>& work_;  // valid until all work is done
  std::vector<absl::Status> results_;
  std::atomic<std::size_t> next_{0};
  std::mutex mutex_;
  std::condition_variable all_done_;
  std::size_t done_ = 0;       // guarded by mutex_
  std::exception_ptr thrown_;  // guarded by mutex_
};

ThreadPool::ThreadPool(std::size_t most) : most_(most) {}

ThreadPool::~ThreadPool() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  changed_.notify_all();
}

absl::Status ThreadPool::ForEach(std::size_t count, std::size_t at_once,
                                 const std::function<absl::Status(std::size_t)>& work) {
  const auto batch = std::make_shared<Batch>(count, work);
  const std::size_t threads = std::min(count, at_once);
  if (threads > 1) Offer(batch, threads - 1);
  batch->Work();
  if (threads > 1) Withdraw(batch);
  return batch->Wait();
}

void ThreadPool::VisitEach(std::size_t count, std::size_t at_once,
                           const std::function<void(std::size_t)>& visit) {
  const auto work = [&visit](std::size_t i) {
    visit(i);
    return absl::OkStatus();
  };
  ForEach(count, at_once, work).IgnoreError();
}

void ThreadPool::Offer(const std::shared_ptr<Batch>& batch, std::size_t helpers) {
  const std::lock_guard lock(mutex_);
  for (std::size_t i = 0; i < helpers; ++i) {
    offers_.push_back(batch);
    if (offers_.size() > idle_ && threads_.size() < most_) AddThread();
    changed_.notify_one();
  }
}

// Removes the offers that are no longer needed.
void ThreadPool::Withdraw(const std::shared_ptr<Batch>& batch) {
  const std::lock_guard lock(mutex_);
  std::erase(offers_, batch);
}

void ThreadPool::AddThread() {
  try {
    threads_.emplace_back([this] { Run(); });
  } catch (const std::system_error& error) {  // callers work without it
    LogWarning("no further thread could be made; work goes on with those that run",
               {{"threads", threads_.size()}, {"error", error.what()}});
  }
}

void ThreadPool::Run() {
  std::unique_lock lock(mutex_);
  while (true) {
    ++idle_;
    changed_.wait(lock, [this] { return stopped_ || !offers_.empty(); });
    --idle_;
    if (stopped_) return;
    const std::shared_ptr<Batch> batch = std::move(offers_.front());
    offers_.pop_front();
    lock.unlock();
    batch->Work();
    lock.lock();
  }
}

}  // namespace lockstep
