#include <algorithm>

#include "trainer/backend/cuda/bound_op.h"
#include "trainer/backend/cuda/layout/copy.h"
#include "trainer/backend/cuda/ops.h"
#include "trainer/backend/joined_shape.h"

namespace lockstep::train::cuda {
namespace {

// y[n] = x_0[n], x_1[n], … in the layout of the first. Inputs in the other layout go through
// scratch memory.
class Concatenate final : public BoundOp {
 public:
  Concatenate(const Device& device, const ConcatenateSpec& spec)
      : BoundOp("concatenate", device, spec.x, LikeLayoutOf(spec.x.at(0), ShapeOf(spec))) {
    std::int64_t channel = 0;
    for (const TensorDesc& x : inputs()) {
      parts_.push_back({.in_y = LikeLayoutOf(output(), x.shape),
                        .is_other = IsChannelsLast(x) != IsChannelsLast(output()),
                        .offset = channel * StridesOf(output()).c});
      channel += x.shape[1];
    }
  }
  std::size_t ScratchBytes() const override {
    std::size_t bytes = 0;
    for (const Part& part : parts_) {
      if (part.is_other) bytes = std::max(bytes, part.in_y.bytes());
    }
    return bytes;
  }

  BackwardReads Reads() const override { return {.x = false, .y = false}; }
  void Forward(Mode, const StepContext&) override {
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      const Part& part = parts_[i];
      const void* from = x(i);
      if (part.is_other) {
        CopyTensor(device(), inputs()[i], x(i), part.in_y, scratch<void>());
        from = scratch<void>();
      }
      const std::int64_t line = LineOf(part.in_y);
      Copy(part, from, line, At(y(), part.offset), LineOf(output()));
    }
  }

  void Backward(const StepContext&) override {
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      if (dx(i) == nullptr) continue;
      const Part& part = parts_[i];
      void* to = part.is_other ? scratch<void>() : dx(i);
      Copy(part, At(dy(), part.offset), LineOf(output()), to, LineOf(part.in_y));
      if (part.is_other) CopyTensor(device(), part.in_y, to, inputs()[i], dx(i));
    }
  }

 private:
  struct Part {
    TensorDesc in_y = {};  // the input, in y's layout
    bool is_other = false;
    std::int64_t offset = 0;  // in y
  };

  // A dense tensor is a line for each row, and one with its channels last for each pixel.
  static std::int64_t LineOf(const TensorDesc& tensor) {
    return IsChannelsLast(tensor) ? tensor.shape[1] : tensor.elements() / tensor.shape[0];
  }
  void Copy(const Part& part, const void* from, std::int64_t from_stride, void* to,
            std::int64_t to_stride) const {
    const std::int64_t size = part.in_y.elements(), line = LineOf(part.in_y);
    device().Launch(LOCKSTEP_CUDA_KERNEL(CopyLines), device().GridFor(size), from, to, type(),
                    size / line, 1, line, from_stride, 0, to_stride, 0);
  }

  std::vector<Part> parts_;
};

}  // namespace

std::unique_ptr<Op> MakeOp(const Device& device, const ConcatenateSpec& spec) {
  return std::make_unique<Concatenate>(device, spec);
}

}  // namespace lockstep::train::cuda
