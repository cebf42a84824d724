// What the replicas of a job send to each other in a step, and to parameter servers.
#pragma once

#include <cstddef>
#include <vector>

#include "absl/status/statusor.h"
#include "trainer/identity/identity.h"
#include "trainer/train/session.h"

namespace lockstep::train {

struct PlannedServer {
  std::size_t moved = 0;   // bytes that each step pulls from it, and pushes to it
  std::size_t held = 0;    // bytes of its values and its optimizer's slots
  std::size_t needed = 0;  // bytes of its memory, beside its program, at most
};

// One of the lists is empty; with a single replica, both are.
struct PlannedMessages {
  std::vector<std::size_t> buckets;  // bytes of each all-reduce, in the order of a step
  std::size_t sent = 0;              // bytes that a replica sends in a step, by a ring
  // CentralStorage: bytes of parameters that rank 0 sends to the others after a step; 0 if they
  // read its memory.
  std::size_t broadcast = 0;
  // Sharding: bytes of parameters that a replica sends in a step beside the sums, on average; 0 if
  // memory is shared.
  std::size_t exchanged = 0;
  bool is_memory_shared = false;  // by all replicas, wherever the job runs: they are in one pod
  std::vector<PlannedServer> servers;
};

// The messages of the group that `session` is a replica of. `remote`: whether parameter servers are
// on other hosts than the replicas. InvalidArgument: as for Shard::Create.
absl::StatusOr<PlannedMessages> MessagesOf(const Identity& identity, bool remote, Session& session);

}  // namespace lockstep::train
