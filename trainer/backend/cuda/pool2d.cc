#include <cstdint>

#include "base/check.h"
#include "trainer/backend/cuda/bound_op.h"
#include "trainer/backend/cuda/launch_on_windows.h"
#include "trainer/backend/cuda/ops.h"
#include "trainer/backend/window.h"

namespace lockstep::train::cuda {
namespace {

class Pool2d : public BoundOp {
 public:
  Pool2d(const Device& device, const Pool2dSpec& spec, const Windows& windows)
      : BoundOp("pool2d", device, spec.x,
                LikeLayoutOf(spec.x, {spec.x.shape[0], spec.x.shape[1], windows.rows.out,
                                      windows.columns.out})),
        windows_(windows),
        planes_(PlanesOf(spec.x)) {}

 protected:
  // On `size` elements.
  template <typename Kernel, typename... Arguments>
  void Launch(Kernel kernel, std::int64_t size, const Arguments&... arguments) const {
    LaunchOnWindows(device(), windows_, kernel, device().GridFor(size), arguments...);
  }
  const Planes& planes() const { return planes_; }

 private:
  const Windows windows_;
  const Planes planes_;
};

class MaxPool2d final : public Pool2d {
 public:
  MaxPool2d(const Device& device, const Pool2dSpec& spec, const Windows& windows)
      : Pool2d(device, spec, windows), relu_(spec.relu) {}
  // The number of each output's maximum: see MaxPool.
  std::size_t WorkspaceBytes() const override {
    return static_cast<std::size_t>(output().elements()) * sizeof(std::int32_t);
  }

  BackwardReads Reads() const override { return {.x = false, .y = false}; }
  void Forward(Mode, const StepContext&) override {
    Launch(LOCKSTEP_CUDA_KERNEL(MaxPool), output().elements(), x(), y(), type(),
           workspace<std::int32_t>(), planes().outer, planes().inner, relu_);
  }
  void Backward(const StepContext&) override {
    if (dx() == nullptr) return;
    Launch(LOCKSTEP_CUDA_KERNEL(MaxPoolBackward), input().elements(), dy(),
           workspace<std::int32_t>(), dx(), type(), planes().outer, planes().inner);
  }

 private:
  const bool relu_;
};

class AveragePool2d final : public Pool2d {
 public:
  using Pool2d::Pool2d;

  BackwardReads Reads() const override { return {.x = false, .y = false}; }
  void Forward(Mode, const StepContext&) override {
    Launch(LOCKSTEP_CUDA_KERNEL(AveragePool), output().elements(), x(), y(), type(), planes().outer,
           planes().inner);
  }
  void Backward(const StepContext&) override {
    if (dx() == nullptr) return;
    Launch(LOCKSTEP_CUDA_KERNEL(AveragePoolBackward), input().elements(), dy(), dx(), type(),
           planes().outer, planes().inner);
  }
};

}  // namespace

std::unique_ptr<Op> MakeOp(const Device& device, const Pool2dSpec& spec) {
  const Windows windows = WindowsOf(spec);
  if (spec.kind == PoolKind::kMax) return std::make_unique<MaxPool2d>(device, spec, windows);
  LOCKSTEP_CHECK(!spec.relu, "pool2d: relu is for max pools only");
  return std::make_unique<AveragePool2d>(device, spec, windows);
}

}  // namespace lockstep::train::cuda
