// What a process does under a job's strategy: what it trains and saves, how it finds the others,
// and how it sums with them.
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
#include "trainer/strategy/strategy.h"

namespace lockstep::train {

struct Place {
  api::TrainingSpec training;  // what the process trains
  bool saves = false;          // reads and writes the checkpoints
  UpdateSite update_site = UpdateSite::kEveryRank;
  std::optional<int> variant;  // with Independent; see api/v1/variants.h
  // Decides which samples the data set has, and which are held out: the job's seed, also where a
  // variant trains with another, so that the variants' results compare.
  std::int64_t data_seed = 0;
};

// InvalidArgument: the process has no valid variant; names the field.
absl::StatusOr<Place> PlaceOf(const Identity& identity);

// Whether replicas of one host share memory, so that nothing is sent between them.
bool AllowsSharedMemory(const Identity& identity);

// How the process finds those that it trains with. The calls below require that PlaceOf succeeds.
std::unique_ptr<Rendezvous> MakeRendezvous(const Identity& identity, const Clock& clock);

// How the process combines its gradients with theirs. `layer_starts`, `root_memory`: see
// CollectiveOptions; `sums` and requirements: see MakeCollectiveStrategy.
std::unique_ptr<Strategy> MakeStrategy(const Identity& identity, GradientBuffer& buffer,
                                       std::vector<std::int64_t> layer_starts,
                                       std::optional<DeviceSums> sums, RootMemory* root_memory);

}  // namespace lockstep::train
