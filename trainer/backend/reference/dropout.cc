#include "trainer/backend/reference/bound_op.h"
#include "trainer/backend/reference/ops.h"
#include "trainer/core/rng.h"

namespace lockstep::train::reference {
namespace {

// y = x * mask with mask 0 or 1 / (1 - rate); the identity in evaluation. The mask is not stored:
// Backward generates the same numbers again (see DropoutSpec for the counters).
class Dropout final : public BoundOp {
 public:
  explicit Dropout(const DropoutSpec& spec)
      : BoundOp("dropout", spec.x, spec.x.shape),
        spec_(spec),
        batch_(spec.x.shape[0]),
        row_(spec.x.shape.elements() / spec.x.shape[0]) {}
  bool BackwardInPlace() const override { return true; }

  void Forward(Mode mode, const StepContext& step) override {
    if (mode == Mode::kTraining) {
      ApplyMask(step, x(), y());
    } else if (x() != y()) {
      std::copy_n(x(), batch_ * row_, y());
    }
  }

  // dx = dy * mask
  void Backward(const StepContext& step) override {
    if (dx() != nullptr) ApplyMask(step, dy(), dx());
  }

 private:
  void ApplyMask(const StepContext& step, const float* source, float* target) const {
    const std::uint64_t key = DeriveKey(step.seed, spec_.layer);
    const float scale = 1.0f / (1.0f - spec_.rate);
    for (std::int64_t n = 0; n < batch_; ++n) {
      const std::uint64_t position = step.first_position + static_cast<std::uint64_t>(n);
      for (std::int64_t e = 0; e < row_; ++e) {
        const std::uint64_t element = static_cast<std::uint64_t>(e);
        const PhiloxBlock block = Philox(key, position, step.step << 32 | element / 4);
        const bool kept = UniformFloat(block[element % 4]) >= spec_.rate;
        target[n * row_ + e] = kept ? source[n * row_ + e] * scale : 0.0f;
      }
    }
  }

  DropoutSpec spec_;
  std::int64_t batch_, row_;
};

}  // namespace

std::unique_ptr<Op> MakeOp(const DropoutSpec& spec) {
  LOCKSTEP_CHECK(spec.rate >= 0 && spec.rate < 1, "dropout: rate is {}, expected [0, 1)",
                 spec.rate);
  return std::make_unique<Dropout>(spec);
}

}  // namespace lockstep::train::reference
