#include "trainer/backend/cuda/kernels/kernel.h"
#include "trainer/backend/cuda/kernels/kernels.h"
#include "trainer/backend/update_rules.h"

namespace lockstep::train::cuda::kernels {
namespace {

// Calls body(i) for each value of the block's piece, on the threads of the block.
template <typename Body>
__device__ void ForEachOfPiece(std::int64_t size, const Body& body) {
  const std::int64_t begin = static_cast<std::int64_t>(blockIdx.x) * kMuonPiece;
  const std::int64_t end = begin + kMuonPiece < size ? begin + kMuonPiece : size;
  for (std::int64_t i = begin + threadIdx.x; i < end; i += blockDim.x) body(i);
}

}  // namespace

LOCKSTEP_BLOCK_KERNEL(DirectByMuon, const float* gradients, float* m, float* u, std::int64_t size,
                      const OptimizerStep* step, float momentum, bool nesterov, double* squares) {
  if (!step->applies) return;
  const float scale = step->gradient_scale;
  double own = 0;
  ForEachOfPiece(size, [&](std::int64_t i) {
    const float value = MuonDirection(momentum, nesterov, scale * gradients[i], m[i]);
    u[i] = value;
    own += static_cast<double>(value) * value;
  });
  const double sum = BlockSum(own);
  if (threadIdx.x == 0) squares[blockIdx.x] = sum;
}

LOCKSTEP_BLOCK_KERNEL(DivideByNorm, float* x, std::int64_t size, const OptimizerStep* step,
                      const double* squares, std::int64_t pieces) {
  if (!step->applies) return;
  double own = 0;
  for (std::int64_t i = threadIdx.x; i < pieces; i += blockDim.x) own += squares[i];
  const float divisor = MuonDivisor(BlockSum(own));
  ForEachOfPiece(size, [=](std::int64_t i) { x[i] /= divisor; });
}

LOCKSTEP_KERNEL(Combine, float a, const float* x, float b, float* y, std::int64_t size,
                const OptimizerStep* step) {
  if (!step->applies) return;
  ForEach(size, [=](std::int64_t i) { y[i] = a * x[i] + b * y[i]; });
}

LOCKSTEP_KERNEL(MoveByMuon, float* values, const float* x, std::int64_t size,
                const OptimizerStep* step, float weight_decay, float rate_ratio) {
  if (!step->applies) return;
  const float keep = KeptByDecay(weight_decay, *step);
  const float rate = step->learning_rate * rate_ratio;
  ForEach(size, [=](std::int64_t i) { values[i] = keep * values[i] - rate * x[i]; });
}

}  // namespace lockstep::train::cuda::kernels
