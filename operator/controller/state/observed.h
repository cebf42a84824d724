// Everything that a decision about a job may depend on. Plain values: rules are pure functions of
// them.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "api/v1/training_job.h"
#include "base/rare.h"
#include "operator/controller/state/observed_pod_group.h"
#include "operator/controller/state/observed_workload.h"
#include "operator/controller/state/progress_source.h"
#include "operator/controller/state/settings.h"
#include "operator/kube/field_mask.h"
#include "operator/kube/object.h"

namespace lockstep::controller {

struct Replica {
  api::Role role = api::Role::kWorker;
  int index = 0;
  auto operator<=>(const Replica&) const = default;
};

enum class PodPhase { kPending, kRunning, kSucceeded, kFailed, kUnknown };

// How the main container ended.
struct Termination {
  int exit_code = 0;
  int signal = 0;                                // 0: none, or not reported by the runtime
  std::string reason;                            // "Error", "OOMKilled"
  std::string message;                           // the last log lines
  std::optional<api::Progress> progress;         // the trainer's last report, if the message is one
  std::vector<api::VariantResult> results = {};  // of an Independent job's pod, likewise
  std::optional<Time> finished_at;
  std::optional<Time> started_at;  // nullopt: the kubelet ended the container before it had started
  bool operator==(const Termination&) const = default;
};

// A container beside the main one that keeps its pod from being up: an init container that has
// failed, or any that the kubelet cannot start.
struct Blocker {
  std::string container;  // "init container fetch", "container logger"
  int exit_code = 0;      // of an init container that has failed; 0: the kubelet cannot start it
  std::string reason;     // of its end, or why it waits: "ImagePullBackOff"
  std::string message;    // the last log lines, or what the kubelet says
  bool operator==(const Blocker&) const = default;
};

// metadata.deletionTimestamp and deletionGracePeriodSeconds.
struct Deletion {
  Time deadline;                   // the kubelet should have confirmed the end by then
  std::int64_t grace_seconds = 0;  // 0: forced; the API server does not wait for a kubelet
  Time RequestedAt() const { return deadline - std::chrono::seconds(grace_seconds); }
  bool operator==(const Deletion&) const = default;
};

// ObservedPod::waiting_reason of a pod that the scheduler does not look at yet.
inline constexpr char kSchedulingGated[] = "SchedulingGated";

struct ObservedPod {
  std::string name, uid;
  api::Role role = api::Role::kWorker;
  int index = 0;
  int attempt = 0;
  PodPhase phase = PodPhase::kPending;
  bool ready = false;
  Rare<Termination> termination;  // of the main container; absent while it runs
  Rare<Termination> last_end;     // of the container's previous run
  int last_run = 0;               // the number of that run, from 0
  // By the kubelet, of the main container and of init containers that have not succeeded. Like a
  // sidecar's end, its restart is no failure of the replica.
  int restart_count = 0;
  // The part of these after ends that, as this process has seen, followed from others' losses, or
  // may yet be found to. They are not charged.
  int excused_restarts = 0;
  std::optional<Time> running_since;  // of the main container's present run, by its node
  std::string node, ip;
  std::string reason, message;  // status.reason: "Evicted"
  std::string waiting_reason;   // of the main container: "ImagePullBackOff"; or kSchedulingGated
  std::string waiting_message;  // "Back-off pulling image …"; or the names of the pod's gates
  // At most one. A vector, because most pods have none, and thousands of pods are held.
  std::vector<Blocker> blockers;
  std::string unschedulable;  // the scheduler's message while no node fits
  bool being_deleted = false;
  std::optional<Deletion> deletion;
  // Since when this process has seen each state, by its own steady clock: the clocks of the API
  // server, the kubelets and this machine differ, and may be set.
  std::optional<Time> failed_since, succeeded_since, deleting_since, node_silent_since;
  bool is_gone = false;  // only remembered: it ran when it was last seen, and no longer exists
  // Its node was not ready, or did not exist, when nodes were last heard of, but that may be over.
  bool node_is_unknown = false;
  // Its node is not ready, but does not count as silent: see NodeHealth::IsWideOutage.
  bool node_is_in_outage = false;
  bool disruption_target = false;             // the pod's condition: preempted, drained, node gone
  std::string disruption_reason;              // "PreemptionByScheduler"
  std::string cluster_shape, spec_hash;       // what it was created from; see pod_revision.h
  std::string elastic_peers, elastic_bounds;  // what else it was told; empty: not noted
  bool starts_again = false;                  // after a success, too, by the operator
  bool has_token = false;                     // its job's token is mounted into it
  std::string report_channel;                 // see ChannelOf; empty: it has no bearer of reports
  bool has_network_policy = false;            // one was created before its attempt's pods
  // Whose PodGroup it is in; a template may name that of another scheduler.
  bool in_volcano_group = false, in_plugins_group = false;
  // The operator's trainer images when it created the pod; empty if the job names its own image.
  // Pods of operators that noted none have the main container's image, which may be the job's own.
  TrainerImages trainer_images;
  bool image_is_noted = false;
  bool operator==(const ObservedPod&) const = default;
};

// Role, index, attempt.
using Place = std::tuple<api::Role, int, int>;
inline Place PlaceOf(const ObservedPod& pod) {
  return {pod.role, pod.index, pod.attempt};
}

// Replicas that were lost together, though seen one after another: those of a node that is drained.
struct Incident {
  Time since;  // when the first was charged
  int attempt = 0;
  std::set<Replica> replicas;
  // A failure that may be a consequence was charged because no cause was found. Later failures of
  // other replicas that may be consequences belong to the incident, too.
  bool charged_consequence = false;
  bool operator==(const Incident&) const = default;
};

// Why the API server does not create a child of the job.
struct CreateFault {
  std::string message;
  bool is_refusal = false;               // the server understood the request and rejected it
  std::optional<api::Role> invalid_pod;  // validation rejects the pods of this role
  bool operator==(const CreateFault&) const = default;
};

// Why the API server does not delete or update something that the rules want it to.
struct ActionFault {
  std::string reason;  // "DeleteFailed" or "UpdateFailed"
  std::string message;
  bool operator==(const ActionFault&) const = default;
};

struct ObservedJob {
  api::TrainingJob job;                // with defaults
  std::optional<std::string> invalid;  // why the spec is unusable
  // Set if the rest of the spec does not allow the requested number of workers: the reason why the
  // job keeps its present number, which `job` has.
  std::optional<std::string> kept_size = std::nullopt;
  // HeldMetadata of the object; nullopt if too large to hold.
  std::optional<std::string> owned_metadata = std::nullopt;
  bool keeps_children = false;  // whoever deletes the job wants them kept: the finalizer `orphan`
};

struct Observed : ObservedJob {
  // Owned by this job, sorted by PlaceOf. A pod that has failed stays here until its failure has
  // been judged, even if the pod is gone: see seen_failures.h.
  std::vector<ObservedPod> pods;
  bool has_service = false;
  // True if this process created them for the present attempt; see guards.h.
  bool has_token_secret = false, has_network_policy = false;
  std::optional<ObservedPodGroup> pod_group;  // the job's own, if it exists
  std::optional<ObservedWorkload> workload;   // the job's own, with Kueue, if it exists
  // That of the Workload that this process saw last, if somebody else has deleted it, and the
  // number that it had asked for has not been written since.
  std::optional<WorkerGrant> lost_grant;
  std::vector<std::string> name_conflicts;  // names we need that another owner has
  std::optional<CreateFault> create_fault;  // of the latest try
  std::optional<ActionFault> action_fault;  // of the latest try
  bool is_suspend_refused = false;          // the server refuses writes of spec.suspend
  bool is_suspend_failing = false;          // it refuses them, or they have failed repeatedly
  // Kueue's number of workers, which `job` has, and which the server does not let the operator
  // write.
  std::optional<int> unwritten_workers;
  bool is_delete_failing = false;         // the job is not deleted; see FailedActions::IsFailing
  std::optional<api::Progress> progress;  // newer than status.progress, if known
  GroupReport group;                      // what the leading pod says about its peers
  bool tells_workers = false;             // the leading pod can be told their number
  std::optional<Time> resizing_since;     // since when its group should have followed
  bool saw_scale = false;  // this process has seen the number that the group should follow change
  // The number of workers that the group had before: it has followed, and no event says so yet.
  std::optional<int> resized_from;
  std::optional<Duration> until_stranded;    // see UntilStranded
  std::vector<int> gone_workers;             // see seen_workers.h
  std::vector<int> started_workers;          // likewise
  std::optional<Replica> deleted_unstarted;  // see unstarted_pods.h
  std::optional<Time> evaluator_due;    // of a lost Evaluator's successor; see seen_evaluator.h
  bool evaluator_has_given_up = false;  // see SeenEvaluator::has_given_up
  // Since when this process has known that the attempt's training is over (TrainingEnd), whatever
  // has become of the pods that told so; nullopt if it is not.
  std::optional<Time> training_end_seen;
  std::optional<Time> last_status_write;  // by this process
  // When this process last charged or saw a loss that explains peers' ends: see ObserveSights.
  std::optional<Time> last_cause;
  std::optional<Time> last_restart;  // when it last restarted a replica or the gang
  std::optional<Incident> incident;  // the latest that it charged
  // How long the operator still waits for a cause that explains restarts by kubelets.
  std::optional<Duration> until_restarts_count;
  // Since when this process has seen, at each look, that the job waits for its replicas (see
  // IsWaiting); nullopt if it does not.
  std::optional<Time> waiting_since;
  // Since when it has seen, at each look, that every required replica of the attempt runs (see
  // IsComplete); nullopt if one does not.
  std::optional<Time> complete_since;
  std::string ignored_edit;  // Plan::ignored_edit when it last noted an edit
  // When this process first saw workers to have succeeded whose pods are gone or being deleted, by
  // index; see seen_completions.h.
  std::map<int, Time> completed_since;
  // When the job started, and ended, by what this process has seen: the clock may have been set
  // since the times of the status were written. nullopt if the status has no such time.
  std::optional<Time> started_at, ended_at;
  Time first_seen;         // by this process; the first status may be written later
  bool had_cause = false;  // MayHaveCause of the job at first sight
  Time now;
  Settings settings;
};

// Reads what the rules need from a Pod; nullopt if its labels are not ones that we set.
std::optional<ObservedPod> ObservePod(const kube::Object& pod);
// The members of a Pod that ObservePod and a store read, so that the rest is not parsed.
kube::FieldMask PodFields();

// The glossary (docs/glossary.md, "succeeded") tells these and those in other headers apart.

// Returns true if the pod has succeeded: its main container exited with 0, whatever its sidecars
// do. Without a termination of the main container, the pod's phase decides. If the node ended the
// pod (WasEndedByNode), the program was told to end, and its 0 does not say that it had finished;
// unless this process has seen that before. A pod whose program starts again after a success never
// succeeds; such an end counts as a failure.
bool PodSucceeded(const ObservedPod& pod);
// Returns true if the pod's program ended with success, whether or not it starts again.
bool ProgramSucceeded(const ObservedPod& pod);
// Returns true if the pod will do no more work and has not succeeded.
bool PodFailed(const ObservedPod& pod);
// Returns true if the reason for which a container waits tells of a fault, which may not pass by
// itself.
bool IsStuck(std::string_view waiting_reason);
// Returns true if the pod has neither succeeded nor failed.
bool IsActive(const ObservedPod& pod);
// Returns true if all containers of the pod have ended permanently, so that it uses no resources of
// its node any more. A pod whose main container has ended may still run a sidecar.
bool AllContainersEnded(const ObservedPod& pod);
// Returns true if the main container has run, or may have: all pods in the phase Running count. A
// kubelet that rejects a pod that it has run before, after its own restart, leaves no trace of
// that.
bool MayHaveStarted(const ObservedPod& pod);
// Returns true if the kubelet or a node controller ended the pod and gave a `reason`: evicted,
// preempted, past its own deadline. The exits of its containers are a consequence of that.
bool WasEndedByNode(const ObservedPod& pod);

}  // namespace lockstep::controller
