#include "trainer/backend/muon_optimizer.h"
#include "trainer/backend/reference/ops.h"
#include "trainer/backend/update_rules.h"

namespace lockstep::train::reference {
namespace {

// See MuonSpec for the formula.
class Muon final : public MuonOptimizer {
 public:
  explicit Muon(const MuonSpec& spec)
      : MuonOptimizer(spec, [](const AdamSpec& adam) { return MakeOptimizerOf(adam); }) {
    PlanScratch(0);
  }

 private:
  bool IsSkipped() const override { return !step().applies; }

  void Direct(const MuonMatrix& matrix, float* x) override {
    double squares = 0;
    for (std::int64_t i = 0; i < matrix.size; ++i) {
      const float g = step().gradient_scale * matrix.gradients[i];
      x[i] = MuonDirection(spec().momentum, spec().nesterov, g, matrix.m[i]);
      squares += static_cast<double>(x[i]) * static_cast<double>(x[i]);
    }
    const float divisor = MuonDivisor(squares);
    for (std::int64_t i = 0; i < matrix.size; ++i) x[i] /= divisor;
  }

  void Multiply(std::size_t index, MuonProduct of, const float* a, const float* b,
                float* c) override {
    const MatrixProductShape shape = ShapeOf(spec().matrices[index], of);
    for (std::int64_t row = 0; row < shape.rows; ++row) {
      for (std::int64_t column = 0; column < shape.columns; ++column) {
        double sum = 0;
        for (std::int64_t i = 0; i < shape.inner; ++i) {
          const double left = a[shape.a_transposed ? i * shape.rows + row : row * shape.inner + i];
          const double right =
              b[shape.b_transposed ? column * shape.inner + i : i * shape.columns + column];
          sum += left * right;
        }
        c[row * shape.columns + column] = static_cast<float>(sum);
      }
    }
  }

  void Combine(float a, const float* x, float b, float* y, std::int64_t size) override {
    for (std::int64_t i = 0; i < size; ++i) y[i] = a * x[i] + b * y[i];
  }

  void Move(const MuonMatrix& matrix, const float* x) override {
    const float keep = KeptByDecay(matrix.weight_decay, step());
    const float rate = step().learning_rate * matrix.rate_ratio;
    for (std::int64_t i = 0; i < matrix.size; ++i) {
      matrix.values[i] = keep * matrix.values[i] - rate * x[i];
    }
  }
};

}  // namespace

std::unique_ptr<OptimizerOp> MakeOptimizer(const MuonSpec& spec) {
  return std::make_unique<Muon>(spec);
}

}  // namespace lockstep::train::reference
