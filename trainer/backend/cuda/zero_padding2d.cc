#include "trainer/backend/cuda/bound_op.h"
#include "trainer/backend/cuda/layout/copy.h"
#include "trainer/backend/cuda/ops.h"
#include "trainer/backend/window.h"

namespace lockstep::train::cuda {
namespace {

// A line of an image is one of its rows, of width * inner elements.
class ZeroPadding2d final : public BoundOp {
 public:
  ZeroPadding2d(const Device& device, const ZeroPadding2dSpec& spec)
      : BoundOp("zero_padding2d", device, spec.x, LikeLayoutOf(spec.x, ShapeOf(spec))),
        in_(PlanesOf(input())),
        out_(PlanesOf(output())),
        first_((spec.edges.top * out_.width + spec.edges.left) * out_.inner) {}

  BackwardReads Reads() const override { return {.x = false, .y = false}; }
  void Forward(Mode, const StepContext&) override {
    ZeroBytes(device(), y(), output().bytes());
    Copy(x(), in_, At(y(), first_), out_);
  }
  void Backward(const StepContext&) override {
    if (dx() != nullptr) Copy(At(dy(), first_), out_, dx(), in_);
  }

 private:
  void Copy(const void* source, const Planes& from, void* target, const Planes& to) const {
    const std::int64_t from_line = from.width * from.inner, to_line = to.width * to.inner;
    device().Launch(LOCKSTEP_CUDA_KERNEL(CopyLines), device().GridFor(input().elements()), source,
                    target, type(), in_.outer, in_.height, in_.width * in_.inner,
                    from.height * from_line, from_line, to.height * to_line, to_line);
  }

  const Planes in_, out_;
  const std::int64_t first_;  // of x's elements in y
};

}  // namespace

std::unique_ptr<Op> MakeOp(const Device& device, const ZeroPadding2dSpec& spec) {
  return std::make_unique<ZeroPadding2d>(device, spec);
}

}  // namespace lockstep::train::cuda
