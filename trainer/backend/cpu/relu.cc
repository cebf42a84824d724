#include <algorithm>

#include "trainer/backend/cpu/bound_op.h"
#include "trainer/backend/cpu/ops.h"

namespace lockstep::train::cpu {
namespace {

// y = max(x, 0) in any memory order.
class Relu final : public BoundOp {
 public:
  Relu(const Device& device, const TensorDesc& x) : BoundOp(device, x, x) {}
  bool InPlace() const override { return true; }

  void Forward(const StepContext&) override {
    ParallelForFloats(device().threads, Floats(), [this](std::int64_t begin, std::int64_t end) {
      device().kernels.relu(x() + begin, y() + begin, end - begin);
    });
  }

  // dx = dy * (y > 0)
  void Backward(const StepContext&) override {
    if (dx() == nullptr) return;
    MaskByRelu();
    if (dx() == dy()) return;
    ParallelForFloats(device().threads, Floats(), [this](std::int64_t begin, std::int64_t end) {
      std::copy_n(dy() + begin, end - begin, dx() + begin);
    });
  }

 private:
  std::int64_t Floats() const {
    return static_cast<std::int64_t>(output().bytes() / sizeof(float));
  }
};

}  // namespace

std::unique_ptr<Op> MakeRelu(const Device& device, const TensorDesc& x) {
  return std::make_unique<Relu>(device, x);
}

}  // namespace lockstep::train::cpu
