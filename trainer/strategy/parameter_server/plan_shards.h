// Which parameter server holds which parameters: a pure function, so that all processes agree.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "api/v1/training_job.h"
#include "trainer/core/flat_range.h"

namespace lockstep::train {

// Each shard's ranges, ascending. A shard stores its ranges one after the other.
using ShardRanges = std::vector<FlatRange>;
std::int64_t FloatsOf(const ShardRanges& ranges);

// Async: a run of states, up to `end`, of which an update keeps this share. An update's states are
// added to it. A worker that pushed the change of states that it pulled some updates ago would take
// away from them, together with the others, more than there is.
struct KeptStates {
  std::int64_t end = 0;
  float kept = 1;
  bool operator==(const KeptStates&) const = default;
};

// Divides [0, end of the last tensor) among `shards` servers. `tensors` ascend; the unused floats
// between two of them go with the former.
//   BySize      equal parts (to 16 floats), in the order of the model: a tensor may be cut
//   RoundRobin  whole tensors in turn, as TensorFlow's replica_device_setter places variables
// A shard may be empty if there are more servers than there is to hold. Requires: shards >= 1.
std::vector<ShardRanges> PlanShards(std::span<const FlatRange> tensors, int shards,
                                    api::ParameterPlacement placement);

}  // namespace lockstep::train
