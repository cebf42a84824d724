// What to do about a job: actions, a status and events, as values. The rules make them
// (make_plan.h).
#pragma once

#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "api/v1/training_job.h"
#include "base/clock.h"

namespace lockstep::controller {

struct CreateService {
  bool operator==(const CreateService&) const = default;
};
struct CreateTokenSecret {
  bool is_repeat = false;  // it was created for pods that are there
  bool operator==(const CreateTokenSecret&) const = default;
};
struct CreateNetworkPolicy {
  bool is_repeat = false;  // it was created for pods that are there
  bool operator==(const CreateNetworkPolicy&) const = default;
};
struct CreatePod {
  api::Role role = api::Role::kWorker;
  int index = 0;
  int attempt = 0;
  bool has_token = false;
  bool has_network_policy = false;
  std::string trainer_image = {};  // empty: the operator's
  bool operator==(const CreatePod&) const = default;
};
struct DeletePod {
  std::string name, uid;
  bool force = false;  // without a kubelet's word that it has ended
  bool operator==(const DeletePod&) const = default;
};
struct DeleteJob {  // its time to live has passed
  bool operator==(const DeleteJob&) const = default;
};
struct CreatePodGroup {
  bool operator==(const CreatePodGroup&) const = default;
};
struct UpdatePodGroup {  // its spec; what others have added stays
  bool operator==(const UpdatePodGroup&) const = default;
};
struct DeletePodGroup {
  bool operator==(const DeletePodGroup&) const = default;
};
struct SetSuspend {  // spec.suspend, and the counts of roles that it comes with
  bool suspend = true;
  std::map<api::Role, int> counts;
  bool operator==(const SetSuspend&) const = default;
};
struct CreateWorkload {
  bool operator==(const CreateWorkload&) const = default;
};
struct DeleteWorkload {  // made from another spec
  bool operator==(const DeleteWorkload&) const = default;
};
struct ReleaseWorkload {  // evicted, and its pods are gone
  bool operator==(const ReleaseWorkload&) const = default;
};
struct SetWorkloadCondition {  // a condition: PodsReady, Finished
  std::string type;
  bool value = true;
  std::string reason, message;
  bool operator==(const SetWorkloadCondition&) const = default;
};
using Action =
    std::variant<CreateService, CreateTokenSecret, CreateNetworkPolicy, CreatePod, DeletePod,
                 DeleteJob, CreatePodGroup, UpdatePodGroup, DeletePodGroup, SetSuspend,
                 CreateWorkload, DeleteWorkload, ReleaseWorkload, SetWorkloadCondition>;

struct PlannedEvent {
  enum class Type { kNormal, kWarning };
  Type type = Type::kNormal;
  std::string reason;  // "Running"
  std::string message;
  bool operator==(const PlannedEvent&) const = default;
};

// Actions come first, then one status write if it differs, then events. A plan that charges a
// budget or opens a new attempt has no actions: the next reconcile acts on what was written.
struct Plan {
  std::vector<Action> actions;
  api::TrainingJobStatus status;
  // It says nothing that anybody acts on: counts, progress, that a new job was seen.
  bool status_can_wait = false;
  // Of those, only counts and progress: what people look for first goes ahead of them.
  bool only_counts = false;
  std::vector<PlannedEvent> events;
  bool restarts = false;     // replicas start again
  bool names_cause = false;  // and status.failure says why: nobody's consequence
  std::optional<Duration> requeue_after;
};

bool MakesPods(const Plan& plan);

bool IsCreate(const Action& action);
// In which order a plan's actions come: 0, those that create nothing; 1, what must be there before
// a pod is; 2, pods and what they can wait for.
int StageOf(const Action& action);

}  // namespace lockstep::controller
