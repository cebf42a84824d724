// What a job's strategy (api/v1/strategy_traits.h) means for one training process: what it trains,
// whether it saves and updates, whom it meets, and what it combines its gradients with. How many
// share a batch and who leads is in Identity; with parameter servers, train/parameter_worker.h does
// the rest.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "api/v1/training_job.h"
#include "base/clock.h"
#include "trainer/comm/gradient_buffer.h"
#include "trainer/identity/identity.h"
#include "trainer/rendezvous/rendezvous.h"
#include "trainer/strategy/stage_groups.h"
#include "trainer/strategy/strategy.h"

namespace lockstep::train {

struct ReplicaDuties {
  api::TrainingSpec training;  // what the process trains
  bool saves = false;          // reads and writes the checkpoints
  UpdateSite update_site = UpdateSite::kEveryRank;
  std::optional<int> variant;  // of a process that trains alone; see api/v1/variants.h
  // Decides which samples the data set has, and which are held out: the job's seed, also where a
  // variant trains with another, so that the variants' results compare.
  std::int64_t data_seed = 0;
};

// InvalidArgument: the process has no valid variant; names the field.
absl::StatusOr<ReplicaDuties> DutiesOf(const Identity& identity);

// Whether replicas of one host share memory, so that nothing is sent between them. A group of more
// than kMaxSharedRanks does not.
bool AllowsSharedMemory(const Identity& identity);

// How the process meets those that it exchanges with by collectives; alone, if there are none. The
// calls below require that DutiesOf succeeds.
std::unique_ptr<Rendezvous> MakeRendezvous(const Identity& identity, const Clock& clock);

// What a strategy works on. Requires: all of it outlives the strategy.
struct StrategyMemory {
  GradientBuffer& buffer;
  std::vector<std::int64_t> layer_starts;  // see CollectiveOptions
  std::optional<DeviceSums> sums;          // see MakeCollectiveStrategy
  RootMemory* root_memory = nullptr;       // see CollectiveOptions
  StageTraffic traffic;                    // of a model that is cut into stages
};

// How the process combines its gradients with theirs: a PipelineStrategy for a model in stages,
// else the class of the strategy's type, which nothing else picks. A process that trains alone has
// a group of one, where a sum changes nothing; with parameter servers a strategy is made but not
// used, because gradients are pushed to them. Unavailable: see GradientBuffer::Create.
// Requirements: see MakeCollectiveStrategy, MakePipelineStrategy.
absl::StatusOr<std::unique_ptr<Strategy>> MakeStrategy(const Identity& identity,
                                                       StrategyMemory memory);

}  // namespace lockstep::train
