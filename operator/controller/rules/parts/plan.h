// What to do about a job: actions, a status and events, as values. Rules make them, and MakePlan
// (make_plan.h) chooses the rule.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "api/v1/conditions.h"
#include "api/v1/training_job.h"
#include "base/clock.h"
#include "operator/controller/state/observed.h"
#include "operator/controller/state/settings.h"

namespace lockstep::controller {

// How an action is ordered and bounded, and how its failure is reported.
enum class ActionKind {
  kCreateForPods,  // creates what the job's pods cannot do without
  kCreate,
  kDelete,
  kUpdate,
};

// The actions. Each has its kind.
struct CreateService {
  static constexpr ActionKind kKind = ActionKind::kCreateForPods;
  bool operator==(const CreateService&) const = default;
};
struct CreateTokenSecret {
  static constexpr ActionKind kKind = ActionKind::kCreateForPods;
  bool is_repeat = false;  // existing pods already had it
  bool operator==(const CreateTokenSecret&) const = default;
};
struct CreateNetworkPolicy {
  static constexpr ActionKind kKind = ActionKind::kCreateForPods;
  bool is_repeat = false;  // existing pods already had it
  bool operator==(const CreateNetworkPolicy&) const = default;
};
struct CreatePod {
  static constexpr ActionKind kKind = ActionKind::kCreate;
  api::Role role = api::Role::kWorker;
  int index = 0;
  int attempt = 0;
  bool has_token = false;
  bool has_network_policy = false;
  std::optional<TrainerImages> trainer_images = {};  // none: the operator's
  bool without_gang = false;                         // although the operator has a gang scheduler
  bool operator==(const CreatePod&) const = default;
};
struct DeletePod {
  static constexpr ActionKind kKind = ActionKind::kDelete;
  std::string name, uid;
  bool force = false;  // without waiting for the kubelet's confirmation
  bool operator==(const DeletePod&) const = default;
};
struct DeleteJob {  // ttlSecondsAfterFinished has passed
  static constexpr ActionKind kKind = ActionKind::kDelete;
  bool operator==(const DeleteJob&) const = default;
};
struct CreatePodGroup {
  static constexpr ActionKind kKind = ActionKind::kCreate;
  bool operator==(const CreatePodGroup&) const = default;
};
struct UpdatePodGroup {  // its spec; fields added by others are kept
  static constexpr ActionKind kKind = ActionKind::kUpdate;
  bool operator==(const UpdatePodGroup&) const = default;
};
struct DeletePodGroup {
  static constexpr ActionKind kKind = ActionKind::kDelete;
  bool operator==(const DeletePodGroup&) const = default;
};
struct SetSuspend {  // spec.suspend, and the replica counts written with it
  static constexpr ActionKind kKind = ActionKind::kUpdate;
  bool suspend = true;
  std::map<api::Role, int> counts;
  // The message of the event that follows, Evicted or Admitted; empty: none.
  std::string why = {};
  bool operator==(const SetSuspend&) const = default;
};
struct CreateWorkload {
  static constexpr ActionKind kKind = ActionKind::kCreate;
  bool operator==(const CreateWorkload&) const = default;
};
struct DeleteWorkload {  // it was created from another spec
  static constexpr ActionKind kKind = ActionKind::kDelete;
  bool operator==(const DeleteWorkload&) const = default;
};
struct ReleaseWorkload {  // it is evicted and its pods are gone
  static constexpr ActionKind kKind = ActionKind::kUpdate;
  bool operator==(const ReleaseWorkload&) const = default;
};
struct SetWorkloadCondition {  // PodsReady or Finished
  static constexpr ActionKind kKind = ActionKind::kUpdate;
  std::string type;
  bool value = true;
  std::string reason, message;
  bool operator==(const SetWorkloadCondition&) const = default;
};
struct SetReclaimableWorkers {  // that have completed for good: Kueue may give their quota away
  static constexpr ActionKind kKind = ActionKind::kUpdate;
  int workers = 0;
  bool operator==(const SetReclaimableWorkers&) const = default;
};
using Action = std::variant<CreateService, CreateTokenSecret, CreateNetworkPolicy, CreatePod,
                            DeletePod, DeleteJob, CreatePodGroup, UpdatePodGroup, DeletePodGroup,
                            SetSuspend, CreateWorkload, DeleteWorkload, ReleaseWorkload,
                            SetWorkloadCondition, SetReclaimableWorkers>;

struct PlannedEvent {
  enum class Type { kNormal, kWarning };
  Type type = Type::kNormal;
  std::string reason;  // "Running"
  std::string message;
  bool operator==(const PlannedEvent&) const = default;
};

// A change of a group's number of workers that it has followed in place.
struct Resize {
  int from = 0, to = 0;
  bool operator==(const Resize&) const = default;
};

// Execution order: actions, then one status write if the status differs, then events. A plan that
// charges a budget or opens a new attempt has no actions: the next reconcile acts on what was
// written.
struct Plan {
  std::vector<Action> actions;
  api::TrainingJobStatus status;
  // True if no consumer depends on this update (counts, progress, the first sight of a job), so the
  // write may be deferred.
  bool status_can_wait = false;
  // True if only counts and progress differ, so that updates which people look for go first.
  bool only_counts = false;
  // True if the status says no more of a new job than that it has been seen: the next one says
  // that, too.
  bool only_first_sight = false;
  std::vector<PlannedEvent> events;
  std::optional<Resize> resize;      // the events tell of it
  std::optional<Incident> incident;  // if replicas restart: with them, what they were lost in
  bool names_cause = false;  // status.failure is the cause, not a consequence of another failure
  // Set if the status first notes an edit: what the spec says by now and some pods were not told;
  // empty if nothing.
  std::optional<std::string> ignored_edit;
  std::optional<Duration> requeue_after;
};

// Every rule has this form. It is named Plan<Case>, and returns what to do about the job, or
// nullopt if it does not apply to the job. Pure. A rule may call others: Add<Part> takes the plan
// of a rule that applies and adds to it, and <Case>Plan builds a plan for the rule that calls it.
using Rule = std::optional<Plan> (*)(const Observed& observed);

// Return plans that end a job: Running and Restarting turn False.
Plan SucceededPlan(const Observed& observed, const std::string& message);
Plan FailedPlan(const Observed& observed, api::FailureReason reason, const std::string& message);

// Defers the status, and the events about it, to a reconcile after `delay`.
void PutOffStatus(const Observed& observed, Duration delay, Plan& plan);

// Lowers requeue_after to `delay`, unless it is earlier already.
void RequeueWithin(Plan& plan, Duration delay);

bool MakesPods(const Plan& plan);

ActionKind KindOf(const Action& action);
bool IsCreate(const Action& action);
// Returns the stage in which a plan's action is executed: 0 if it creates nothing; 1 if pods need
// it; 2 for pods and what need not precede them.
int StageOf(const Action& action);

}  // namespace lockstep::controller
