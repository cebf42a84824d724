#include "base/check.h"
#include "trainer/backend/cuda/bound_op.h"
#include "trainer/backend/cuda/channel_sums.h"
#include "trainer/backend/cuda/ops.h"
#include "trainer/backend/parameters.h"

namespace lockstep::train::cuda {
namespace {

// A block normalizes the channels of one pixel.
class LayerNorm final : public BoundOp {
 public:
  LayerNorm(const Device& device, const LayerNormSpec& spec)
      : BoundOp("layer_norm", device, spec.x, spec.x), spec_(spec), sums_(spec.x) {}

  std::vector<ParameterDesc> Parameters() const override { return ParametersOf(spec_); }
  // mean and 1 / sqrt(variance + epsilon) of each pixel.
  std::size_t WorkspaceBytes() const override {
    return static_cast<std::size_t>(2 * sums_.pixels()) * sizeof(double);
  }
  std::size_t ScratchBytes() const override { return sums_.bytes(); }

  BackwardReads Reads() const override { return {.x = true, .y = false}; }
  void Forward(Mode, const StepContext&) override {
    device().Launch(LOCKSTEP_CUDA_KERNEL(NormalizePixels), PixelsGrid(), x(), y(), type(), gamma(),
                    spec_.center ? parameter(Beta()) : nullptr, means(), inverse_deviations(),
                    sums_.channels(), sums_.area(), sums_.are_inner(), spec_.epsilon);
  }

  void Backward(const StepContext&) override {
    if (spec_.scale || spec_.center) SumParameterGradients();
    if (dx() == nullptr) return;
    device().Launch(LOCKSTEP_CUDA_KERNEL(NormalizePixelsBackward), PixelsGrid(), x(), dy(), dx(),
                    type(), gamma(), means(), inverse_deviations(), sums_.channels(), sums_.area(),
                    sums_.are_inner());
  }

 private:
  void SumParameterGradients() const {
    device().Launch(LOCKSTEP_CUDA_KERNEL(SumGradientsByPixel), sums_.PartsGrid(), x(), dy(), type(),
                    means(), inverse_deviations(), scratch<double>(), sums_.pixels(),
                    sums_.channels(), sums_.area(), sums_.are_inner(), sums_.columns());
    device().Launch(LOCKSTEP_CUDA_KERNEL(WriteGradients), sums_.ChannelsGrid(), scratch<double>(),
                    sums_.parts(), sums_.channels(), spec_.scale ? gradient(0) : nullptr,
                    spec_.center ? gradient(Beta()) : nullptr, nullptr, nullptr, sums_.area());
  }

  Grid PixelsGrid() const {
    return {.blocks_x = static_cast<unsigned>(sums_.pixels()),
            .threads_x = Device::ThreadsFor(sums_.channels())};
  }
  const float* gamma() const { return spec_.scale ? parameter(0) : nullptr; }
  std::size_t Beta() const { return spec_.scale ? 1 : 0; }
  double* means() const { return workspace<double>(); }
  double* inverse_deviations() const { return means() + sums_.pixels(); }

  const LayerNormSpec spec_;
  const ChannelSums sums_;
};

}  // namespace

std::unique_ptr<Op> MakeOp(const Device& device, const LayerNormSpec& spec) {
  LOCKSTEP_CHECK(spec.x.shape.rank() == 4 || spec.x.shape.rank() == 2,
                 "layer_norm: x has shape {}, expected N,C,H,W or N,C", spec.x.shape.ToString());
  return std::make_unique<LayerNorm>(device, spec);
}

}  // namespace lockstep::train::cuda
