#include "trainer/backend/cuda/bound_op.h"
#include "trainer/backend/cuda/ops.h"

namespace lockstep::train::cuda {
namespace {

class ActivationOp final : public BoundOp {
 public:
  ActivationOp(const Device& device, const ActivationSpec& spec)
      : BoundOp("activation", device, spec.x, spec.x),
        activation_(static_cast<int>(spec.activation)),
        slope_(spec.slope),
        size_(spec.x.elements()) {}
  bool BackwardInPlace() const override { return true; }

  BackwardReads Reads() const override { return {.x = true, .y = false}; }
  void Forward(Mode, const StepContext&) override {
    device().Launch(LOCKSTEP_CUDA_KERNEL(Activate), device().GridFor(size_), x(), y(), type(),
                    size_, activation_, slope_);
  }
  void Backward(const StepContext&) override {
    if (dx() == nullptr) return;
    device().Launch(LOCKSTEP_CUDA_KERNEL(ActivateBackward), device().GridFor(size_), x(), dy(),
                    dx(), type(), size_, activation_, slope_);
  }

 private:
  const int activation_;
  const float slope_;
  const std::int64_t size_;
};

}  // namespace

std::unique_ptr<Op> MakeOp(const Device& device, const ActivationSpec& spec) {
  return std::make_unique<ActivationOp>(device, spec);
}

}  // namespace lockstep::train::cuda
