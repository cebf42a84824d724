#include <algorithm>

#include "trainer/backend/cuda/bound_op.h"
#include "trainer/backend/cuda/layout/copy.h"
#include "trainer/backend/cuda/ops.h"
#include "trainer/backend/joined_shape.h"

namespace lockstep::train::cuda {
namespace {

// y = act(sum over i of x_i), in the layout of the first. Inputs in the other layout go through
// scratch memory.
class Add final : public BoundOp {
 public:
  Add(const Device& device, const AddSpec& spec)
      : BoundOp("add", device, spec.x, LikeLayoutOf(spec.x[0], ShapeOf(spec))),
        relu_(spec.relu),
        is_mixed_(std::ranges::any_of(spec.x,
                                      [&](const TensorDesc& x) { return IsOther(x, spec.x[0]); })),
        size_(spec.x[0].elements()) {}
  bool BackwardInPlace() const override { return true; }
  std::size_t ScratchBytes() const override { return is_mixed_ ? output().bytes() : 0; }

  BackwardReads Reads() const override { return {.x = false, .y = relu_}; }
  void Forward(Mode, const StepContext&) override {
    const std::size_t last = inputs().size() - 1;
    for (std::size_t i = 1; i <= last; ++i) {
      const void* addend = x(i);
      if (IsOther(inputs()[i], output())) {
        CopyTensor(device(), inputs()[i], x(i), output(), scratch<void>());
        addend = scratch<void>();
      }
      device().Launch(LOCKSTEP_CUDA_KERNEL(AddPair), device().GridFor(size_), i == 1 ? x(0) : y(),
                      addend, y(), type(), size_, relu_ && i == last);
    }
  }

  // dx_i = dy * act'(y)
  void Backward(const StepContext&) override {
    const void* masking = relu_ ? y() : nullptr;
    if (masking != nullptr && is_mixed_) {  // copies to the other layout do not mask
      Pass(masking, dy(), nullptr);
      masking = nullptr;
    }
    std::vector<void*> targets;
    for (std::size_t i = 0; i < inputs().size(); ++i) {
      if (dx(i) == nullptr || (dx(i) == dy() && masking == nullptr)) continue;
      if (IsOther(inputs()[i], output())) {
        CopyTensor(device(), output(), dy(), inputs()[i], dx(i));
      } else {
        targets.push_back(dx(i));
      }
    }
    for (std::size_t i = 0; i < targets.size(); i += 2) {
      Pass(masking, targets[i], i + 1 < targets.size() ? targets[i + 1] : nullptr);
    }
  }

 private:
  static bool IsOther(const TensorDesc& a, const TensorDesc& b) {
    return IsChannelsLast(a) != IsChannelsLast(b);
  }
  void Pass(const void* masking, void* first, void* second) const {
    device().Launch(LOCKSTEP_CUDA_KERNEL(PassGradients), device().GridFor(size_), masking, dy(),
                    first, second, type(), size_);
  }

  const bool relu_, is_mixed_;
  const std::int64_t size_;
};

}  // namespace

std::unique_ptr<Op> MakeOp(const Device& device, const AddSpec& spec) {
  return std::make_unique<Add>(device, spec);
}

}  // namespace lockstep::train::cuda
