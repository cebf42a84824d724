// Worker threads that take keys from a queue and reconcile them. One bad object never stops the
// rest.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "operator/kube/runtime/work_queue.h"

namespace lockstep::kube {

// An error: again with back-off. A duration: again then. Nothing: when the key is next added.
using ReconcileFunction = std::function<absl::StatusOr<std::optional<Duration>>(const Key&)>;

class Controller {
 public:
  // `name` stands in logs. The queue outlives it.
  Controller(std::string name, WorkQueue& queue, ReconcileFunction reconcile);
  ~Controller();  // Stop()
  Controller(const Controller&) = delete;
  Controller& operator=(const Controller&) = delete;

  void Start(int workers);
  // Shuts the queue down and waits for the reconciles under way. Idempotent.
  void Stop();

  // Reconciles one key that is due now on this thread; false if there is none. For tests.
  bool ProcessOne();

  std::int64_t reconciles() const { return reconciles_; }
  std::int64_t failures() const { return failures_; }

 private:
  void Run();
  void Process(const Key& key);

  const std::string name_;
  WorkQueue& queue_;
  const ReconcileFunction reconcile_;
  std::vector<std::jthread> threads_;
  std::atomic<std::int64_t> reconciles_{0}, failures_{0};
};

}  // namespace lockstep::kube
