// Helper threads that share the work of callers who wait for it.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/status/status.h"

namespace lockstep {

// Starts a thread when there is work for it and fewer than `most` are running, and keeps it, since
// starting one per call would cost a good part of the work. Thread-safe.
class ThreadPool {
 public:
  explicit ThreadPool(std::size_t most);
  ~ThreadPool();  // requires that all calls of ForEach have returned
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  // Calls work(0) … work(count - 1), up to `at_once` at a time, and waits for all of them. The
  // caller's thread works too, so busy helpers never block it. Returns the error with the lowest
  // index, after finishing all others. Rethrows an exception of `work`.
  absl::Status ForEach(std::size_t count, std::size_t at_once,
                       const std::function<absl::Status(std::size_t)>& work);
  // The same for visits that cannot fail.
  void VisitEach(std::size_t count, std::size_t at_once,
                 const std::function<void(std::size_t)>& visit);

 private:
  class Batch;

  void Offer(const std::shared_ptr<Batch>& batch, std::size_t helpers);
  void Withdraw(const std::shared_ptr<Batch>& batch);
  void AddThread();
  void Run();

  const std::size_t most_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Batch>> offers_;  // guarded by mutex_, like the members below
  std::size_t idle_ = 0;
  bool stopped_ = false;
  std::vector<std::jthread> threads_;
};

}  // namespace lockstep
