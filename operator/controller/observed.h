// Everything a decision about a job may look at. Plain values: rules are pure functions of them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "api/v1/training_job.h"
#include "operator/controller/settings.h"
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

struct ObservedPod {
  std::string name, uid;
  api::Role role = api::Role::kWorker;
  int index = 0;
  int attempt = 0;
  PodPhase phase = PodPhase::kPending;
  bool ready = false;
  std::optional<Termination> termination;  // of the main container; absent while it runs
  int restart_count = 0;                   // of the main container, by the kubelet
  std::string node, ip;
  std::string reason, message;  // status.reason: "Evicted"
  std::string waiting_reason;   // of the main container: "ImagePullBackOff"
  bool being_deleted = false;
  bool disruption_target = false;  // the condition: preempted, drained, node gone
  bool operator==(const ObservedPod&) const = default;
};

struct Observed {
  api::TrainingJob job;                // with defaults
  std::optional<std::string> invalid;  // why the spec cannot be used
  std::vector<ObservedPod> pods;       // owned by this job, by role and index
  bool has_service = false;
  std::vector<std::string> name_conflicts;  // wanted names that another owner has
  std::optional<api::Progress> progress;    // newer than status.progress, if anything is
  std::optional<Time> last_status_write;    // by this process
  Time now;
  Settings settings;
};

// Reads what rules need out of a Pod; nothing if its labels are not ones that we set.
std::optional<ObservedPod> ObservePod(const kube::Object& pod);

// True if the replica has done its work: the main container ended with 0, whatever sidecars do.
bool HasSucceeded(const ObservedPod& pod);
// True if the replica will do no more work, and has not succeeded.
bool HasFailed(const ObservedPod& pod);
// True if it is neither.
bool IsActive(const ObservedPod& pod);

}  // namespace lockstep::controller
