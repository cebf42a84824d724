// The memory of a job's pods, role by role, and whether the job fits. A sum of more bytes than a
// std::size_t holds is the largest one. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "api/v1/training_job.h"
#include "trainer/identity/identity.h"
#include "trainer/plan/replica_memory.h"

namespace lockstep::train {

// The most bytes that a pod of the role may use. A role that is absent has no limit.
using PodLimits = std::map<api::Role, std::uint64_t>;

// The pods of one role.
struct PlannedPods {
  api::Role role = api::Role::kWorker;
  int count = 0;
  std::size_t bytes = 0;  // of the largest of them: all its processes, the supervisor too
  std::size_t all = 0;    // of all of them
  std::optional<std::uint64_t> limit;
  bool FitsLimit() const { return !limit || bytes <= *limit; }
};

struct PlannedMemory {
  ReplicaMemory replica;  // the one that saves checkpoints; of several, the largest
  std::vector<PlannedPods> pods;
  std::size_t job = 0;  // all pods

  // The bytes of all pods without a limit, which have to share the memory of a machine.
  std::size_t WithoutLimit() const;
  // Every pod fits into its limit, and those without one into `available` bytes.
  bool Fits(std::uint64_t available) const;
};

// What the pods of a job consist of.
struct PodContents {
  // In the order of their processes: the leading one, or all of them if they differ, as with
  // Independent and with stages.
  std::vector<ReplicaMemory> replicas;
  ReplicaMemory other;               // any other process of the pods that train
  std::vector<std::size_t> servers;  // of each parameter server, its process included
  std::vector<ReplicaMemory> evaluators;
  std::size_t supervisor = 0;  // of each pod
  // The files of the program and its libraries in each of these processes: memory of the pod once,
  // because its processes share it.
  std::size_t program = 0;
};

// Requires: `replicas` has one entry, or one for each process that trains.
PlannedMemory MemoryOfPods(const Identity& identity, const PodContents& contents,
                           const PodLimits& limits);

}  // namespace lockstep::train
