#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#include "trainer/backend/cuda/bias.h"
#include "trainer/backend/cuda/bound_op.h"
#include "trainer/backend/cuda/launch_on_windows.h"
#include "trainer/backend/cuda/layout/channels_last.h"
#include "trainer/backend/cuda/ops.h"
#include "trainer/backend/parameters.h"
#include "trainer/backend/scratch_plan.h"
#include "trainer/backend/window.h"

namespace lockstep::train::cuda {
namespace {

// y[n,k,p,q] = act(b[k] + sum over r,s of x[n,k/M,h,w] * weight[k,0,r,s]), with channels last and
// kernels of our own: such a convolution reads and writes much for what it computes, so that tensor
// cores would not help. Dense x is put into that order first, and so are the weights at each use,
// in x's type.
class DepthwiseConv2d final : public BoundOp {
 public:
  DepthwiseConv2d(const Device& device, const DepthwiseConv2dSpec& spec, const Windows& windows)
      : BoundOp("depthwise_conv2d", device, spec.x,
                ChannelsLast({.shape = ShapeOf(spec), .dtype = spec.x.dtype})),
        spec_(spec),
        windows_(windows),
        pixels_(windows.rows.in * windows.columns.in),
        is_x_copied_(!IsChannelsLast(spec.x) && channels() > 1 && pixels_ > 1),
        columns_(static_cast<int>(
            std::bit_ceil(static_cast<unsigned>(std::min<std::int64_t>(filters(), kMostColumns))))),
        parts_(PartsOf()),
        bias_and_relu_(device, output(), spec.bias, spec.relu) {
    weight_at_ = scratch_.Reserve(static_cast<std::size_t>(filters() * taps()) * SizeOf(dtype()));
    if (is_x_copied_ && spec.input_gradient) dx_at_ = scratch_.Reserve(BytesOfImage());
    const auto sums = static_cast<std::size_t>(parts_ * filters() * taps()) * sizeof(double);
    work_at_ = scratch_.Reserve(std::max(sums, bias_and_relu_.ScratchBytes()));
  }

  std::vector<ParameterDesc> Parameters() const override { return ParametersOf(spec_); }
  std::size_t WorkspaceBytes() const override { return is_x_copied_ ? BytesOfImage() : 0; }
  std::size_t ScratchBytes() const override { return scratch_.bytes(); }

  BackwardReads Reads() const override { return {.x = true, .y = spec_.relu}; }
  void Forward(Mode, const StepContext&) override {
    if (is_x_copied_) ToChannelsLast(device(), OfImage(x(), workspace<void>()));
    Launch(LOCKSTEP_CUDA_KERNEL(Depthwise), device().GridFor(output().elements()), image(),
           OrderedWeight(), y(), type(), batch(), channels(), spec_.depth_multiplier);
    bias_and_relu_.Forward(y(), spec_.bias ? parameter(1) : nullptr);
  }

  void Backward(const StepContext&) override {
    bias_and_relu_.Backward(y(), dy(), spec_.bias ? gradient(1) : nullptr, scratch<void>(work_at_));
    BackwardWeights();
    if (!spec_.input_gradient || dx() == nullptr) return;
    void* image_gradient = is_x_copied_ ? scratch<void>(dx_at_) : dx();
    Launch(LOCKSTEP_CUDA_KERNEL(DepthwiseData), device().GridFor(input().elements()), dy(),
           OrderedWeight(), image_gradient, type(), batch(), channels(), spec_.depth_multiplier);
    if (is_x_copied_) FromChannelsLast(device(), OfImage(image_gradient, dx()));
  }

 private:
  static constexpr std::int64_t kMostColumns = 32;  // a warp

  std::int64_t batch() const { return spec_.x.shape[0]; }
  std::int64_t channels() const { return spec_.x.shape[1]; }
  std::int64_t filters() const { return output().shape[1]; }
  std::int64_t taps() const { return windows_.rows.size * windows_.columns.size; }

  // A block for each tap and up to columns_ filters, and the pixels in enough parts to fill a GPU:
  // a function of only the shapes.
  std::int64_t TapBlocks() const { return taps() * ((filters() + columns_ - 1) / columns_); }
  std::int64_t PartsOf() const {
    constexpr std::int64_t kBlocks = 1024, kPixelsOfPart = 1024;
    const std::int64_t pixels = batch() * windows_.rows.out * windows_.columns.out;
    return std::clamp<std::int64_t>(kBlocks / TapBlocks(), 1,
                                    std::max<std::int64_t>(1, pixels / kPixelsOfPart));
  }

  template <typename Kernel, typename... Arguments>
  void Launch(Kernel kernel, const Grid& grid, const Arguments&... arguments) const {
    LaunchOnWindows(device(), windows_, kernel, grid, arguments...);
  }

  void BackwardWeights() {
    auto* sums = scratch<double>(work_at_);
    Launch(LOCKSTEP_CUDA_KERNEL(SumDepthwiseWeights),
           {.blocks_x = static_cast<unsigned>(TapBlocks()),
            .blocks_y = static_cast<unsigned>(parts_),
            .threads_x = Device::kThreads},
           image(), dy(), type(), sums, batch(), channels(), spec_.depth_multiplier, columns_);
    device().Launch(LOCKSTEP_CUDA_KERNEL(AddDepthwiseWeights), device().GridFor(filters() * taps()),
                    sums, parts_, filters(), taps(), gradient(0));
  }

  // Between x and its image with channels last.
  ChannelsLastOperands OfImage(const void* from, void* to) const {
    return {.x = from,
            .from = dtype(),
            .y = to,
            .to = dtype(),
            .images = batch(),
            .area = pixels_,
            .channels = channels(),
            .padded = channels()};
  }
  std::size_t BytesOfImage() const {
    return static_cast<std::size_t>(input().elements()) * SizeOf(dtype());
  }
  const void* image() const { return is_x_copied_ ? workspace<void>() : x(); }
  // The weights tap by tap, with neighbors for neighboring filters, in x's type.
  const void* OrderedWeight() const {
    auto* ordered = scratch<void>(weight_at_);
    ToChannelsLast(device(), {.x = parameter(0),
                              .y = ordered,
                              .to = dtype(),
                              .images = 1,
                              .area = taps(),
                              .channels = filters(),
                              .padded = filters()});
    return ordered;
  }

  const DepthwiseConv2dSpec spec_;
  const Windows windows_;
  const std::int64_t pixels_;  // of a channel's image
  const bool is_x_copied_;
  const int columns_;
  const std::int64_t parts_;
  const BiasAndRelu bias_and_relu_;
  ScratchPlan scratch_;
  std::size_t weight_at_ = 0, dx_at_ = 0, work_at_ = 0;
};

}  // namespace

std::unique_ptr<Op> MakeOp(const Device& device, const DepthwiseConv2dSpec& spec) {
  return std::make_unique<DepthwiseConv2d>(device, spec, WindowsOf(spec));
}

}  // namespace lockstep::train::cuda
