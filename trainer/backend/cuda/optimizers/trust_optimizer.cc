#include "trainer/backend/cuda/optimizers/trust_optimizer.h"

#include <vector>

#include "trainer/backend/segments.h"

namespace lockstep::train::cuda {
namespace {

// Blocks enough for every GPU in a large tensor, and not many in a small one.
constexpr std::int64_t kMostInPiece = 8192;

// See TrustTables. Each segment has a piece.
std::vector<std::int64_t> FirstsOf(const std::vector<OptimizerPiece>& pieces) {
  std::vector<std::int64_t> firsts;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    if (pieces[i].segment == std::ssize(firsts)) firsts.push_back(static_cast<std::int64_t>(i));
  }
  firsts.push_back(std::ssize(pieces));
  return firsts;
}

}  // namespace

TrustOptimizer::TrustOptimizer(const char* name, const Device& device, double coefficient,
                               double decay, int slots)
    : name_(name),
      device_(device),
      coefficient_(coefficient),
      decay_(decay),
      slots_(slots),
      pieces_(device),
      firsts_(device),
      segments_(device),
      squares_(device),
      trusts_(device) {}

void TrustOptimizer::Bind(const OptimizerMemory& memory) {
  CheckOptimizerMemory(name_, memory, slots_);
  memory_ = memory;
  const std::vector<OptimizerSegment> segments = SegmentsOf(memory);
  const std::vector<OptimizerPiece> pieces = PiecesOf(segments, kMostInPiece);
  tables_ = {.piece_count = std::ssize(pieces), .segment_count = std::ssize(segments)};
  if (pieces.empty()) return;
  tables_.pieces = pieces_.Upload(pieces);
  tables_.firsts = firsts_.Upload(FirstsOf(pieces));
  tables_.segments = segments_.Upload(segments);
  tables_.squares = squares_.Reserve<TrustSquares>(tables_.piece_count);
  tables_.trusts = trusts_.Reserve<float>(tables_.segment_count);
}

void TrustOptimizer::Step() {
  if (tables_.piece_count == 0) return;
  Measure();
  device_.Launch(
      LOCKSTEP_CUDA_KERNEL(ChooseTrusts),
      {.blocks_x = static_cast<unsigned>(tables_.segment_count), .threads_x = Device::kThreads},
      tables_.firsts, tables_.segments, tables_.squares, memory_.step, coefficient_, decay_,
      tables_.trusts);
  Update();
}

Grid TrustOptimizer::grid() const {
  return {.blocks_x = static_cast<unsigned>(tables_.piece_count), .threads_x = Device::kThreads};
}

}  // namespace lockstep::train::cuda
