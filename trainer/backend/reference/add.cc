#include "trainer/backend/joined_shape.h"
#include "trainer/backend/reference/bound_op.h"
#include "trainer/backend/reference/ops.h"

namespace lockstep::train::reference {
namespace {

// y = act(sum over i of x_i)
class Add final : public BoundOp {
 public:
  explicit Add(const AddSpec& spec) : BoundOp("add", spec.x, ShapeOf(spec)), relu_(spec.relu) {}
  bool BackwardInPlace() const override { return true; }

  void Forward(Mode, const StepContext&) override {
    for (std::int64_t e = 0; e < output().shape.elements(); ++e) {
      float sum = x(0)[e];
      for (std::size_t i = 1; i < inputs().size(); ++i) sum += x(i)[e];
      y()[e] = relu_ && sum < 0 ? 0.0f : sum;
    }
  }

  // dx_i = dy
  void Backward(const StepContext&) override {
    if (relu_) MaskByRelu(y(), dy(), output().shape.elements());
    for (std::size_t i = 0; i < inputs().size(); ++i) {
      if (dx(i) == nullptr || dx(i) == dy()) continue;
      std::copy_n(dy(), output().shape.elements(), dx(i));
    }
  }

 private:
  bool relu_;
};

}  // namespace

std::unique_ptr<Op> MakeOp(const AddSpec& spec) {
  return std::make_unique<Add>(spec);
}

}  // namespace lockstep::train::reference
