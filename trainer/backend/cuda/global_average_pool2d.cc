#include <algorithm>

#include "base/check.h"
#include "trainer/backend/cuda/bound_op.h"
#include "trainer/backend/cuda/ops.h"

namespace lockstep::train::cuda {
namespace {

class GlobalAveragePool2d final : public BoundOp {
 public:
  GlobalAveragePool2d(const Device& device, const TensorDesc& x)
      : BoundOp("global_average_pool2d", device, x,
                {.shape = {x.shape[0], x.shape[1]}, .dtype = x.dtype}),
        planes_(PlanesOf(x)),
        area_(planes_.height * planes_.width) {}

  BackwardReads Reads() const override { return {.x = false, .y = false}; }
  void Forward(Mode, const StepContext&) override {
    constexpr std::int64_t kColumns = 32;  // channels of a block, if they are neighbors
    const std::int64_t columns = planes_.inner == 1 ? 1 : kColumns;
    device().Launch(LOCKSTEP_CUDA_KERNEL(GlobalAverage),
                    {.blocks_x = static_cast<unsigned>(planes_.outer),
                     .blocks_y = static_cast<unsigned>((planes_.inner + columns - 1) / columns),
                     .threads_x = Device::ThreadsFor(columns * area_)},
                    x(), y(), type(), area_, planes_.inner, columns);
  }
  void Backward(const StepContext&) override {
    if (dx() == nullptr) return;
    const std::int64_t size = input().elements();
    device().Launch(LOCKSTEP_CUDA_KERNEL(GlobalAverageBackward), device().GridFor(size), dy(), dx(),
                    type(), size, area_, planes_.inner);
  }

 private:
  const Planes planes_;
  const std::int64_t area_;
};

}  // namespace

std::unique_ptr<Op> MakeOp(const Device& device, const GlobalAveragePool2dSpec& spec) {
  LOCKSTEP_CHECK(spec.x.shape.rank() == 4,
                 "global_average_pool2d: x has shape {}, expected N,C,H,W",
                 spec.x.shape.ToString());
  return std::make_unique<GlobalAveragePool2d>(device, spec.x);
}

}  // namespace lockstep::train::cuda
