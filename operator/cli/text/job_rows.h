// A line for each replica and event of a job, for whoever shows them. Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "operator/cli/cluster/job_facts.h"
#include "operator/kube/object.h"

namespace lockstep::cli {

struct ReplicaRow {
  std::string replica;          // "worker-1"
  std::string pod;              // its name; empty: there is none
  std::string node;             // empty: none yet
  std::optional<int> restarts;  // by the kubelet; nullopt: there is no pod
  std::optional<Time> created;  // the pod
  std::string state;            // see PodState; may have line feeds
};

struct ReplicaRows {
  std::vector<ReplicaRow> rows;
  std::vector<std::string> names;        // of all, with a row and without
  std::size_t running = 0, omitted = 0;  // those without a row that simply run, and the others
};

// Returns the replicas in the order of the spec, and then those that only pods have, each with its
// newest pod. Of more than `most`, only those that do not simply run, and only `most` of these.
ReplicaRows RowsOfReplicas(const JobFacts& facts, std::size_t most);

struct EventRow {
  Time last;
  int count = 1;
  std::string type, object, reason;
  std::string message;  // may have line feeds
};

// Returns the `most` newest events, the newest last.
std::vector<EventRow> RowsOfEvents(const std::vector<kube::Object>& events, std::size_t most);

}  // namespace lockstep::cli
