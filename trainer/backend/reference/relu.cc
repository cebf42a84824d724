#include "trainer/backend/reference/bound_op.h"
#include "trainer/backend/reference/ops.h"

namespace lockstep::train::reference {
namespace {

// y = max(x, 0), elementwise; NaN is kept. May run in place, so Backward reads y, not x.
class Relu final : public BoundOp {
 public:
  explicit Relu(const TensorDesc& x) : BoundOp("relu", x, x.shape) {}
  bool InPlace() const override { return true; }

  void Forward(const StepContext&) override {
    for (std::int64_t i = 0; i < input().shape.elements(); ++i) {
      y()[i] = x()[i] < 0 ? 0.0f : x()[i];
    }
  }

  // dx = dy where y > 0, else 0
  void Backward(const StepContext&) override {
    if (dx() == nullptr) return;
    for (std::int64_t i = 0; i < input().shape.elements(); ++i) {
      dx()[i] = y()[i] > 0 ? dy()[i] : 0.0f;
    }
  }
};

}  // namespace

std::unique_ptr<Op> MakeRelu(const TensorDesc& x) {
  return std::make_unique<Relu>(x);
}

}  // namespace lockstep::train::reference
