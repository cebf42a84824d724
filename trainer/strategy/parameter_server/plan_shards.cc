#include "trainer/strategy/parameter_server/plan_shards.h"

#include <algorithm>

#include "base/check.h"

namespace lockstep::train {
namespace {

constexpr std::int64_t kGrain = 16;  // floats of a cache line, the alignment of tensors

std::vector<ShardRanges> InEqualParts(std::int64_t floats, int shards) {
  std::vector<ShardRanges> plan(static_cast<std::size_t>(shards));
  const std::int64_t grains = (floats + kGrain - 1) / kGrain;
  for (int shard = 0; shard < shards; ++shard) {
    const std::int64_t begin = grains * shard / shards * kGrain;
    const std::int64_t end = std::min(floats, grains * (shard + 1) / shards * kGrain);
    if (begin < end) plan[static_cast<std::size_t>(shard)].push_back({begin, end});
  }
  return plan;
}

// Neighbours on one server (there is one server, say) become one range.
void Append(ShardRanges& ranges, FlatRange range) {
  if (!ranges.empty() && ranges.back().end == range.begin) {
    ranges.back().end = range.end;
  } else {
    ranges.push_back(range);
  }
}

std::vector<ShardRanges> InTurn(std::span<const FlatRange> tensors, int shards) {
  std::vector<ShardRanges> plan(static_cast<std::size_t>(shards));
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::int64_t end = i + 1 < tensors.size() ? tensors[i + 1].begin : tensors[i].end;
    Append(plan[i % plan.size()], {i == 0 ? 0 : tensors[i].begin, end});
  }
  return plan;
}

}  // namespace

std::int64_t FloatsOf(const ShardRanges& ranges) {
  std::int64_t floats = 0;
  for (const FlatRange& range : ranges) floats += range.size();
  return floats;
}

std::vector<ShardRanges> PlanShards(std::span<const FlatRange> tensors, int shards,
                                    api::ParameterPlacement placement) {
  LOCKSTEP_CHECK(shards >= 1, "found {} parameter servers, expected at least 1", shards);
  if (placement == api::ParameterPlacement::kRoundRobin) return InTurn(tensors, shards);
  return InEqualParts(tensors.empty() ? 0 : tensors.back().end, shards);
}

}  // namespace lockstep::train
