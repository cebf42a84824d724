#include "trainer/strategy/make_strategy.h"

#include <utility>

#include "api/v1/names.h"
#include "api/v1/variants.h"
#include "base/check.h"
#include "base/status.h"
#include "base/stop_signal.h"
#include "trainer/rendezvous/solo_rendezvous.h"

namespace lockstep::train {
namespace {

bool IsRankZero(const Identity& identity) {
  return identity.IsLeader() && identity.local_rank == 0;
}

UpdateSite UpdateSiteOf(const Identity& identity) {
  const bool is_central = identity.strategy.type == api::StrategyType::kCentralStorage;
  if (!is_central || identity.World() == 1) return UpdateSite::kEveryRank;
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

absl::StatusOr<Place> PlaceOf(const Identity& identity) {
  switch (identity.strategy.type) {
    case api::StrategyType::kMirrored:
    case api::StrategyType::kMultiWorkerMirrored:
    case api::StrategyType::kParameterServer:
    case api::StrategyType::kCentralStorage:
      return Place{.training = identity.training,
                   .saves = IsRankZero(identity),
                   .update_site = UpdateSiteOf(identity),
                   .variant = std::nullopt,
                   .data_seed = identity.training.seed};
    case api::StrategyType::kIndependent: {
      const int variant = identity.RankOf(identity.local_rank);
      LOCKSTEP_ASSIGN_OR_RETURN(api::TrainingSpec own,
                                api::TrainingOfVariant(identity.training, variant));
      return Place{.training = std::move(own),
                   .saves = true,
                   .update_site = UpdateSite::kEveryRank,
                   .variant = variant,
                   .data_seed = identity.training.seed};
    }
  }
  LOCKSTEP_CHECK(false, "strategy: {} is not a strategy", static_cast<int>(identity.strategy.type));
}

bool AllowsSharedMemory(const Identity& identity) {
  return identity.strategy.communication != api::Communication::kRing;
}

std::unique_ptr<Rendezvous> MakeRendezvous(const Identity& identity, const Clock& clock) {
  const bool is_leading = IsRankZero(identity);
  const bool is_alone =
      identity.IsIndependent() || (identity.UsesParameterServers() && !is_leading);
  if (!is_alone) return MakeRendezvousClient(identity, clock);
  return MakeSoloRendezvous({.role = std::string(api::RoleName(identity.role)),
                             .index = identity.index,
                             .local_rank = identity.local_rank,
                             .address = identity.pod_ip},
                            &StopSignalled);
}

// With a group of one, a collective is the identity.
std::unique_ptr<Strategy> MakeStrategy(const Identity& identity, GradientBuffer& buffer,
                                       std::vector<std::int64_t> layer_starts,
                                       std::optional<DeviceSums> sums, RootMemory* root_memory) {
  return MakeCollectiveStrategy(buffer,
                                {.bind_address = identity.pod_ip,
                                 .allow_shm = AllowsSharedMemory(identity),
                                 .root_memory = root_memory,
                                 .device_road = DeviceRoadOf(identity.strategy.communication),
                                 .layer_starts = std::move(layer_starts),
                                 .token = identity.token,
                                 .stop_requested = &StopSignalled},
                                sums);
}

}  // namespace lockstep::train
