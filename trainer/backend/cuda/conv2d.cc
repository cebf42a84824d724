#include <algorithm>
#include <optional>
#include <vector>

#include "trainer/backend/cuda/bias.h"
#include "trainer/backend/cuda/bound_op.h"
#include "trainer/backend/cuda/convolution.h"
#include "trainer/backend/cuda/few_channel_conv2d.h"
#include "trainer/backend/cuda/layout/channels_last.h"
#include "trainer/backend/cuda/ops.h"
#include "trainer/backend/parameters.h"
#include "trainer/backend/scratch_plan.h"

namespace lockstep::train::cuda {
namespace {

// The channels of images and weights as the convolution sees them. Where it uses tensor cores, the
// spec's channels are followed by channels of zeros.
std::int64_t ChannelsSeen(const Device& device, const Conv2dSpec& spec) {
  const std::int64_t channels = spec.x.shape[1];
  const bool is_for_tensor_cores = spec.x.dtype != DType::kFloat32 || device.rounds_to_tf32();
  return is_for_tensor_cores ? PaddedToWhole(channels, spec.x.dtype) : channels;
}

// y[n,k,p,q] = act(b[k] + sum over c,r,s of x[n,c,h,w] * weight[k,c,r,s]), with channels last.
// Dense x is put into that order first, and so are the weights at each use, in x's type: they are
// float32 and dense K,C,R,S wherever others see them.
class Conv2d final : public BoundOp {
 public:
  Conv2d(const Device& device, const Conv2dSpec& spec, const ConvolutionShape& shape)
      : BoundOp(
            "conv2d", device, spec.x,
            ChannelsLast({.shape = {shape.batch, spec.filters, shape.rows.out, shape.columns.out},
                          .dtype = spec.x.dtype})),
        spec_(spec),
        shape_(shape),
        pixels_(shape.rows.in * shape.columns.in),
        taps_(shape.rows.size * shape.columns.size),
        is_x_copied_(IsPadded() || (!IsChannelsLast(spec.x) && channels() > 1 && pixels_ > 1)),
        is_weight_copied_(IsPadded() || IsReordered() || dtype() != DType::kFloat32),
        bias_and_relu_(device, output(), spec.bias, spec.relu),
        forward_(device, ConvolutionPass::kForward, shape),
        backward_weights_(device, ConvolutionPass::kBackwardWeights, shape) {
    if (spec.input_gradient) {
      backward_data_.emplace(device, ConvolutionPass::kBackwardData, shape);
    }
    if (is_weight_copied_) {
      const std::int64_t size = spec.filters * shape.channels * taps_;
      weight_at_ =
          scratch_.Reserve(static_cast<std::size_t>(size) *
                           std::max(SizeOf(dtype()), SizeOf(backward_weights_.result_type())));
    }
    if (is_x_copied_ && spec.input_gradient) dx_at_ = scratch_.Reserve(BytesOfImage());
    work_at_ = scratch_.Reserve(std::max(
        {forward_.WorkspaceBytes(), backward_weights_.WorkspaceBytes(),
         backward_data_ ? backward_data_->WorkspaceBytes() : 0, bias_and_relu_.ScratchBytes()}));
  }

  std::vector<ParameterDesc> Parameters() const override { return ParametersOf(spec_); }
  std::size_t WorkspaceBytes() const override { return is_x_copied_ ? BytesOfImage() : 0; }
  std::size_t ScratchBytes() const override { return scratch_.bytes(); }
  std::vector<OpChoice> Choices() const override {
    const auto choice = [&](const char* pass, const Convolution& convolution) {
      return OpChoice{.pass = pass,
                      .implementation = convolution.implementation(),
                      .layout = IsChannelsLast(spec_.x) ? "nhwc > nhwc" : "nchw > nhwc"};
    };
    std::vector<OpChoice> choices = {choice("forward", forward_)};
    if (backward_data_) choices.push_back(choice("backward data", *backward_data_));
    choices.push_back(choice("backward weights", backward_weights_));
    return choices;
  }

