#include "base/check.h"
#include "trainer/backend/cuda/bound_op.h"
#include "trainer/backend/cuda/layout/copy.h"
#include "trainer/backend/cuda/ops.h"

namespace lockstep::train::cuda {
namespace {

// The mask is not stored: Backward generates the same numbers again (see DropoutSpec).
class Dropout final : public BoundOp {
 public:
  Dropout(const Device& device, const DropoutSpec& spec)
      : BoundOp("dropout", device, spec.x, spec.x), spec_(spec), size_(spec.x.elements()) {}
  bool BackwardInPlace() const override { return true; }

  BackwardReads Reads() const override { return {.x = false, .y = false}; }
  void Forward(Mode mode, const StepContext& step) override {
    if (mode == Mode::kTraining) {
      ApplyMask(step, x(), y());
    } else {
      CopyBytes(device(), x(), y(), input().bytes());
    }
  }
  void Backward(const StepContext& step) override {
    if (dx() != nullptr) ApplyMask(step, dy(), dx());
  }

 private:
  void ApplyMask(const StepContext& step, const void* source, void* target) const {
    const Shape& shape = input().shape;
    if (IsChannelsLast(input())) {
      device().Launch(LOCKSTEP_CUDA_KERNEL(DropOfChannelsLast), device().GridFor(size_), source,
                      target, type(), shape[0], shape[2] * shape[3], shape[1], &step, spec_.layer,
                      spec_.rate);
      return;
    }
    device().Launch(LOCKSTEP_CUDA_KERNEL(DropOfRows), device().GridFor((size_ + 3) / 4), source,
                    target, type(), shape[0], size_ / shape[0], &step, spec_.layer, spec_.rate);
  }

  const DropoutSpec spec_;
  const std::int64_t size_;
};

}  // namespace

std::unique_ptr<Op> MakeOp(const Device& device, const DropoutSpec& spec) {
  LOCKSTEP_CHECK(spec.rate >= 0 && spec.rate < 1, "dropout: rate is {}, expected [0, 1)",
                 spec.rate);
  return std::make_unique<Dropout>(device, spec);
}

}  // namespace lockstep::train::cuda
