#include <algorithm>
#include <optional>

#include "trainer/backend/cpu/bound_op.h"
#include "trainer/backend/cpu/convolution.h"
#include "trainer/backend/cpu/device/execution.h"
#include "trainer/backend/cpu/device/memory_desc.h"
#include "trainer/backend/cpu/few_channel_gradient.h"
#include "trainer/backend/cpu/ops.h"
#include "trainer/backend/cpu/winograd.h"
#include "trainer/backend/parameters.h"
#include "trainer/backend/window.h"

namespace lockstep::train::cpu {
namespace {

using dnnl::memory;
using Forwarding = dnnl::convolution_forward;
using DataBackward = dnnl::convolution_backward_data;
using WeightsBackward = dnnl::convolution_backward_weights;

// y = act(b + x * weight). The weight parameter and its gradient are row-major. If a primitive
// needs another order, a reorder runs before or after it. The reordered x of the forward pass is in
// the workspace, the other copies are in scratch.
class Conv2d final : public BoundOp {
 public:
  Conv2d(const Device& device, const Conv2dSpec& spec, const ConvolutionExtents& extents,
         const Convolution& convolution)
      : BoundOp(device, spec.x, TensorOf(Shape(extents.y), convolution.result())),
        spec_(spec),
        extents_(extents),
        c_(convolution),
        order_x_(device, MemoryDescOf(spec.x), c_.image()),
        order_dy_weights_(device, c_.result(), c_.weights.diff_dst_desc()) {
    if (c_.winograd_forward) {
      winograd_forward_ =
          Winograd::Forward(device, spec, *ViewOf(c_.image()), *ViewOf(c_.result()));
    } else {
      forward_ = Execution(device, Forwarding(c_.forward));
      order_weight_ = Reorder(device, RowMajorWeight(), c_.forward.weights_desc());
    }
    if (c_.weights.src_desc() != c_.image()) {
      order_x_back_ = Reorder(device, MemoryDescOf(spec.x), c_.weights.src_desc());
    }
    if (c_.few_channels) {
      few_channels_.emplace(device, spec, *ViewOf(c_.weights.diff_dst_desc()));
    } else if (c_.winograd_weights) {
      winograd_weights_.emplace(device, spec, *ViewOf(c_.weights.src_desc()),
                                *ViewOf(c_.weights.diff_dst_desc()));
    } else {
      weights_ = Execution(device, WeightsBackward(c_.weights));
      order_gradient_ = Reorder(device, c_.weights.diff_weights_desc(), RowMajorWeight());
    }
    if (c_.data) {
      if (c_.winograd_data) {
        winograd_data_ = Winograd::BackwardData(device, spec, *ViewOf(c_.data->diff_dst_desc()),
                                                *ViewOf(c_.data->diff_src_desc()));
      } else {
        data_ = Execution(device, DataBackward(*c_.data));
        order_weight_back_ = Reorder(device, RowMajorWeight(), c_.data->weights_desc());
      }
      order_dy_data_ = Reorder(device, c_.result(), c_.data->diff_dst_desc());
      order_dx_ = Reorder(device, c_.data->diff_src_desc(), MemoryDescOf(spec.x));
    }
    PlanScratch();
  }

  std::vector<ParameterDesc> Parameters() const override { return ParametersOf(spec_); }
  std::size_t WorkspaceBytes() const override {
    return order_x_.empty() ? 0 : c_.image().get_size();
  }
  std::size_t ScratchBytes() const override { return scratch_.bytes(); }

  BackwardReads Reads() const override { return {.x = true, .y = spec_.relu}; }
  void Forward(Mode, const StepContext&) override {
    order_x_.Run();
    if (winograd_forward_) {
      winograd_forward_->Run(static_cast<const float*>(image()), memory().parameters[0],
                             spec_.bias ? memory().parameters[1] : nullptr, y(), Scratch(pad_at_));
      return;
    }
    order_weight_.Run();
    forward_.Run();
    if (spec_.relu) ApplyRelu();
  }

  void Backward(const StepContext&) override {
    if (spec_.relu) MaskByRelu();
    order_x_back_.Run();
    order_dy_weights_.Run();
    RunWeights();
    if (!c_.data || dx() == nullptr) return;
    order_dy_data_.Run();
    if (winograd_data_) {
      winograd_data_->Run(static_cast<const float*>(DataDy()), memory().parameters[0], nullptr,
                          static_cast<float*>(DataDx()), Scratch(pad_at_));
    } else {
      order_weight_back_.Run();
      data_.Run();
    }
    order_dx_.Run();
  }

