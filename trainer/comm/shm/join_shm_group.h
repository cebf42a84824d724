// How the members of a generation find out whether they share a host, and if all do, map each
// other's memory.
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
  std::unique_ptr<Communicator> communicator;  // null: not all members can, the same on all ranks
  std::string obstacle;                        // then: why, as the first rank that cannot says
};

// Collective over `options.size` >= 2 members, also for those with allow_shm = false. Errors are
// the store's: a verdict could not be reached.
absl::StatusOr<ShmVerdict> JoinShmGroup(const CommunicatorOptions& options, KeyValueStore& store,
                                        GradientBuffer& buffer);

}  // namespace lockstep::train
