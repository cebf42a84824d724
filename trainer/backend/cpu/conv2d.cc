#include <algorithm>
#include <optional>

#include "trainer/backend/cpu/bound_op.h"
#include "trainer/backend/cpu/convolution.h"
#include "trainer/backend/cpu/execution.h"
#include "trainer/backend/cpu/few_channel_gradient.h"
#include "trainer/backend/cpu/ops.h"
#include "trainer/backend/window.h"

namespace lockstep::train::cpu {
namespace {

using dnnl::memory;
using Forwarding = dnnl::convolution_forward;
using DataBackward = dnnl::convolution_backward_data;
using WeightsBackward = dnnl::convolution_backward_weights;

// y = act(b + x * weight). The weight as a parameter, and its gradient, are row-major. Where a
// primitive wants another order than it is given, a reorder stands before or after it: x's is kept
// in the workspace, the others' are in scratch.
class Conv2d final : public BoundOp {
 public:
  Conv2d(const Device& device, const Conv2dSpec& spec, const ConvolutionExtents& extents,
         const Convolution& convolution)
      : BoundOp(device, spec.x, TensorOf(Shape(extents.y), convolution.result())),
        spec_(spec),
        extents_(extents),
        c_(convolution),
        forward_(device, Forwarding(c_.forward)),
        order_x_(device, MemoryDescOf(spec.x), c_.image()),
        order_weight_(device, RowMajorWeight(), c_.forward.weights_desc()) {
    if (c_.few_channels) {
      few_channels_.emplace(device, spec, *ViewOf(c_.result()));
    } else {
      weights_ = Execution(device, WeightsBackward(c_.weights));
      order_gradient_ = Reorder(device, c_.weights.diff_weights_desc(), RowMajorWeight());
    }
    if (c_.data) {
      data_ = Execution(device, DataBackward(*c_.data));
      order_weight_back_ = Reorder(device, RowMajorWeight(), c_.data->weights_desc());
      order_dx_ = Reorder(device, c_.image(), MemoryDescOf(spec.x));
    }
    PlanScratch();
  }

  std::vector<ParameterDesc> Parameters() const override {
    const std::int64_t field = spec_.kernel_h * spec_.kernel_w;
    std::vector<ParameterDesc> parameters = {{.name = "weight",
                                              .desc = {.shape = Shape(extents_.weight)},
                                              .init = Init::kGlorotUniform,
                                              .fan_in = field * spec_.x.shape[1],
                                              .fan_out = field * spec_.filters}};
    if (spec_.bias) parameters.push_back({.name = "bias", .desc = {.shape = {spec_.filters}}});
    return parameters;
  }
  std::size_t WorkspaceBytes() const override {
    return order_x_.empty() ? 0 : c_.image().get_size();
  }
  std::size_t ScratchBytes() const override { return scratch_.bytes(); }

  void Forward(const StepContext&) override {
    order_x_.Run();
    order_weight_.Run();
    forward_.Run();
  }

  void Backward(const StepContext&) override {
    if (spec_.activation == Activation::kRelu) MaskByRelu();
    if (few_channels_) {
      few_channels_->Run(static_cast<const float*>(image()), dy(), memory().gradients[0],
                         spec_.bias ? memory().gradients[1] : nullptr, Scratch(pad_at_));
    } else {
      weights_.Run();
      order_gradient_.Run();
    }
    if (data_.empty() || dx() == nullptr) return;
    order_weight_back_.Run();
    data_.Run();
    order_dx_.Run();
  }

  std::vector<OpChoice> Choices() const override {
    const std::string layout = NameOf(input()) + (order_x_.empty() ? "" : " > " + NameOf(Image())) +
                               " > " + NameOf(output());
    std::vector<OpChoice> choices = {
        {"forward", c_.forward.impl_info_str(), layout},
        {"backward weights",
         few_channels_ ? FewChannelGradient::Name(device()) : c_.weights.impl_info_str(), layout}};
    if (c_.data) choices.push_back({"backward data", c_.data->impl_info_str(), layout});
    return choices;
  }

 private:
  void PlanScratch() {
    std::size_t pad = std::max(
        c_.forward.scratchpad_desc().get_size(),
        few_channels_ ? few_channels_->ScratchBytes() : c_.weights.scratchpad_desc().get_size());
    for (const Reorder* order :
         {&order_x_, &order_weight_, &order_gradient_, &order_weight_back_, &order_dx_}) {
      pad = std::max(pad, order->scratch_bytes());
    }
    if (c_.data) pad = std::max(pad, c_.data->scratchpad_desc().get_size());
    pad_at_ = scratch_.Reserve(pad);
    // The three orders of the weight take turns.
    std::size_t weight = 0;
    if (!order_weight_.empty()) weight = c_.forward.weights_desc().get_size();
    if (!order_gradient_.empty()) {
      weight = std::max(weight, c_.weights.diff_weights_desc().get_size());
    }
    if (!order_weight_back_.empty()) weight = std::max(weight, c_.data->weights_desc().get_size());
    weight_at_ = scratch_.Reserve(weight);
    if (!order_dx_.empty()) dx_at_ = scratch_.Reserve(c_.image().get_size());
  }

