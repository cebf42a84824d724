// With whom a process of a pipeline exchanges what. The ranks of a job are its pipelines, one after
// the other, each with a rank for each stage of the model.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "trainer/strategy/stage_link.h"
#include "trainer/strategy/strategy.h"

namespace lockstep::train {

struct StagePlace {
  int stage = 0, stages = 1;
  int pipeline = 0, pipelines = 1;
  bool is_first() const { return stage == 0; }
  bool is_last() const { return stage == stages - 1; }
  bool operator==(const StagePlace&) const = default;
};
StagePlace PlaceOf(int rank, int stages, int world);

// Bytes of a message, and how many may be on their way at once.
struct StageMessages {
  std::size_t bytes = 0;
  int slots = 1;
};
// What a stage sends to the next one for each micro-batch, and what it gets back. The two stages
// agree on both; zeros where there is no neighbour.
struct StageTraffic {
  StageMessages from_previous, to_previous, to_next, from_next;
};

// As a Strategy: one thread uses it, and every error ends the generation.
class StageGroups {
 public:
  virtual ~StageGroups() = default;
  virtual const StagePlace& place() const = 0;
  // The ranks with the same stage, by their pipeline: they have the same parameters. Already
  // connected; its step is that of the whole Strategy.
  virtual Strategy& peers() = 0;
  // Null where there is no neighbour.
  virtual StageLink* from_previous() = 0;
  virtual StageLink* to_previous() = 0;
  virtual StageLink* to_next() = 0;
  virtual StageLink* from_next() = 0;
  // Copies `data` from rank 0 to the first pipeline's rank with `stage`, or from that to rank 0.
  // Both call it; the others do not. Requires: the stage is not the first.
  virtual absl::Status FromRankZero(int stage, std::span<std::byte> data) = 0;
  virtual absl::Status ToRankZero(int stage, std::span<std::byte> data) = 0;
};

// Synchronous pipelines: each stage's ranks sum their gradients as CollectiveStrategy does.
// `gradients`, `options`, `sums`: see MakeCollectiveStrategy. Unavailable: see
// GradientBuffer::Create. Requires: the number of ranks is a multiple of `stages` > 1.
absl::StatusOr<std::unique_ptr<Strategy>> MakePipelineStrategy(int stages,
                                                               const StageTraffic& traffic,
                                                               GradientBuffer& gradients,
                                                               const CollectiveOptions& options,
                                                               std::optional<DeviceSums> sums);

}  // namespace lockstep::train
