#include "trainer/strategy/make_strategy.h"

#include <utility>

#include "api/v1/names.h"
#include "api/v1/variants.h"
#include "base/check.h"
#include "base/status.h"
#include "base/stop_signal.h"
#include "trainer/comm/shm/shared_barrier.h"
#include "trainer/rendezvous/solo_rendezvous.h"

namespace lockstep::train {
namespace {

bool IsRankZero(const Identity& identity) {
  return identity.IsLeader() && identity.local_rank == 0;
}

UpdateSite UpdateSiteOf(const Identity& identity) {
  if (identity.World() == 1) return UpdateSite::kEveryRank;
  if (identity.strategy.sharding == api::Sharding::kZero1) return UpdateSite::kShares;
  if (!identity.Traits().first_process_updates) return UpdateSite::kEveryRank;
  return IsRankZero(identity) ? UpdateSite::kThisRank : UpdateSite::kRankZero;
}

DeviceRoad DeviceRoadOf(api::Communication communication) {
  switch (communication) {
    case api::Communication::kAuto:
      return DeviceRoad::kNcclIfPossible;
    case api::Communication::kRing:
      return DeviceRoad::kHost;
    case api::Communication::kNccl:
      return DeviceRoad::kNccl;
  }
  LOCKSTEP_CHECK(false, "strategy: {} is no communication", static_cast<int>(communication));
}

}  // namespace

absl::StatusOr<ReplicaDuties> DutiesOf(const Identity& identity) {
  ReplicaDuties duties{.training = identity.training,
                       .saves = IsRankZero(identity),
                       .update_site = UpdateSiteOf(identity),
                       .variant = std::nullopt,
                       .data_seed = identity.training.seed};
  if (!identity.Traits().trains_alone) return duties;
  duties.variant = identity.RankOf(identity.local_rank);
  LOCKSTEP_ASSIGN_OR_RETURN(duties.training,
                            api::TrainingOfVariant(identity.training, *duties.variant));
  duties.saves = true;
  return duties;
}

bool AllowsSharedMemory(const Identity& identity) {
  return identity.strategy.communication != api::Communication::kRing &&
         identity.World() <= kMaxSharedRanks;
}

std::unique_ptr<Rendezvous> MakeRendezvous(const Identity& identity, const Clock& clock) {
  // With parameter servers, rank 0 joins to report its progress and the end of the run.
  const bool joins = identity.Traits().uses_collectives || IsRankZero(identity);
  if (joins) return MakeRendezvousClient(identity, clock);
  return MakeSoloRendezvous({.role = std::string(api::RoleName(identity.role)),
                             .index = identity.index,
                             .local_rank = identity.local_rank,
                             .address = identity.pod_ip},
                            &StopSignalled);
}

absl::StatusOr<std::unique_ptr<Strategy>> MakeStrategy(const Identity& identity,
                                                       StrategyMemory memory) {
  CollectiveOptions options{.bind_address = identity.pod_ip,
                            .allow_shm = AllowsSharedMemory(identity),
                            .root_memory = memory.root_memory,
                            .device_road = DeviceRoadOf(identity.strategy.communication),
                            .layer_starts = std::move(memory.layer_starts),
                            .token = identity.token,
                            .stop_requested = &StopSignalled};
  if (identity.Stages() > 1) {
    return MakePipelineStrategy(identity.Stages(), memory.traffic, memory.buffer, options,
                                memory.sums);
  }
  switch (identity.strategy.type) {
    case api::StrategyType::kMirrored:
    case api::StrategyType::kMultiWorkerMirrored:
    case api::StrategyType::kCentralStorage:
    case api::StrategyType::kIndependent:      // in a group of one
    case api::StrategyType::kParameterServer:  // made, but not used: see RunParameterWorker
      return MakeCollectiveStrategy(memory.buffer, std::move(options), memory.sums);
  }
  LOCKSTEP_CHECK(false, "strategy: {} is not a strategy", static_cast<int>(identity.strategy.type));
}

}  // namespace lockstep::train
