// Threads that share the work of whoever waits for it.
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

// Thread-safe. A thread is made when there is work for it and `most` are not reached, and is kept:
// making one for each call costs a good part of what the call does.
class ThreadPool {
 public:
  explicit ThreadPool(std::size_t most);
  ~ThreadPool();  // after the last ForEach has returned
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  // Calls work(0) … work(count - 1), up to `at_once` at a time, and waits for all of them; the
  // caller's thread works too, so busy helpers never stop it. Returns the error of the lowest
  // index; the others are still done. An exception of one of them is thrown on.
  absl::Status ForEach(std::size_t count, std::size_t at_once,
                       const std::function<absl::Status(std::size_t)>& work);

 private:
  class Batch;

  void Offer(const std::shared_ptr<Batch>& batch, std::size_t helpers);
  void Withdraw(const std::shared_ptr<Batch>& batch);
  void AddThread();
  void Run();

  const std::size_t most_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Batch>> offers_;  // guarded by mutex_, like what follows
  std::size_t idle_ = 0;
  bool stopped_ = false;
  std::vector<std::jthread> threads_;
};

}  // namespace lockstep
