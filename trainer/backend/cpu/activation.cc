#include "trainer/backend/cpu/bound_op.h"
#include "trainer/backend/cpu/ops.h"

namespace lockstep::train::cpu {
namespace {

// y = f(x) in any memory order: f(0) is 0, so that an order's padding stays 0.
class ActivationOp final : public BoundOp {
 public:
  ActivationOp(const Device& device, const ActivationSpec& spec)
      : BoundOp(device, spec.x, spec.x), activation_(spec.activation), slope_(spec.slope) {}
  bool BackwardInPlace() const override { return true; }

  BackwardReads Reads() const override { return {.x = true, .y = false}; }
  void Forward(Mode, const StepContext&) override {
    ParallelForFloats(device().threads, Floats(), [this](std::int64_t begin, std::int64_t end) {
      device().kernels.activate(activation_, slope_, x() + begin, y() + begin, end - begin);
    });
  }

  // dx = dy * f'(x)
  void Backward(const StepContext&) override {
    if (dx() == nullptr) return;
    ParallelForFloats(device().threads, Floats(), [this](std::int64_t begin, std::int64_t end) {
      device().kernels.activate_backward(activation_, slope_, x() + begin, dy() + begin,
                                         dx() + begin, end - begin);
    });
  }

 private:
  std::int64_t Floats() const {
    return static_cast<std::int64_t>(output().bytes() / sizeof(float));
  }

  Activation activation_;
  float slope_;
};

}  // namespace

std::unique_ptr<Op> MakeOp(const Device& device, const ActivationSpec& spec) {
  return std::make_unique<ActivationOp>(device, spec);
}

}  // namespace lockstep::train::cpu
