#include "trainer/backend/reference/bound_op.h"
#include "trainer/backend/reference/ops.h"

namespace lockstep::train::reference {
namespace {

// y[n,i] = x[n,…]: all of this backend's tensors are row-major already.
class Flatten final : public BoundOp {
 public:
  explicit Flatten(const TensorDesc& x)
      : BoundOp("flatten", x, {x.shape[0], x.shape.elements() / x.shape[0]}) {}
  bool BackwardInPlace() const override { return true; }

  void Forward(Mode, const StepContext&) override {
    std::copy_n(x(), input().shape.elements(), y());
  }

  void Backward(const StepContext&) override {
    if (dx() == nullptr || dx() == dy()) return;
    std::copy_n(dy(), input().shape.elements(), dx());
  }
};

}  // namespace

std::unique_ptr<Op> MakeOp(const FlattenSpec& spec) {
  return std::make_unique<Flatten>(spec.x);
}

}  // namespace lockstep::train::reference
