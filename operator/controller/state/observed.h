// Everything a decision about a job may look at. Plain values: rules are pure functions of them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "api/v1/training_job.h"
#include "operator/controller/state/observed_workload.h"
#include "operator/controller/state/progress_source.h"
#include "operator/controller/state/settings.h"
#include "operator/kube/field_mask.h"
#include "operator/kube/object.h"

namespace lockstep::controller {

enum class PodPhase { kPending, kRunning, kSucceeded, kFailed, kUnknown };

// How the main container ended.
struct Termination {
  int exit_code = 0;
  int signal = 0;                         // 0: none, or the runtime did not say
  std::string reason;                     // "Error", "OOMKilled"
  std::string message;                    // the last log lines
  std::optional<api::Progress> progress;  // the trainer's last word, if that is what it left
  std::optional<Time> finished_at;
  bool operator==(const Termination&) const = default;
};

// metadata.deletionTimestamp and deletionGracePeriodSeconds.
struct Deletion {
  Time deadline;                   // by then the kubelet should have confirmed it
  std::int64_t grace_seconds = 0;  // 0: forced; the API server waits for no kubelet
  Time RequestedAt() const { return deadline - std::chrono::seconds(grace_seconds); }
  bool operator==(const Deletion&) const = default;
};

struct ObservedPod {
  std::string name, uid;
  api::Role role = api::Role::kWorker;
  int index = 0;
  int attempt = 0;
  PodPhase phase = PodPhase::kPending;
  bool ready = false;
  std::optional<Termination> termination;  // of the main container; absent while it runs
  std::optional<Termination> last_end;     // before the kubelet started it again
  int restart_count = 0;                   // of the main container, by the kubelet
  std::string node, ip;
  std::string reason, message;  // status.reason: "Evicted"
  std::string waiting_reason;   // of the main container: "ImagePullBackOff"
  std::string waiting_message;  // "Back-off pulling image …"
  std::string unschedulable;    // the scheduler's word while it finds no place
  bool being_deleted = false;
  std::optional<Deletion> deletion;
  // Since when this process sees it so, by its own clock: those of the API server, the kubelets and
  // this machine differ.
  std::optional<Time> failed_since, succeeded_since, deleting_since, node_silent_since;
  bool disruption_target = false;        // the condition: preempted, drained, node gone
  std::string disruption_reason;         // "PreemptionByScheduler"
  std::string cluster_shape, spec_hash;  // what it was made from; see made_from.h
  bool has_token = false;                // its job's token is mounted into it
  bool has_network_policy = false;       // one was made before its attempt's pods
  // The operator's trainer image that it was created with; empty where the job names its own. If
  // its operator did not note one, the main container's image, which may be the job's own.
  std::string trainer_image;
  bool image_is_noted = false;
  bool operator==(const ObservedPod&) const = default;
};

// Role, index, attempt.
inline std::tuple<api::Role, int, int> PlaceOf(const ObservedPod& pod) {
  return {pod.role, pod.index, pod.attempt};
}

// Why the API server makes no child of the job.
struct CreateFault {
  std::string message;
  bool is_refusal = false;               // the server has understood what it was asked for
  std::optional<api::Role> invalid_pod;  // validation refuses the pods of this role
  bool operator==(const CreateFault&) const = default;
};

struct ObservedJob {
  api::TrainingJob job;                // with defaults
  std::optional<std::string> invalid;  // why the spec cannot be used
  // HeldMetadata of the object; nothing: too large to be held.
  std::optional<std::string> owned_metadata = std::nullopt;
};

struct Observed : ObservedJob {
  std::vector<ObservedPod> pods;  // owned by this job, sorted by PlaceOf
  bool has_service = false;
  // This process has made them for the present attempt; see guard_rule.h.
  bool has_token_secret = false, has_network_policy = false;
  std::optional<kube::Object> pod_group_spec;  // of the job's own PodGroup, if there is one
  std::optional<ObservedWorkload> workload;    // of the job, if Kueue decides when it runs
  std::vector<std::string> name_conflicts;     // wanted names that another owner has
  std::optional<CreateFault> create_fault;     // of the last try
  std::optional<api::Progress> progress;       // newer than status.progress, if anything is
  GroupReport group;                           // what the job's leading pod says of its peers
  std::optional<Duration> until_stranded;      // see losses.h
  std::vector<int> gone_workers;               // see seen_workers.h
  std::optional<Time> last_status_write;       // by this process
  std::optional<Time> last_cause;    // when it last saw what explains why peers end, as below
  std::optional<Time> last_restart;  // when it last had a replica, or all, start again
  Time first_seen;                   // by this process; the first status may be written later
  Time now;
  Settings settings;
};

// Reads what rules need out of a Pod; nothing if its labels are not ones that we set.
std::optional<ObservedPod> ObservePod(const kube::Object& pod);
// The members of a Pod that it and a store read, so that nobody parses the rest.
kube::FieldMask PodFields();

// True if the replica has done its work: the main container ended with 0, whatever sidecars do.
bool HasSucceeded(const ObservedPod& pod);
// True if the replica will do no more work, and has not succeeded.
bool HasFailed(const ObservedPod& pod);
// True if it is neither.
bool IsActive(const ObservedPod& pod);
// True if the kubelet or a node controller has ended the pod and says why in its `reason`: evicted,
// preempted, past its own deadline. How its containers ended is a consequence of that.
bool WasEndedByNode(const ObservedPod& pod);

}  // namespace lockstep::controller
