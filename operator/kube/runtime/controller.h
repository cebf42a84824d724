// Worker threads that take keys from a queue and reconcile them. A failure on one object never
// stops the others.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "operator/kube/runtime/work_queue.h"

namespace lockstep::kube {

// An error: retry with back-off. A duration: reconcile again after it. nullopt: wait for the next
// Add.
using ReconcileFunction = std::function<absl::StatusOr<std::optional<Duration>>(const Key&)>;

class Controller {
 public:
  // `name` appears in logs. The queue must outlive the controller.
  Controller(std::string name, WorkQueue& queue, ReconcileFunction reconcile);
  ~Controller();  // calls Stop()
  Controller(const Controller&) = delete;
  Controller& operator=(const Controller&) = delete;

  void Start(int workers);
  // Shuts the queue down and waits for reconciles in progress. Idempotent.
  void Stop();

  // Reconciles one key that is due on the calling thread; false if there is none. For tests.
  bool ProcessOne();

  std::int64_t successes() const { return successes_; }
  std::int64_t failures() const { return failures_; }

 private:
  void Run();
  void Process(const Key& key);

  const std::string name_;
  WorkQueue& queue_;
  const ReconcileFunction reconcile_;
  std::vector<std::jthread> threads_;
  std::atomic<std::int64_t> successes_{0}, failures_{0};
};

}  // namespace lockstep::kube
