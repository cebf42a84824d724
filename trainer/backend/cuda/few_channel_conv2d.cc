#include "trainer/backend/cuda/few_channel_conv2d.h"

#include <algorithm>
#include <string>
#include <vector>

#include "trainer/backend/cuda/bias.h"
#include "trainer/backend/cuda/bound_op.h"
#include "trainer/backend/cuda/convolution.h"
#include "trainer/backend/cuda/layout/channels_last.h"
#include "trainer/backend/parameters.h"
#include "trainer/backend/scratch_plan.h"
#include "trainer/backend/window.h"

namespace lockstep::train::cuda {
namespace {

// The taps of a filter, and zeros up to a multiple of 16 bytes.
std::int64_t PaddedTaps(const Conv2dSpec& spec) {
  return PaddedToWhole(spec.x.shape[1] * spec.kernel_h * spec.kernel_w, spec.x.dtype);
}

WindowAxis Pointwise(const WindowAxis& axis) {
  return {.in = axis.out, .size = 1, .stride = 1, .out = axis.out};
}

// y[n,k,p,q] = act(b[k] + sum over c,r,s of weight[k,c,r,s] * patches[n,p,q,(c,r,s)])
class FewChannelConv2d final : public BoundOp {
 public:
  FewChannelConv2d(const Device& device, const Conv2dSpec& spec)
      : FewChannelConv2d(device, spec, WindowsOf(spec), PaddedTaps(spec)) {}

  std::vector<ParameterDesc> Parameters() const override { return ParametersOf(spec_); }
  std::size_t ScratchBytes() const override { return scratch_.bytes(); }
  BackwardReads Reads() const override { return {.x = true, .y = spec_.relu}; }
  std::vector<OpChoice> Choices() const override {
    const std::string layout = IsChannelsLast(input()) ? "nhwc > nhwc" : "nchw > nhwc";
    return {{.pass = "forward",
             .implementation = "lockstep:patches + " + forward_.implementation(),
             .layout = layout},
            {.pass = "backward weights",
             .implementation = "lockstep:patches + " + backward_weights_.implementation(),
             .layout = layout}};
  }

  void Forward(Mode, const StepContext&) override {
    forward_.Run(Patches(), Weight(), y(), scratch<void>(work_at_));
    bias_and_relu_.Forward(y(), spec_.bias ? parameter(1) : nullptr);
  }

  // dweight[k,(c,r,s)] = sum over n,p,q of dy[n,k,p,q] * patches[n,p,q,(c,r,s)]
  void Backward(const StepContext&) override {
    auto* work = scratch<void>(work_at_);
    bias_and_relu_.Backward(y(), dy(), spec_.bias ? gradient(1) : nullptr, work);
    const bool is_padded = padded_ != taps_;
    void* const dweight = is_padded ? scratch<void>(weight_at_) : gradient(0);
    backward_weights_.Run(Patches(), dweight, dy(), work);
    if (is_padded) {
      FromChannelsLast(device(), {.x = dweight,
                                  .y = gradient(0),
                                  .images = spec_.filters,
                                  .area = 1,
                                  .channels = taps_,
                                  .padded = padded_,
                                  .are_inner = true});
    }
  }

 private:
  FewChannelConv2d(const Device& device, const Conv2dSpec& spec, const Windows& windows,
                   std::int64_t padded)
      : BoundOp("conv2d", device, spec.x,
                ChannelsLast({.shape = {spec.x.shape[0], spec.filters, windows.rows.out,
                                        windows.columns.out},
                              .dtype = spec.x.dtype})),
        spec_(spec),
        windows_(windows),
        taps_(spec.x.shape[1] * spec.kernel_h * spec.kernel_w),
        padded_(padded),
        product_({.batch = spec.x.shape[0],
                  .channels = padded,
                  .filters = spec.filters,
                  .rows = Pointwise(windows.rows),
                  .columns = Pointwise(windows.columns),
                  .type = spec.x.dtype}),
        bias_and_relu_(device, output(), spec.bias, spec.relu),
        forward_(device, ConvolutionPass::kForward, product_),
        backward_weights_(device, ConvolutionPass::kBackwardWeights, product_) {
    const std::int64_t pixels = product_.batch * windows.rows.out * windows.columns.out;
    patches_at_ = scratch_.Reserve(static_cast<std::size_t>(pixels * padded) * SizeOf(dtype()));
    // The gradient takes this place, too, and is float32.
    weight_at_ = scratch_.Reserve(static_cast<std::size_t>(spec.filters * padded) * sizeof(float));
    work_at_ =
        scratch_.Reserve(std::max({forward_.WorkspaceBytes(), backward_weights_.WorkspaceBytes(),
                                   bias_and_relu_.ScratchBytes()}));
  }

  // In scratch memory, because they are many times x; so each pass gathers them.
  const void* Patches() const {
    auto* patches = scratch<void>(patches_at_);
    const auto& [rows, columns] = windows_;
    const std::int64_t images = product_.batch;
    device().Launch(LOCKSTEP_CUDA_KERNEL(GatherPatches),
                    device().GridFor(images * rows.out * columns.out * padded_ / 4), x(), patches,
                    type(), images, input().shape[1], padded_, IsChannelsLast(input()), rows.in,
                    columns.in, rows.size, columns.size, rows.stride, columns.stride,
                    rows.pad_begin, columns.pad_begin, rows.out, columns.out);
    return patches;
  }

  // The weights as rows of `padded_` taps, in x's type.
  const void* Weight() const {
    if (padded_ == taps_ && dtype() == DType::kFloat32) return parameter(0);
    auto* rows = scratch<void>(weight_at_);
    ToChannelsLast(device(), {.x = parameter(0),
                              .y = rows,
                              .to = dtype(),
                              .images = spec_.filters,
                              .area = 1,
                              .channels = taps_,
                              .padded = padded_,
                              .are_inner = true});
    return rows;
  }

  const Conv2dSpec spec_;
  const Windows windows_;
  const std::int64_t taps_, padded_;
  const ConvolutionShape product_;
  const BiasAndRelu bias_and_relu_;
  Convolution forward_, backward_weights_;
  ScratchPlan scratch_;
  std::size_t patches_at_ = 0, weight_at_ = 0, work_at_ = 0;
};

}  // namespace

bool IsForPatches(const Conv2dSpec& spec) {
  constexpr std::int64_t kMostChannels = 4, kMostTapsOfFilter = 4;
  return !spec.input_gradient && spec.x.shape[1] <= kMostChannels &&
         spec.kernel_h * spec.kernel_w > 1 &&
         PaddedTaps(spec) <= std::min(kernels::kMostTaps, kMostTapsOfFilter * spec.filters);
}

std::unique_ptr<Op> MakeFewChannelConv2d(const Device& device, const Conv2dSpec& spec) {
  return std::make_unique<FewChannelConv2d>(device, spec);
}

}  // namespace lockstep::train::cuda