  std::vector<OpChoice> Choices() const override {
    std::vector<OpChoice> choices = {
        {"forward", winograd_forward_ ? Winograd::Name(device()) : c_.forward.impl_info_str(),
         Orders(c_.image(), c_.result())},
        {"backward weights",
         few_channels_       ? FewChannelGradient::Name(device())
         : winograd_weights_ ? Winograd::Name(device())
                             : c_.weights.impl_info_str(),
         Orders(c_.weights.src_desc(), c_.weights.diff_dst_desc())}};
    if (c_.data) {
      choices.push_back({"backward data",
                         winograd_data_ ? Winograd::Name(device()) : c_.data->impl_info_str(),
                         Orders(c_.data->diff_src_desc(), c_.data->diff_dst_desc())});
    }
    return choices;
  }

 private:
  void RunWeights() {
    const auto* x = static_cast<const float*>(WeightsX());
    const auto* dy = static_cast<const float*>(WeightsDy());
    float* bias = spec_.bias ? memory().gradients[1] : nullptr;
    if (few_channels_) {
      few_channels_->Run(x, dy, memory().gradients[0], bias, Scratch(pad_at_));
    } else if (winograd_weights_) {
      winograd_weights_->Run(x, dy, memory().gradients[0], bias, Scratch(pad_at_));
    } else {
      weights_.Run();
      order_gradient_.Run();
    }
  }

  void PlanScratch() {
    std::size_t pad = 0;
    if (winograd_forward_) pad = std::max(pad, winograd_forward_->ScratchBytes());
    if (!forward_.empty()) pad = std::max(pad, c_.forward.scratchpad_desc().get_size());
    if (few_channels_) pad = std::max(pad, few_channels_->ScratchBytes());
    if (winograd_weights_) pad = std::max(pad, winograd_weights_->ScratchBytes());
    if (!weights_.empty()) pad = std::max(pad, c_.weights.scratchpad_desc().get_size());
    if (winograd_data_) pad = std::max(pad, winograd_data_->ScratchBytes());
    if (!data_.empty()) pad = std::max(pad, c_.data->scratchpad_desc().get_size());
    for (const Reorder* order :
         {&order_x_, &order_x_back_, &order_weight_, &order_gradient_, &order_weight_back_,
          &order_dy_weights_, &order_dy_data_, &order_dx_}) {
      pad = std::max(pad, order->scratch_bytes());
    }
    pad_at_ = scratch_.Reserve(pad);
    // The passes do not overlap, so buffers with the same role share memory.
    weight_at_ =
        scratch_.Reserve(std::max({order_weight_.target_bytes(), order_gradient_.source_bytes(),
                                   order_weight_back_.target_bytes()}));
    x_at_ = scratch_.Reserve(std::max(order_x_back_.target_bytes(), order_dx_.source_bytes()));
    dy_at_ =
        scratch_.Reserve(std::max(order_dy_weights_.target_bytes(), order_dy_data_.target_bytes()));
  }

  // x in the order of the forward pass.
  const void* image() const { return order_x_.empty() ? x() : memory().workspace; }
  // The x that the weight's gradient reads.
  const void* WeightsX() const {
    if (c_.weights.src_desc() == c_.image()) return image();
    return order_x_back_.empty() ? x() : Scratch(x_at_);
  }
  void* WeightsDy() const { return order_dy_weights_.empty() ? memory().dy : Scratch(dy_at_); }
  // The input and the output of the gradient of x, before its final reorder.
  void* DataDy() const { return order_dy_data_.empty() ? memory().dy : Scratch(dy_at_); }
  void* DataDx() const { return order_dx_.empty() ? dx() : Scratch(x_at_); }
  memory::desc RowMajorWeight() const { return DenseMemoryDesc(Shape(extents_.weight)); }
  // The order of x if it is copied, then those of a pass's x and y: "nchw > nChw8c > nChw8c".
  std::string Orders(const memory::desc& x, const memory::desc& y) const {
    const std::string given = NameOf(input());
    const std::string image = NameOf(TensorOf(Shape(extents_.x), x));
    return (given == image ? "" : given + " > ") + image + " > " +
           NameOf(TensorOf(Shape(extents_.y), y));
  }

