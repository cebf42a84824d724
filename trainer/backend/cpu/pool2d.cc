#include <limits>

#include "trainer/backend/cpu/bound_op.h"
#include "trainer/backend/cpu/ops.h"
#include "trainer/backend/cpu/window_shape.h"
#include "trainer/backend/window.h"

namespace lockstep::train::cpu {
namespace {

TensorDesc OutputOf(const Pool2dSpec& spec, const WindowShape& shape) {
  return WithExtents(spec.x, {spec.x.shape[0], spec.x.shape[1], shape.out_h, shape.out_w});
}

// Both kinds slide a window over every plane of rows x outer. The threads divide the planes.
class Pool2d : public BoundOp {
 public:
  Pool2d(const Device& device, const Pool2dSpec& spec, const WindowShape& shape)
      : BoundOp(device, spec.x, OutputOf(spec, shape)),
        shape_(shape),
        planes_(ViewOf(spec.x).rows * ViewOf(spec.x).outer) {}

 protected:
  // Calls body(first plane, planes, floats before it in x, floats before it in y).
  template <typename Body>
  void ForPlanes(Body body) const {
    const std::int64_t in = shape_.in_h * shape_.in_w * shape_.inner;
    const std::int64_t out = shape_.out_h * shape_.out_w * shape_.inner;
    ParallelFor(
        ThreadsFor(device().threads, planes_ * in), planes_,
        [&](std::int64_t begin, std::int64_t end) { body(end - begin, begin * in, begin * out); });
  }
  const WindowShape& shape() const { return shape_; }
  std::int64_t output_floats() const {
    return planes_ * shape_.out_h * shape_.out_w * shape_.inner;
  }

 private:
  WindowShape shape_;
  std::int64_t planes_;
};

// y = act(max of the window). The workspace holds, for every output, the tap that receives dy.
template <typename Index>
class MaxPool2d final : public Pool2d {
 public:
  using Pool2d::Pool2d;

  std::size_t WorkspaceBytes() const override {
    return static_cast<std::size_t>(output_floats()) * sizeof(Index);
  }

  BackwardReads Reads() const override { return {.x = false, .y = false}; }
  void Forward(Mode, const StepContext&) override {
    ForPlanes([this](std::int64_t planes, std::int64_t in, std::int64_t out) {
      if constexpr (sizeof(Index) == 1) {
        device().kernels.max_pool(shape(), x() + in, y() + out, chosen() + out, planes);
      } else {
        device().kernels.max_pool_wide(shape(), x() + in, y() + out, chosen() + out, planes);
      }
    });
  }

  void Backward(const StepContext&) override {
    if (dx() == nullptr) return;
    ForPlanes([this](std::int64_t planes, std::int64_t in, std::int64_t out) {
      if constexpr (sizeof(Index) == 1) {
        device().kernels.max_pool_backward(shape(), dy() + out, chosen() + out, dx() + in, planes);
      } else {
        device().kernels.max_pool_wide_backward(shape(), dy() + out, chosen() + out, dx() + in,
                                                planes);
      }
    });
  }

 private:
  Index* chosen() const { return static_cast<Index*>(memory().workspace); }
};

// y = mean of the window's part inside the image. dx gets equal shares of dy.
class AveragePool2d final : public Pool2d {
 public:
  using Pool2d::Pool2d;

  BackwardReads Reads() const override { return {.x = false, .y = false}; }
  void Forward(Mode, const StepContext&) override {
    ForPlanes([this](std::int64_t planes, std::int64_t in, std::int64_t out) {
      device().kernels.average_pool(shape(), x() + in, y() + out, planes);
    });
  }

  void Backward(const StepContext&) override {
    if (dx() == nullptr) return;
    ForPlanes([this](std::int64_t planes, std::int64_t in, std::int64_t out) {
      device().kernels.average_pool_backward(shape(), dy() + out, dx() + in, planes);
    });
  }
};

}  // namespace

std::unique_ptr<Op> MakeOp(const Device& device, const Pool2dSpec& spec) {
  const WindowShape shape = ShapeOf(WindowsOf(spec), ViewOf(spec.x).inner, spec.relu);
  const std::int64_t taps = spec.window_h * spec.window_w;
  if (spec.kind == PoolKind::kMax) {
    LOCKSTEP_CHECK(taps <= std::numeric_limits<std::int32_t>::max(),
                   "pool2d: a max pool's window has {} elements, expected at most {}", taps,
                   std::numeric_limits<std::int32_t>::max());
    if (taps < 255) return std::make_unique<MaxPool2d<std::uint8_t>>(device, spec, shape);
    return std::make_unique<MaxPool2d<std::uint32_t>>(device, spec, shape);
  }
  LOCKSTEP_CHECK(!spec.relu, "pool2d: relu is for max pools only");
  return std::make_unique<AveragePool2d>(device, spec, shape);
}

}  // namespace lockstep::train::cpu
