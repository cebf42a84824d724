// What the reconciler remembers about a job, and the working state of one reconcile.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/rare.h"
#include "operator/controller/children/cluster_spec.h"
#include "operator/controller/memory/expectations.h"
#include "operator/controller/memory/failed_actions.h"
#include "operator/controller/memory/failed_creates.h"
#include "operator/controller/memory/name_conflicts.h"
#include "operator/controller/memory/seen_completions.h"
#include "operator/controller/memory/seen_evaluator.h"
#include "operator/controller/memory/seen_failures.h"
#include "operator/controller/memory/seen_restarts.h"
#include "operator/controller/memory/seen_workers.h"
#include "operator/controller/memory/unstarted_pods.h"
#include "operator/controller/rules/parts/plan.h"
#include "operator/controller/state/observed.h"
#include "operator/controller/state/stores.h"

namespace lockstep::controller {

// An instant by both clocks. What this process measures is kept as steady instants, since the wall
// clock may be set meanwhile. Rules compare times with Observed::now, so they get `now` minus what
// has passed.
struct Moment {
  Time now;
  SteadyTime steady;
  Time TimeOf(SteadyTime instant) const { return now - (steady - instant); }
  std::optional<Time> TimeOf(const std::optional<SteadyTime>& instant) const {
    return instant ? std::optional(TimeOf(*instant)) : std::nullopt;
  }
  SteadyTime InstantOf(Time time) const { return steady - (now - time); }
};

// When this process first saw each condition of a pod.
struct Sight {
  std::optional<SteadyTime> failed, succeeded, deleting, node_silent;
  // Since when the store of nodes, which is current, has lacked the pod's node at each look.
  std::optional<SteadyTime> node_missing;
  bool node_known = false;  // the store had the pod's node
  bool is_pending = false;
  bool is_at_work = false;  // a peer of the present attempt that ran, and was not about to end
  Place place;              // set if is_at_work
  std::optional<EndedRun> last_run;  // of its main container
  bool operator==(const Sight&) const = default;
};

// What this process knows about one of the job's guards (the token's Secret, the NetworkPolicy),
// which it has no permission to read.
struct Guard {
  bool exists = false;         // a create succeeded, or found that it exists
  std::optional<int> attempt;  // the attempt that this was for
};

// The guard with the token: there is a Secret with the bearer of reports, and one without it.
struct TokenGuard : Guard {
  bool has_bearer = false;
};

// A status after which the job has no pods (it is suspended, or has ended) and which the server has
// refused. It counts as the job's status, and is written again, for as long as the server has the
// same status as then: a write whose answer was lost may have replaced it.
struct RefusedStatus {
  api::TrainingJobStatus status, instead_of;
};

// The port at which a role's pod serves TrainerStatus by the job's spec of this generation; cached
// so that the template is not parsed in each reconcile.
struct ReportingPort {
  std::int64_t generation = 0;
  api::Role role = api::Role::kWorker;
  int port = 0;
};

// When this process first saw that the training of an attempt is over (TrainingEnd).
struct SeenEnd {
  int attempt = 0;
  SteadyTime at;
};

// A time of the status, or that it has none, and when this process first saw that.
struct SeenTime {
  std::optional<Time> noted;
  SteadyTime at;
  bool is_exact = false;  // it came about then: this process had seen the status without it
};

// A plan whose status may have been written: the answer was lost.
struct UnansweredWrite {
  Plan plan;
  Moment moment;
};

// Since when this process has seen that every required replica of an attempt runs (IsComplete),
// with no restart of one by a kubelet.
struct SeenComplete {
  int attempt = 0, kubelet_restarts = 0;
  SteadyTime since;
};

// A change of the number of workers that a group follows in place.
struct GroupResize {
  std::optional<SteadyTime> since;  // it has been told, or must answer first, and saves nothing
  std::optional<int> from;          // the number before
  bool is_untold = false;           // the group has followed from there, and no event says so yet
  int told = 0;                     // as WorkersToTell has it
  // The spec's number, when the group last had it, or else when this process first looked.
  std::optional<int> settled;
};

// What this process knows about a job beyond the caches. Losing it in a restart is harmless.
struct JobMemory {
  std::string job_uid;
  kube::Owner owner;  // the job, as its children refer to it
  Expectations expectations;
  NameConflicts conflicts;
  std::map<std::string, Sight> sights;  // by pod uid
  SeenCompletions seen_completions;
  SeenFailures seen_failures;
  SeenRestarts seen_restarts;
  SeenWorkers seen_workers;
  SeenEvaluator seen_evaluator;
  std::optional<SeenEnd> training_end;
  std::optional<SeenTime> start, completion;
  std::optional<SeenComplete> complete;
  // As in Observed, which has them as times.
  std::optional<SteadyTime> last_status_write, waiting_since, last_cause, last_restart;
  SteadyTime first_seen;
  bool had_cause = false;            // as in Observed
  std::optional<Incident> incident;  // began at incident_since, whatever its `since` says
  SteadyTime incident_since;
  std::string ignored_edit;
  std::map<std::string, kube::Object> flavors;  // Kueue's, by name; read once for each admission
  std::optional<WorkerGrant> worker_grant;      // of the Workload that was seen last
  std::string deleted_workload;  // the uid of the last one that the operator has deleted itself
  FailedCreates failed_creates;
  FailedActions failed_actions;
  UnstartedPods unstarted_pods;
  Rare<RefusedStatus> refused_status;
  Rare<UnansweredWrite> unanswered_write;
  TokenGuard token_secret;
  Guard network_policy;
  // Since when every pod that was seen has been configured to report to this operator as it is
  // configured now.
  std::optional<SteadyTime> hears_since;
  // The attempt in which the job's Service was found to lack the label that the cache selects by.
  std::optional<int> hidden_service;
  std::optional<ReportingPort> reporting_port;
  GroupResize resize;
};

// The working state of one reconcile.
struct ReconcileContext {
  kube::Store<ObservedJob>::Ptr job;
  Observed observed;
  Moment moment = {};                  // of the observation; moment.now is observed.now
  std::optional<ClusterSpec> cluster;  // set while pods are created
  CreateOutcomes creates;
  // No further call starts: 512 calls that all wait for the API server would take an hour.
  std::atomic<bool> overloaded{false};
  std::atomic<bool> out_of_time{false};  // some actions were left out: see Settings::most_time
  bool wrote_job = false;  // the job's spec, so that the status cannot be written at this version
  std::mutex mutex;        // guards `memory` while actions run in parallel
  JobMemory& memory;
};

// Returns the one of `owned`, objects that name the job as their owner, that has the name; null if
// none has. Whoever may create objects of a kind can make others that name the job.
template <typename Ptr>
Ptr OfName(const std::string& name, const std::vector<Ptr>& owned) {
  const auto found =
      std::ranges::find(owned, name, [](const Ptr& object) { return object->key.name; });
  return found == owned.end() ? nullptr : *found;
}

// Returns the job's PodGroup or Workload; null if the cache has none.
template <typename Value>
typename kube::Store<Value>::Ptr ChildOf(const kube::Store<Value>& store, const std::string& name,
                                         const ReconcileContext& context) {
  return OfName(name, store.OwnedBy(context.memory.owner));
}

}  // namespace lockstep::controller
