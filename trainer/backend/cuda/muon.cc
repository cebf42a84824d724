#include <algorithm>
#include <vector>

#include "trainer/backend/cuda/device/device.h"
#include "trainer/backend/cuda/device/matmul.h"
#include "trainer/backend/cuda/kernels/kernels.h"
#include "trainer/backend/cuda/ops.h"
#include "trainer/backend/muon_optimizer.h"

namespace lockstep::train::cuda {
namespace {

std::int64_t PiecesOf(std::int64_t size) {
  return (size + kernels::kMuonPiece - 1) / kernels::kMuonPiece;
}

// See MuonSpec for the formula. Only launches, so that a step can be recorded: what follows a step
// that does not apply works on what is in the scratch memory, and changes nothing else.
class Muon final : public MuonOptimizer {
 public:
  Muon(const Device& device, const MuonSpec& spec)
      : MuonOptimizer(spec, [&](const AdamSpec& adam) { return MakeOptimizerOf(device, adam); }),
        device_(device) {
    std::size_t work = 0;
    for (const MatrixRange& matrix : this->spec().matrices) {
      for (const MuonProduct product : kMuonProducts) {
        const MatrixProductShape shape = ShapeOf(matrix, product);
        products_.emplace_back(device, MatmulShape{.rows = shape.rows,
                                                   .columns = shape.columns,
                                                   .inner = shape.inner,
                                                   .a_transposed = shape.a_transposed,
                                                   .b_transposed = shape.b_transposed});
        work = std::max(work, products_.back().WorkspaceBytes());
      }
      // Nothing multiplies before the squares are read.
      work = std::max(work, static_cast<std::size_t>(PiecesOf(matrix.size())) * sizeof(double));
    }
    PlanScratch(work);
  }

 private:
  bool IsSkipped() const override { return false; }  // only the device knows

  void Direct(const MuonMatrix& matrix, float* x) override {
    const std::int64_t pieces = PiecesOf(matrix.size);
    const Grid grid{.blocks_x = static_cast<unsigned>(pieces), .threads_x = Device::kThreads};
    auto* const squares = static_cast<double*>(Work());
    device_.Launch(LOCKSTEP_CUDA_KERNEL(DirectByMuon), grid, matrix.gradients, matrix.m, x,
                   matrix.size, &step(), spec().momentum, spec().nesterov, squares);
    device_.Launch(LOCKSTEP_CUDA_KERNEL(DivideByNorm), grid, x, matrix.size, &step(), squares,
                   pieces);
  }

  void Multiply(std::size_t index, MuonProduct of, const float* a, const float* b,
                float* c) override {
    products_[index * std::size(kMuonProducts) + static_cast<std::size_t>(of)].Run(a, b, c, Work());
  }

  void Combine(float a, const float* x, float b, float* y, std::int64_t size) override {
    device_.Launch(LOCKSTEP_CUDA_KERNEL(Combine), device_.GridFor(size), a, x, b, y, size, &step());
  }

  void Move(const MuonMatrix& matrix, const float* x) override {
    device_.Launch(LOCKSTEP_CUDA_KERNEL(MoveByMuon), device_.GridFor(matrix.size), matrix.values, x,
                   matrix.size, &step(), matrix.weight_decay, matrix.rate_ratio);
  }

  const Device& device_;
  std::vector<Matmul> products_;  // those of each matrix, in the order of kMuonProducts
};

}  // namespace

std::unique_ptr<OptimizerOp> MakeOptimizer(const Device& device, const MuonSpec& spec) {
  return std::make_unique<Muon>(device, spec);
}

}  // namespace lockstep::train::cuda