  void* Scratch(std::size_t offset) const {
    return static_cast<std::byte*>(memory().scratch) + offset;
  }

  void OnBind() override {
    order_x_.Bind(x(), memory().workspace, Scratch(pad_at_));
    if (!winograd_forward_) BindForward();
    if (memory().dy == nullptr) return;
    order_x_back_.Bind(x(), Scratch(x_at_), Scratch(pad_at_));
    order_dy_weights_.Bind(memory().dy, Scratch(dy_at_), Scratch(pad_at_));
    if (!weights_.empty()) BindWeights();
    if (!c_.data) return;
    order_dy_data_.Bind(memory().dy, DataDy(), Scratch(pad_at_));
    if (!winograd_data_) BindData();
    order_dx_.Bind(DataDx(), dx(), Scratch(pad_at_));
  }

  void BindForward() {
    forward_.Bind(DNNL_ARG_SRC, c_.image(), image());
    void* weight = order_weight_.empty() ? memory().parameters[0] : Scratch(weight_at_);
    order_weight_.Bind(memory().parameters[0], weight, Scratch(pad_at_));
    forward_.Bind(DNNL_ARG_WEIGHTS, c_.forward.weights_desc(), weight);
    forward_.Bind(DNNL_ARG_DST, c_.result(), memory().y);
    forward_.Bind(DNNL_ARG_SCRATCHPAD, c_.forward.scratchpad_desc(), Scratch(pad_at_));
    if (spec_.bias) forward_.Bind(DNNL_ARG_BIAS, c_.forward.bias_desc(), memory().parameters[1]);
  }

  void BindWeights() {
    float* gradient = memory().gradients[0];
    void* raw_gradient = order_gradient_.empty() ? gradient : Scratch(weight_at_);
    weights_.Bind(DNNL_ARG_SRC, c_.weights.src_desc(), WeightsX());
    weights_.Bind(DNNL_ARG_DIFF_DST, c_.weights.diff_dst_desc(), WeightsDy());
    weights_.Bind(DNNL_ARG_DIFF_WEIGHTS, c_.weights.diff_weights_desc(), raw_gradient);
    weights_.Bind(DNNL_ARG_SCRATCHPAD, c_.weights.scratchpad_desc(), Scratch(pad_at_));
    if (spec_.bias) {
      weights_.Bind(DNNL_ARG_DIFF_BIAS, c_.weights.diff_bias_desc(), memory().gradients[1]);
    }
    order_gradient_.Bind(raw_gradient, gradient, Scratch(pad_at_));
  }

  void BindData() {
    void* weight = order_weight_back_.empty() ? memory().parameters[0] : Scratch(weight_at_);
    order_weight_back_.Bind(memory().parameters[0], weight, Scratch(pad_at_));
    data_.Bind(DNNL_ARG_DIFF_SRC, c_.data->diff_src_desc(), DataDx());
    data_.Bind(DNNL_ARG_WEIGHTS, c_.data->weights_desc(), weight);
    data_.Bind(DNNL_ARG_DIFF_DST, c_.data->diff_dst_desc(), DataDy());
    data_.Bind(DNNL_ARG_SCRATCHPAD, c_.data->scratchpad_desc(), Scratch(pad_at_));
  }

  Conv2dSpec spec_;
  ConvolutionExtents extents_;
  Convolution c_;
  Execution forward_, weights_, data_;
  std::optional<FewChannelGradient> few_channels_;            // instead of weights_
  std::optional<WinogradGradient> winograd_weights_;          // instead of weights_
  std::optional<Winograd> winograd_forward_, winograd_data_;  // instead of forward_ and data_
  Reorder order_x_, order_weight_;                            // forward
  Reorder order_x_back_, order_dy_weights_, order_gradient_;  // backward weights
  Reorder order_dy_data_, order_weight_back_, order_dx_;      // backward data
  ScratchPlan scratch_;
  std::size_t pad_at_ = 0, weight_at_ = 0, x_at_ = 0, dy_at_ = 0;
};

}  // namespace

std::unique_ptr<Op> MakeOp(const Device& device, const Conv2dSpec& spec) {
  device.Enter();
  return Guarded("conv2d", [&] {
    const ConvolutionExtents extents = ExtentsOf(spec);
    return std::make_unique<Conv2d>(device, spec, extents,
                                    ChooseConvolution(device, spec, extents));
  });
}

}  // namespace lockstep::train::cpu
