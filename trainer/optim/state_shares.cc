#include "trainer/optim/state_shares.h"

#include <algorithm>
#include <cstdlib>

#include "base/check.h"
#include "trainer/core/arena.h"

namespace lockstep::train {
namespace {

constexpr std::int64_t kAlignedFloats = kArenaAlignment / sizeof(float);

// The tensor's beginning, or the end of all, that is nearest to `wanted`.
std::int64_t NearestCut(std::span<const TensorSlot> tensors, std::int64_t floats,
                        std::int64_t wanted) {
  std::int64_t nearest = floats;
  for (const TensorSlot& tensor : tensors) {
    if (std::abs(tensor.offset - wanted) < std::abs(nearest - wanted)) nearest = tensor.offset;
  }
  return nearest;
}

}  // namespace

std::vector<FlatRange> PlanStateShares(std::span<const TensorSlot> tensors, std::int64_t floats,
                                       int ranks, bool whole_tensors) {
  LOCKSTEP_CHECK(ranks >= 1, "state shares: found {} ranks, expected at least 1", ranks);
  std::vector<FlatRange> shares;
  std::int64_t begin = 0;
  for (int rank = 1; rank < ranks; ++rank) {
    const std::int64_t wanted = floats / ranks * rank + floats % ranks * rank / ranks;
    const std::int64_t aligned = wanted / kAlignedFloats * kAlignedFloats;
    const std::int64_t cut = whole_tensors ? NearestCut(tensors, floats, wanted) : aligned;
    const std::int64_t end = std::max(begin, cut);
    shares.push_back({begin, end});
    begin = end;
  }
  shares.push_back({begin, floats});
  return shares;
}

std::vector<OptimizerSegment> SegmentsOfShare(std::span<const OptimizerSegment> segments,
                                              const FlatRange& share) {
  std::vector<OptimizerSegment> parts;
  for (const OptimizerSegment& segment : segments) {
    const FlatRange part = Intersection({segment.begin, segment.end}, share);
    if (part.size() == 0) continue;
    parts.push_back({.begin = part.begin - share.begin,
                     .end = part.end - share.begin,
                     .decays = segment.decays});
  }
  return parts;
}

std::vector<MatrixRange> MatricesOfShare(std::span<const MatrixRange> matrices,
                                         const FlatRange& share) {
  std::vector<MatrixRange> parts;
  for (MatrixRange matrix : matrices) {
    const FlatRange part = Intersection({matrix.begin, matrix.end()}, share);
    if (part.size() == 0) continue;
    LOCKSTEP_CHECK(part.size() == matrix.size(), "state shares: a matrix is cut at {} to {}",
                   part.begin, part.end);
    matrix.begin -= share.begin;
    parts.push_back(matrix);
  }
  return parts;
}

}  // namespace lockstep::train
