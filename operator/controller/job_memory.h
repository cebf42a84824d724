// What the reconciler keeps of a job, and what it has in hand while it looks at one.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "operator/controller/children/cluster_spec.h"
#include "operator/controller/expectations.h"
#include "operator/controller/name_conflicts.h"
#include "operator/controller/rules/seen_workers.h"
#include "operator/controller/state/observed.h"
#include "operator/controller/status_throttle.h"
#include "operator/controller/stores.h"

namespace lockstep::controller {

// When this process first saw that of a pod.
struct Sight {
  std::optional<Time> failed, succeeded, deleting, node_silent;
  bool is_pending = false;
  bool operator==(const Sight&) const = default;
};

// What it knows of one of the job's guards, its token's Secret and its NetworkPolicy, which it may
// not read.
struct Guard {
  bool exists = false;         // it did when it was last created
  std::optional<int> attempt;  // for whose pods that was
};

// What this process knows of a job beyond the caches; lost at a restart without harm.
struct JobMemory {
  std::string job_uid;
  kube::Owner owner;  // the job, as its children name it
  Expectations expectations;
  NameConflicts conflicts;
  std::map<std::string, Sight> sights;  // of pods, by uid
  SeenWorkers seen_workers;
  std::optional<Time> last_status_write;
  std::optional<Time> last_cause, last_restart;
  Time first_seen;
  StatusTurns turns;
  std::map<std::string, kube::Object> flavors;  // of Kueue, by name; read once
  std::optional<CreateFault> create_fault;      // of the last try
  int create_failures = 0;                      // in a row
  std::optional<SteadyTime> creates_after;      // none is tried before
  Guard token_secret, network_policy;
  // Where the leading pod is asked for progress, and of which generation of the job: a template is
  // not parsed for that at each look.
  std::optional<std::pair<std::int64_t, int>> leading_port;
};

// One reconcile's values.
struct ReconcileContext {
  kube::Store<ObservedJob>::Ptr job;
  Observed observed;
  std::optional<ClusterSpec> cluster;  // while pods are made
  std::optional<CreateFault> fault;    // of a create; guarded by mutex
  std::atomic<bool> tried_create{false};
  std::atomic<bool> refused{false};  // a create has failed: no other is begun
  // The API server has not answered in time: 512 calls that all wait for it would take an hour.
  std::atomic<bool> unanswered{false};
  std::mutex mutex;  // guards `memory` while actions run in parallel
  JobMemory& memory;
};

// The job's PodGroup or Workload, if the cache has one.
kube::Store<kube::Object>::Ptr ChildOf(const kube::Store<kube::Object>& store,
                                       const ReconcileContext& context);

}  // namespace lockstep::controller
