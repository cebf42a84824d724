#include "trainer/comm/make_communicator.h"

#include "base/check.h"
#include "base/log.h"
#include "base/status.h"
#include "trainer/comm/gloo/gloo_communicator.h"
#include "trainer/comm/shm/join_shm_group.h"
#include "trainer/comm/single_communicator.h"

namespace lockstep::train {

absl::StatusOr<std::unique_ptr<Communicator>> MakeCommunicator(const CommunicatorOptions& options,
                                                               KeyValueStore& store,
                                                               GradientBuffer& buffer) {
  LOCKSTEP_CHECK(options.size >= 1 && options.rank >= 0 && options.rank < options.size,
                 "communicator: rank is {} of {}", options.rank, options.size);
  if (options.root_memory != nullptr) options.root_memory->Withdraw();
  LOCKSTEP_RETURN_IF_ERROR(buffer.Renew());
  if (options.size == 1) return std::make_unique<SingleCommunicator>(options.cancel);
  LOCKSTEP_ASSIGN_OR_RETURN(ShmVerdict shm, JoinShmGroup(options, store, buffer));
  if (shm.communicator) return std::move(shm.communicator);
  if (options.root_memory != nullptr) options.root_memory->Withdraw();
  LogInfo("communicator: sockets, not shared memory", {{"reason", shm.obstacle}});
  return MakeGlooCommunicator(options, store);
}

}  // namespace lockstep::train
