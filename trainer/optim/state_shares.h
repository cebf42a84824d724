// How the optimizer's state is divided among ranks, each of which updates the parameters of its own
// share: stage 1 of ZeRO (Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training Trillion
// Parameter Models", 2020).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "trainer/backend/backend.h"
#include "trainer/core/flat_range.h"
#include "trainer/nn/model.h"

namespace lockstep::train {

// Divides [0, floats) of a model's flat parameters into one range for each rank: consecutive, in
// the order of the ranks, and as equal as possible. They begin at multiples of kArenaAlignment, so
// that an update of a share computes what an update of all does; with `whole_tensors`, they begin
// where a tensor does, so that its norms are those of the whole. Some are empty if there is too
// little to divide. `tensors` ascend. Pure, so that all ranks agree. Requires: ranks >= 1.
std::vector<FlatRange> PlanStateShares(std::span<const TensorSlot> tensors, std::int64_t floats,
                                       int ranks, bool whole_tensors);

// Returns the parts of `segments` that are in `share`, counted from its beginning.
std::vector<OptimizerSegment> SegmentsOfShare(std::span<const OptimizerSegment> segments,
                                              const FlatRange& share);

// Returns those of `matrices` that are in `share`, counted from its beginning. Requires: it begins
// and ends where a tensor does.
std::vector<MatrixRange> MatricesOfShare(std::span<const MatrixRange> matrices,
                                         const FlatRange& share);

}  // namespace lockstep::train
