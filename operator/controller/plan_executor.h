// Carries out a plan's actions: the calls to the API server, and what is remembered of them.
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

// Thread-safe for different jobs. What it is given outlives it.
class PlanExecutor {
 public:
  PlanExecutor(const Collaborators& with, const Stores& stores, const Settings& settings,
               ThreadPool& helpers)
      : with_(with), stores_(stores), settings_(settings), helpers_(helpers) {}

  // Drops what is not to be done in this reconcile: creates before the back-off is over, and what
  // is beyond Settings::most_actions. plan.requeue_after says when to come back for it.
  void Bound(Plan& plan, const JobMemory& memory) const;

  // Makes the calls, several at a time: first those that create nothing, then what pods need, then
  // pods; slowly at first if the last creates failed. No create is begun after one that failed, and
  // nothing after a call that the server had no time for. The first error; what a create failed for
  // is then in the job's memory.
  absl::Status Execute(const Plan& plan, ReconcileContext& context);

 private:
  absl::Status ActInSteps(const std::vector<Action>& actions, ReconcileContext& context);
  absl::Status ApplyAction(const Action& action, ReconcileContext& context);
  // Whatever new pods need besides the job; a failure is noted as that of a create.
  absl::Status PreparePods(ReconcileContext& context);
  kube::Object PodOf(const CreatePod& create, const ReconcileContext& context) const;
  absl::Status Create(const kube::Kind& kind, const kube::Object& object,
                      ReconcileContext& context);
  absl::Status CreateTokenSecretOf(bool is_repeat, ReconcileContext& context);
  absl::Status CreateNetworkPolicyOf(bool is_repeat, ReconcileContext& context);
  static absl::Status NoteGuard(const absl::Status& answer, bool is_repeat, Guard& guard,
                                ReconcileContext& context);
  static absl::Status FailCreate(absl::Status status, CreateFault fault, ReconcileContext& context);
  void NoteCreates(bool failed, ReconcileContext& context);
  absl::Status UpdatePodGroupOf(ReconcileContext& context);
  absl::Status Suspend(const SetSuspend& change, ReconcileContext& context);
  absl::Status CreateWorkloadOf(ReconcileContext& context);
  // What `change` makes of the job's Workload is written to its status.
  absl::Status ChangeWorkload(ReconcileContext& context,
                              const std::function<kube::Object(kube::Object)>& change);
  absl::Status DeleteChild(const kube::Kind& kind, ReconcileContext& context);
  absl::Status DeletePodOf(const DeletePod& pod, ReconcileContext& context);
  absl::Status NoteUpdate(const kube::Kind& kind, const absl::StatusOr<kube::Object>& updated,
                          ReconcileContext& context);

  const Collaborators& with_;
  const Stores& stores_;
  const Settings& settings_;
  ThreadPool& helpers_;
};

}  // namespace lockstep::controller
