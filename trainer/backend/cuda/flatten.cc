#include "trainer/backend/cuda/bound_op.h"
#include "trainer/backend/cuda/layout/copy.h"
#include "trainer/backend/cuda/ops.h"

namespace lockstep::train::cuda {
namespace {

class Flatten final : public BoundOp {
 public:
  Flatten(const Device& device, const TensorDesc& x)
      : BoundOp("flatten", device, x,
                {.shape = {x.shape[0], x.shape.elements() / x.shape[0]}, .dtype = x.dtype}) {}
  bool BackwardInPlace() const override { return !IsChannelsLast(input()); }

  BackwardReads Reads() const override { return {.x = false, .y = false}; }
  void Forward(Mode, const StepContext&) override {
    CopyTensor(device(), input(), x(), output(), y());
  }
  void Backward(const StepContext&) override {
    if (dx() == nullptr || dx() == dy()) return;
    CopyTensor(device(), output(), dy(), input(), dx());
  }
};

}  // namespace

std::unique_ptr<Op> MakeOp(const Device& device, const FlattenSpec& spec) {
  return std::make_unique<Flatten>(device, spec.x);
}

}  // namespace lockstep::train::cuda
