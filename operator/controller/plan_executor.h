// Executes a plan's actions: makes the API calls and records their outcomes.
#pragma once

#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "base/thread_pool.h"
#include "operator/controller/collaborators.h"
#include "operator/controller/job_memory.h"
#include "operator/controller/rules/plan.h"
#include "operator/controller/state/settings.h"
#include "operator/controller/stores.h"

namespace lockstep::controller {

// Thread-safe for different jobs. The constructor's arguments must outlive it.
class PlanExecutor {
 public:
  PlanExecutor(const Collaborators& with, const Stores& stores, const Settings& settings,
               ThreadPool& pool)
      : with_(with), stores_(stores), settings_(settings), pool_(pool) {}

  // Drops the actions that this reconcile must not execute: creates, and actions that have failed,
  // before their back-off is over, and everything beyond Settings::most_actions. Sets
  // plan.requeue_after for the rest.
  void Bound(Plan& plan, JobMemory& memory) const;

  // Makes the calls, several at a time, in this order: actions that create nothing, then what pods
  // need, then pods. Ramps up slowly if the latest creates failed. Starts no create after one has
  // failed, and no call after one that the overloaded server did not answer. Returns the first
  // error; the faults are then in the job's memory.
  absl::Status Execute(const Plan& plan, ReconcileContext& context);

 private:
  absl::Status ActInSteps(const std::vector<Action>& actions, ReconcileContext& context);
  absl::Status ApplyAction(const Action& action, ReconcileContext& context);
  // Prepares what new pods need besides the job. A failure counts as a failed create.
  absl::Status PreparePods(ReconcileContext& context);
  kube::Object PodOf(const CreatePod& create, const ReconcileContext& context) const;
  absl::Status Create(const kube::Kind& kind, const kube::Object& object,
                      ReconcileContext& context);
  absl::Status CreateTokenSecretOf(bool is_repeat, ReconcileContext& context);
  absl::Status CreateNetworkPolicyOf(bool is_repeat, ReconcileContext& context);
  static absl::Status NoteGuard(const absl::Status& answer, bool is_repeat, Guard& guard,
                                ReconcileContext& context);
  static absl::Status FailCreate(absl::Status status, CreateFault fault, ReconcileContext& context);
  kube::BackoffPolicy Backoff() const;
  void NoteAction(const Action& action, const absl::Status& end, ReconcileContext& context);
  void NoteCreates(bool failed, ReconcileContext& context);
  absl::Status UpdatePodGroupOf(ReconcileContext& context);
  absl::Status Suspend(const SetSuspend& change, ReconcileContext& context);
  absl::Status CreateWorkloadOf(ReconcileContext& context);
  // Applies `change` to the job's Workload and writes the result to its status.
  absl::Status ChangeWorkload(ReconcileContext& context,
                              const std::function<kube::Object(kube::Object)>& change);
  absl::Status DeleteChild(const kube::Kind& kind, ReconcileContext& context);
  absl::Status DeletePodOf(const DeletePod& pod, ReconcileContext& context);
  absl::Status NoteUpdate(const kube::Kind& kind, const absl::StatusOr<kube::Object>& updated,
                          ReconcileContext& context);

  const Collaborators& with_;
  const Stores& stores_;
  const Settings& settings_;
  ThreadPool& pool_;
};

}  // namespace lockstep::controller
