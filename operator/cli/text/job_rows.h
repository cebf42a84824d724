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
  std::vector<std::string> names;  // of all, with a row and without
  std::size_t running = 0,
              omitted = 0;  // replicas without a row: those that simply run, and the rest
};

// Returns the replicas in the order of the spec, then those that the spec does not have but a pod
// belongs to, each with its newest pod. If there are more than `most`, returns only those that do
// not simply run, and at most `most` of these.
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
