#include <algorithm>

#include "trainer/backend/cpu/bound_op.h"
#include "trainer/backend/cpu/ops.h"
#include "trainer/backend/window.h"

namespace lockstep::train::cpu {
namespace {

// y is x in its order with zeros around. FuseLayers lets a convolution or a max pool read past the
// image's edges instead, where one follows.
class ZeroPadding2d final : public BoundOp {
 public:
  ZeroPadding2d(const Device& device, const ZeroPadding2dSpec& spec)
      : BoundOp(device, spec.x, WithExtents(spec.x, ShapeOf(spec))),
        edges_(spec.edges),
        x_(ViewOf(input())),
        y_(ViewOf(output())) {}

  BackwardReads Reads() const override { return {.x = false, .y = false}; }
  void Forward(Mode, const StepContext&) override {
    ForEachPlane([this](std::int64_t plane) {
      const float* from = x() + plane * x_.area() * x_.inner;
      float* to = y() + plane * y_.area() * y_.inner;
      std::fill_n(to, y_.area() * y_.inner, 0.0f);
      for (std::int64_t h = 0; h < x_.height; ++h) {
        std::copy_n(from + LineOfX(h), x_.width * x_.inner, to + LineOfY(h));
      }
    });
  }

  void Backward(const StepContext&) override {
    if (dx() == nullptr) return;
    ForEachPlane([this](std::int64_t plane) {
      const float* from = dy() + plane * y_.area() * y_.inner;
      float* to = dx() + plane * x_.area() * x_.inner;
      for (std::int64_t h = 0; h < x_.height; ++h) {
        std::copy_n(from + LineOfY(h), x_.width * x_.inner, to + LineOfX(h));
      }
    });
  }

 private:
  // Offsets in a plane of the first float of x's line h.
  std::int64_t LineOfX(std::int64_t h) const { return h * x_.width * x_.inner; }
  std::int64_t LineOfY(std::int64_t h) const {
    return ((h + edges_.top) * y_.width + edges_.left) * y_.inner;
  }

  // A plane is area x inner floats.
  template <class Visit>
  void ForEachPlane(const Visit& visit) const {
    const std::int64_t planes = y_.rows * y_.outer;
    ParallelFor(ThreadsFor(device().threads, y_.floats()), planes,
                [&](std::int64_t begin, std::int64_t end) {
                  for (std::int64_t plane = begin; plane < end; ++plane) visit(plane);
                });
  }

  const Edges edges_;
  const ImageView x_, y_;
};

}  // namespace

std::unique_ptr<Op> MakeOp(const Device& device, const ZeroPadding2dSpec& spec) {
  return std::make_unique<ZeroPadding2d>(device, spec);
}

}  // namespace lockstep::train::cpu