  BackwardReads Reads() const override { return {.x = true, .y = spec_.relu}; }
  void Forward(Mode, const StepContext&) override {
    if (is_x_copied_) {
      ToChannelsLast(device(), OfImage(x(), workspace<void>()));
    }
    forward_.Run(image(), OrderedWeight(), y(), scratch<void>(work_at_));
    bias_and_relu_.Forward(y(), spec_.bias ? parameter(1) : nullptr);
  }

  // dweight[k,c,r,s] = sum over n,p,q of dy[n,k,p,q] * x[n,c,h,w]   dbias[k] = sum over n,p,q of dy
  // dx[n,c,h,w] = sum over all k,r,s,p,q that use h,w of dy[n,k,p,q] * weight[k,c,r,s]
  void Backward(const StepContext&) override {
    auto* work = scratch<void>(work_at_);
    bias_and_relu_.Backward(y(), dy(), spec_.bias ? gradient(1) : nullptr, work);
    BackwardWeights(work);
    if (!backward_data_ || dx() == nullptr) return;
    void* image_gradient = is_x_copied_ ? scratch<void>(dx_at_) : dx();
    backward_data_->Run(image_gradient, OrderedWeight(), dy(), work);
    if (is_x_copied_) FromChannelsLast(device(), OfImage(image_gradient, dx()));
  }

 private:
  void BackwardWeights(void* work) {
    const DType type = backward_weights_.result_type();
    const bool is_in_place = type == DType::kFloat32 && !IsPadded() && !IsReordered();
    void* dweight = is_in_place ? gradient(0) : scratch<void>(weight_at_);
    backward_weights_.Run(image(), dweight, dy(), work);
    if (is_in_place) return;
    FromChannelsLast(device(), {.x = dweight,
                                .from = type,
                                .y = gradient(0),
                                .images = spec_.filters,
                                .area = taps_,
                                .channels = channels(),
                                .padded = shape_.channels});
  }

  std::int64_t channels() const { return spec_.x.shape[1]; }
  bool IsPadded() const { return shape_.channels != channels(); }
  // The weights have another order with channels last.
  bool IsReordered() const { return channels() > 1 && taps_ > 1; }
  // Between the images of the spec and those that the convolution sees.
  ChannelsLastOperands OfImage(const void* from, void* to) const {
    return {.x = from,
            .from = dtype(),
            .y = to,
            .to = dtype(),
            .images = shape_.batch,
            .area = pixels_,
            .channels = channels(),
            .padded = shape_.channels,
            .are_inner = IsChannelsLast(spec_.x)};
  }
  std::size_t BytesOfImage() const {
    return static_cast<std::size_t>(shape_.batch * pixels_ * shape_.channels) * SizeOf(dtype());
  }
  const void* image() const { return is_x_copied_ ? workspace<void>() : x(); }
  // The weights with channels last, in x's type. In scratch they stay until the next use of it.
  const void* OrderedWeight() const {
    if (!is_weight_copied_) return parameter(0);
    auto* ordered = scratch<void>(weight_at_);
    ToChannelsLast(device(), {.x = parameter(0),
                              .y = ordered,
                              .to = dtype(),
                              .images = spec_.filters,
                              .area = taps_,
                              .channels = channels(),
                              .padded = shape_.channels});
    return ordered;
  }

  const Conv2dSpec spec_;
  const ConvolutionShape shape_;
  const std::int64_t pixels_, taps_;  // of a channel's image, and of a filter's
  const bool is_x_copied_, is_weight_copied_;
  const BiasAndRelu bias_and_relu_;
  Convolution forward_, backward_weights_;
  std::optional<Convolution> backward_data_;
  ScratchPlan scratch_;
  std::size_t weight_at_ = 0, dx_at_ = 0, work_at_ = 0;
};

}  // namespace

std::unique_ptr<Op> MakeOp(const Device& device, const Conv2dSpec& spec) {
  if (IsForPatches(spec)) return MakeFewChannelConv2d(device, spec);
  const auto [rows, columns] = WindowsOf(spec);
  return std::make_unique<Conv2d>(device, spec,
                                  ConvolutionShape{.batch = spec.x.shape[0],
                                                   .channels = ChannelsSeen(device, spec),
                                                   .filters = spec.filters,
                                                   .rows = rows,
                                                   .columns = columns,
                                                   .type = spec.x.dtype});
}

}  // namespace lockstep::train::cuda