  // x in the order of the primitives.
  const void* image() const { return order_x_.empty() ? memory().x : memory().workspace; }
  memory::desc RowMajorWeight() const { return DenseMemoryDesc(Shape(extents_.weight)); }
  TensorDesc Image() const { return TensorOf(Shape(extents_.x), c_.image()); }

  void* Scratch(std::size_t offset) const {
    return static_cast<std::byte*>(memory().scratch) + offset;
  }

  void OnBind() override {
    order_x_.Bind(memory().x, memory().workspace, Scratch(pad_at_));
    forward_.Bind(DNNL_ARG_SRC, c_.image(), image());
    void* weight = order_weight_.empty() ? memory().parameters[0] : Scratch(weight_at_);
    order_weight_.Bind(memory().parameters[0], weight, Scratch(pad_at_));
    forward_.Bind(DNNL_ARG_WEIGHTS, c_.forward.weights_desc(), weight);
    forward_.Bind(DNNL_ARG_DST, c_.result(), memory().y);
    forward_.Bind(DNNL_ARG_SCRATCHPAD, c_.forward.scratchpad_desc(), Scratch(pad_at_));
    if (spec_.bias) forward_.Bind(DNNL_ARG_BIAS, c_.forward.bias_desc(), memory().parameters[1]);
    if (memory().dy == nullptr) return;
    if (!few_channels_) BindWeights();
    if (!data_.empty()) BindData();
  }

  void BindWeights() {
    float* gradient = memory().gradients[0];
    void* raw_gradient = order_gradient_.empty() ? gradient : Scratch(weight_at_);
    weights_.Bind(DNNL_ARG_SRC, c_.image(), image());
    weights_.Bind(DNNL_ARG_DIFF_DST, c_.result(), memory().dy);
    weights_.Bind(DNNL_ARG_DIFF_WEIGHTS, c_.weights.diff_weights_desc(), raw_gradient);
    weights_.Bind(DNNL_ARG_SCRATCHPAD, c_.weights.scratchpad_desc(), Scratch(pad_at_));
    if (spec_.bias) {
      weights_.Bind(DNNL_ARG_DIFF_BIAS, c_.weights.diff_bias_desc(), memory().gradients[1]);
    }
    order_gradient_.Bind(raw_gradient, gradient, Scratch(pad_at_));
  }

  void BindData() {
    void* weight = order_weight_back_.empty() ? memory().parameters[0] : Scratch(weight_at_);
    void* raw_dx = order_dx_.empty() ? memory().dx : Scratch(dx_at_);
    order_weight_back_.Bind(memory().parameters[0], weight, Scratch(pad_at_));
    data_.Bind(DNNL_ARG_DIFF_SRC, c_.image(), raw_dx);
    data_.Bind(DNNL_ARG_WEIGHTS, c_.data->weights_desc(), weight);
    data_.Bind(DNNL_ARG_DIFF_DST, c_.result(), memory().dy);
    data_.Bind(DNNL_ARG_SCRATCHPAD, c_.data->scratchpad_desc(), Scratch(pad_at_));
    order_dx_.Bind(raw_dx, memory().dx, Scratch(pad_at_));
  }

  Conv2dSpec spec_;
  ConvolutionExtents extents_;
  Convolution c_;
  Execution forward_, weights_, data_;
  std::optional<FewChannelGradient> few_channels_;
  Reorder order_x_, order_weight_, order_gradient_, order_weight_back_, order_dx_;
  ScratchPlan scratch_;
  std::size_t pad_at_ = 0, weight_at_ = 0, dx_at_ = 0;
};

}  // namespace

std::unique_ptr<Op> MakeConv2d(const Device& device, const Conv2dSpec& spec) {
  const Shape& x = spec.x.shape;
  LOCKSTEP_CHECK(x.rank() == 4, "conv2d: x has shape {}, expected N,C,H,W", x.ToString());
  const WindowAxis rows = PlaceWindow(x[2], spec.kernel_h, spec.stride_h, spec.padding);
  const WindowAxis columns = PlaceWindow(x[3], spec.kernel_w, spec.stride_w, spec.padding);
  LOCKSTEP_CHECK(rows.out > 0 && columns.out > 0, "conv2d: a {}x{} kernel does not fit x of {}",
                 spec.kernel_h, spec.kernel_w, x.ToString());
  device.Enter();
  return Guarded("conv2d", [&] {
    const ConvolutionExtents extents = ExtentsOf(spec);
    return std::make_unique<Conv2d>(device, spec, extents,
                                    ChooseConvolution(device, spec, extents));
  });
}

}  // namespace lockstep::train::cpu
