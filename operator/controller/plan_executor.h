// Executes a plan's actions: makes the API calls and records their outcomes in the job's memory.
#pragma once

#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "base/thread_pool.h"
#include "operator/controller/collaborators.h"
#include "operator/controller/memory/job_memory.h"
#include "operator/controller/rules/parts/plan.h"
#include "operator/controller/state/settings.h"
#include "operator/controller/state/stores.h"

namespace lockstep::controller {

// Several threads may use it at a time, but only one at a time for the same job. The constructor's
// arguments must outlive it.
class PlanExecutor {
 public:
  PlanExecutor(const Collaborators& with, const Stores& stores, const Settings& settings,
               ThreadPool& pool)
      : with_(with), stores_(stores), settings_(settings), pool_(pool) {}

  // Removes the actions that this reconcile must not execute: those still in back-off, and all that
  // exceed Settings::most_actions. Sets plan.requeue_after so that they are planned again in time.
  void Bound(Plan& plan, JobMemory& memory) const;

  // Makes the calls, several at a time, in this order: actions that create nothing, then guards
  // (Secret, NetworkPolicy), then all other creates. The creates of a group (FailedCreates) whose
  // latest create failed come after the others, begin with a single one, and their number doubles
  // with each step. After a failed create, starts no other of its group; after a failed create of
  // something that all pods need, starts no pod; once the server is overloaded
  // (kube::IsOverloaded), starts no call at all.
  // After Settings::most_time it starts no more calls and sets plan.requeue_after, so that the rest
  // are planned again. Returns the first error. The job's memory then has the faults to report:
  // refusals and repeated failures.
  absl::Status Execute(Plan& plan, ReconcileContext& context);

 private:
  // Actions that are executed in parallel, after those of the parts before.
  struct Part {
    std::vector<Action> actions;
    bool carefully = false;  // in steps of 1, 2, 4 …
  };
  static std::vector<Part> InOrder(std::vector<Action> actions, const JobMemory& memory);
  absl::Status ActInSteps(const std::vector<Part>& parts, ReconcileContext& context);
  absl::Status Act(const Action& action, SteadyTime end, ReconcileContext& context);
  absl::Status ApplyAction(const Action& action, ReconcileContext& context);
  // Prepares what new pods need besides the job. A failure counts as a failed create.
  absl::Status PreparePods(ReconcileContext& context);
  kube::Object PodOf(const CreatePod& create, const ReconcileContext& context) const;
  absl::Status Create(const kube::Kind& kind, const kube::Object& object,
                      ReconcileContext& context);
  absl::Status NoteHiddenService(ReconcileContext& context);
  absl::Status CreateTokenSecretOf(bool is_repeat, ReconcileContext& context);
  absl::Status CreateNetworkPolicyOf(bool is_repeat, ReconcileContext& context);
  static absl::Status RecordGuard(const absl::Status& answer, bool is_repeat, Guard& guard,
                                  ReconcileContext& context);
  static absl::Status FailCreate(absl::Status status, CreateGroup group, CreateFault fault,
                                 ReconcileContext& context);
  void RecordAction(const Action& action, const absl::Status& end, ReconcileContext& context);
  void RecordCreate(const Action& create, const absl::Status& end, ReconcileContext& context);
  absl::Status UpdatePodGroupOf(ReconcileContext& context);
  absl::Status Suspend(const SetSuspend& change, ReconcileContext& context);
  absl::Status CreateWorkloadOf(ReconcileContext& context);
  absl::Status DeleteWorkloadOf(ReconcileContext& context);
  // Applies `change` to the job's Workload and writes the result to its status.
  absl::Status ChangeWorkload(ReconcileContext& context,
                              const std::function<kube::Object(kube::Object)>& change);
  // Returns false if the job is being deleted and the API server no longer has the object as its
  // child: its garbage collector takes the children of a job with the finalizer `orphan` from it
  // before it removes that finalizer, and the cache may show the job without it first.
  absl::StatusOr<bool> MayDelete(const kube::Kind& kind, const kube::Key& key,
                                 ReconcileContext& context) const;
  absl::Status DeleteChild(const kube::Kind& kind, const std::string& name,
                           ReconcileContext& context);
  absl::Status DeletePodOf(const DeletePod& pod, ReconcileContext& context);
  absl::Status RecordUpdate(const kube::Kind& kind, const absl::StatusOr<kube::Object>& updated,
                            ReconcileContext& context);

  const Collaborators& with_;
  const Stores& stores_;
  const Settings& settings_;
  ThreadPool& pool_;
};

}  // namespace lockstep::controller
