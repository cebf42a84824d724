// One life of the operator's process over a store, with the faults it meets.
#pragma once

#include <chrono>
#include <memory>
#include <utility>

#include "operator/controller/children/addresses.h"
#include "operator/controller/job_controller.h"
#include "tests/faults/fault_client.h"
#include "tests/support/eventually.h"

namespace lockstep::testing {

inline const SystemClock kRealTime;
inline const controller::DnsAddresses kAddresses;
inline const kube::Key kOperatorKey{"default", "operator-key"};

// One life of the operator's process.
class Process {
 public:
  Process(kube::Client& store, Faults faults) : client_(store, std::move(faults)) {
    controller::JobControllerOptions options;
    options.workers = 1;  // so that the n-th write is the same in every run
    options.tokens = &tokens_;
    options.settings.network_policies = true;
    options.settings.parallel_calls = 1;
    options.settings.restart_backoff = std::chrono::milliseconds(1);
    options.settings.restart_backoff_limit = std::chrono::milliseconds(5);
    options.settings.settling = std::chrono::milliseconds(20);
    options.settings.status_interval = std::chrono::milliseconds(1);
    options.settings.change_hold = std::chrono::milliseconds(0);  // likewise
    options.retry = {.initial = std::chrono::milliseconds(1),
                     .limit = std::chrono::milliseconds(5)};
    options.watch_retry = {.initial = std::chrono::milliseconds(1),
                           .limit = std::chrono::milliseconds(5)};
    operator_ = std::make_unique<controller::JobController>(client_, kAddresses, progress_,
                                                            kRealTime, options);
    operator_->Start();
  }
  FaultClient& client() { return client_; }
  // Nothing is worked on, and what is put off (a deadline, say) is not due before a reconcile that
  // waits for its caches would be.
  bool IsIdle() const {
    const kube::WorkQueueStats queue = operator_->Stats().queue;
    return operator_->HasSynced() && queue.ready == 0 && queue.longest.name.empty() &&
           (!queue.next_due || *queue.next_due > std::chrono::seconds(2));
  }

 private:
  controller::NoProgress progress_;
  FaultClient client_;
  controller::JobTokens tokens_{client_, kRealTime, kOperatorKey};
  std::unique_ptr<controller::JobController> operator_;
};

}  // namespace lockstep::testing
