#include <algorithm>
#include <vector>

#include "trainer/backend/cpu/matrix_product.h"
#include "trainer/backend/cpu/ops.h"
#include "trainer/backend/cpu/parallel.h"
#include "trainer/backend/muon_optimizer.h"
#include "trainer/backend/update_rules.h"

namespace lockstep::train::cpu {
namespace {

// The values whose squares one call adds up: their order depends on it, and on no number of
// threads.
constexpr std::int64_t kPiece = 8192;

std::int64_t PiecesOf(std::int64_t size) {
  return (size + kPiece - 1) / kPiece;
}

// See MuonSpec for the formula.
class Muon final : public MuonOptimizer {
 public:
  Muon(const Device& device, const MuonSpec& spec)
      : MuonOptimizer(spec, [&](const AdamSpec& adam) { return MakeOptimizerOf(device, adam); }),
        device_(device) {
    std::size_t work = 0;
    std::int64_t pieces = 0;
    for (const MatrixRange& matrix : this->spec().matrices) {
      for (const MuonProduct product : kMuonProducts) {
        products_.emplace_back(device, ShapeOf(matrix, product));
        work = std::max(work, products_.back().ScratchBytes());
      }
      pieces = std::max(pieces, PiecesOf(matrix.size()));
    }
    squares_.resize(static_cast<std::size_t>(pieces));
    PlanScratch(work);
  }

 private:
  bool IsSkipped() const override { return !step().applies; }

  void Direct(const MuonMatrix& matrix, float* x) override {
    const MuonFactors factors{
        .momentum = spec().momentum, .scale = step().gradient_scale, .nesterov = spec().nesterov};
    const std::int64_t pieces = PiecesOf(matrix.size);
    ParallelFor(ThreadsFor(device_.threads, matrix.size), pieces,
                [&](std::int64_t first, std::int64_t last) {
                  for (std::int64_t piece = first; piece < last; ++piece) {
                    const std::int64_t begin = piece * kPiece;
                    squares_[static_cast<std::size_t>(piece)] = device_.kernels.muon_direction(
                        factors, matrix.gradients + begin, matrix.m + begin, x + begin,
                        std::min(kPiece, matrix.size - begin));
                  }
                });
    double sum = 0;
    for (std::int64_t i = 0; i < pieces; ++i) sum += squares_[static_cast<std::size_t>(i)];
    const float divisor = MuonDivisor(sum);
    ParallelForFloats(device_.threads, matrix.size, [&](std::int64_t begin, std::int64_t end) {
      device_.kernels.divide(divisor, x + begin, end - begin);
    });
  }

  void Multiply(std::size_t index, MuonProduct of, const float* a, const float* b,
                float* c) override {
    products_[index * std::size(kMuonProducts) + static_cast<std::size_t>(of)].Run(a, b, c, Work());
  }

  void Combine(float a, const float* x, float b, float* y, std::int64_t size) override {
    ParallelForFloats(device_.threads, size, [&](std::int64_t begin, std::int64_t end) {
      device_.kernels.combine(a, x + begin, b, y + begin, end - begin);
    });
  }

  void Move(const MuonMatrix& matrix, const float* x) override {
    Combine(-(step().learning_rate * matrix.rate_ratio), x,
            KeptByDecay(matrix.weight_decay, step()), matrix.values, matrix.size);
  }

  const Device& device_;
  std::vector<MatrixProduct> products_;  // those of each matrix, in the order of kMuonProducts
  std::vector<double> squares_;          // of each piece of a matrix
};

}  // namespace

std::unique_ptr<OptimizerOp> MakeOptimizer(const Device& device, const MuonSpec& spec) {
  device.Enter();
  return std::make_unique<Muon>(device, spec);
}

}  // namespace lockstep::train::cpu
