// Determines whether all members of a generation share a host; if so, maps their memory.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "trainer/comm/communicator.h"
#include "trainer/comm/gradient_buffer.h"
#include "trainer/comm/key_value_store.h"
#include "trainer/comm/make_communicator.h"

namespace lockstep::train {

struct ShmVerdict {
  std::unique_ptr<Communicator> communicator;  // null if any member cannot; same on all ranks
  std::string obstacle;                        // if null: the reason of the first such rank
};

// Every one of `options.size` >= 2 members calls it, even those with allow_shm = false. On failure
// there is no verdict; returns the store's error.
absl::StatusOr<ShmVerdict> JoinShmGroup(const CommunicatorOptions& options, KeyValueStore& store,
                                        GradientBuffer& buffer);

}  // namespace lockstep::train
