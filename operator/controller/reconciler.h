// Makes the cluster match one TrainingJob: observe (caches, clock) -> MakePlan (pure) -> execute.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "base/thread_pool.h"
#include "operator/controller/collaborators.h"
#include "operator/controller/memory/job_memory.h"
#include "operator/controller/memory/job_signs.h"
#include "operator/controller/observer.h"
#include "operator/controller/plan_executor.h"
#include "operator/controller/rules/parts/plan.h"
#include "operator/controller/state/settings.h"
#include "operator/controller/state/stores.h"
#include "operator/controller/status_writer.h"

namespace lockstep::controller {

// Thread-safe for different keys; kube::WorkQueue never hands out one key twice at a time. The
// stores and what `with` refers to must outlive it.
class Reconciler {
 public:
  Reconciler(const Collaborators& with, const Stores& stores, Settings settings = {});

  // Reconciles the job once. Returns when to reconcile it again, nullopt to wait for a change, or
  // an error to retry with back-off. Writes nothing until the caches reflect our earlier writes.
  absl::StatusOr<std::optional<Duration>> Reconcile(const kube::Key& key);
  // The number of reconciles that were put off because the caches lagged behind our own writes.
  std::int64_t stale_reads() const { return stale_reads_; }
  // How often a job's group has followed a change of its number of workers without a restart.
  std::int64_t grown() const { return status_writer_.grown(); }
  std::int64_t shrunk() const { return status_writer_.shrunk(); }
  // What metrics tell of the jobs that this process has looked at.
  std::map<kube::Key, JobSigns> signs() const;

 private:
  // Writes the job's status although an action has failed, and in it what keeps children from being
  // created, changed or deleted, so that it is not only in a log. Returns `fault`, or the error of
  // that write.
  absl::Status ReportFault(const absl::Status& fault, ReconcileContext& context);
  JobMemory& MemoryOf(const kube::Key& key, const kube::Cached<ObservedJob>& job);
  void Forget(const kube::Key& key);
  void NoteSigns(const kube::Key& key, const Observed& observed);

  const Collaborators with_;
  const Stores stores_;
  const Settings settings_;
  ThreadPool pool_;
  const Observer observer_;
  PlanExecutor executor_;
  StatusWriter status_writer_;
  std::atomic<std::int64_t> stale_reads_{0};
  mutable std::mutex mutex_;
  // Guarded by mutex_; each entry belongs to the reconcile of its key.
  std::map<kube::Key, JobMemory> memories_;
  std::map<kube::Key, JobSigns> signs_;  // guarded by mutex_
};

}  // namespace lockstep::controller
