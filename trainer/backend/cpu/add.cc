#include <algorithm>

#include "trainer/backend/cpu/bound_op.h"
#include "trainer/backend/cpu/device/channels.h"
#include "trainer/backend/cpu/ops.h"
#include "trainer/backend/joined_shape.h"

namespace lockstep::train::cpu {
namespace {

// y = act(sum over i of x_i), in the order of x_0. Inputs in other orders are copied to it first.
class Add final : public BoundOp {
 public:
  Add(const Device& device, const AddSpec& spec)
      : BoundOp(device, spec.x, WithExtents(spec.x[0], ShapeOf(spec))), relu_(spec.relu) {
    for (const TensorDesc& x : spec.x) views_.push_back(ViewOf(x));
  }
  bool BackwardInPlace() const override { return true; }
  std::size_t ScratchBytes() const override {
    return std::ranges::all_of(views_, [this](const ImageView& view) { return IsInOrder(view); })
               ? 0
               : output().bytes();
  }

  BackwardReads Reads() const override { return {.x = false, .y = relu_}; }
  void Forward(Mode, const StepContext&) override {
    const float* sum = x(0);
    for (std::size_t i = 1; i < views_.size(); ++i) {
      const float* term = InOrder(i);
      const bool relu = relu_ && i + 1 == views_.size();
      ParallelForFloats(
          device().threads, view().floats(), [&](std::int64_t begin, std::int64_t end) {
            device().kernels.add(sum + begin, term + begin, y() + begin, end - begin, relu);
          });
      sum = y();
    }
  }

  // dx_i = dy
  void Backward(const StepContext&) override {
    if (relu_) MaskByRelu();
    for (std::size_t i = 0; i < views_.size(); ++i) {
      if (dx(i) == nullptr || dx(i) == dy()) continue;
      if (IsInOrder(views_[i])) {
        ParallelForFloats(device().threads, view().floats(),
                          [&](std::int64_t begin, std::int64_t end) {
                            std::copy_n(dy() + begin, end - begin, dx(i) + begin);
                          });
      } else {
        CopyChannels(device(), {dy(), view()}, {dx(i), views_[i]}, view().channels);
      }
    }
  }

 private:
  const ImageView& view() const { return views_.front(); }
  bool IsInOrder(const ImageView& other) const {
    return other.inner == view().inner && other.outer == view().outer;
  }

  // Input i in y's order.
  const float* InOrder(std::size_t i) const {
    if (IsInOrder(views_[i])) return x(i);
    auto* copy = static_cast<float*>(memory().scratch);
    CopyChannels(device(), {x(i), views_[i]}, {copy, view()}, view().channels);
    return copy;
  }

  bool relu_;
  std::vector<ImageView> views_;  // of the inputs; y's is the first
};

}  // namespace

std::unique_ptr<Op> MakeOp(const Device& device, const AddSpec& spec) {
  return std::make_unique<Add>(device, spec);
}

}  // namespace lockstep::train::cpu
