#include <algorithm>
#include <optional>

#include "trainer/backend/cpu/bound_op.h"
#include "trainer/backend/cpu/execution.h"
#include "trainer/backend/cpu/ops.h"
#include "trainer/backend/window.h"

namespace lockstep::train::cpu {
namespace {

using dnnl::algorithm;
using dnnl::memory;
using dnnl::prop_kind;
using Forwarding = dnnl::convolution_forward;
using DataBackward = dnnl::convolution_backward_data;
using WeightsBackward = dnnl::convolution_backward_weights;

constexpr auto kFloat = memory::data_type::f32;
constexpr auto kAny = memory::format_tag::any;

// The three primitives of one convolution. Their images have one order, the forward's choice; the
// weight as a parameter, and its gradient, have the forward's order too.
struct Convolution {
  Forwarding::primitive_desc forward;
  WeightsBackward::primitive_desc weights;
  std::optional<DataBackward::primitive_desc> data;

  memory::desc image() const { return forward.src_desc(); }
  memory::desc weight() const { return forward.weights_desc(); }
  memory::desc result() const { return forward.dst_desc(); }
};

struct Extents {
  memory::dims x, weight, bias, y, strides, pad_begin, pad_end;
};

Extents ExtentsOf(const Conv2dSpec& spec, const WindowAxis& rows, const WindowAxis& columns) {
  const Shape& x = spec.x.shape;
  return {.x = x.dims(),
          .weight = {spec.filters, x[1], spec.kernel_h, spec.kernel_w},
          .bias = spec.bias ? memory::dims{spec.filters} : memory::dims{},
          .y = {x[0], spec.filters, rows.out, columns.out},
          .strides = {spec.stride_h, spec.stride_w},
          .pad_begin = {rows.pad_begin, columns.pad_begin},
          .pad_end = {rows.pad_end, columns.pad_end}};
}

Forwarding::primitive_desc DescribeForward(const Device& device, const Conv2dSpec& spec,
                                           const Extents& e) {
  const memory::desc bias =
      spec.bias ? memory::desc(e.bias, kFloat, memory::format_tag::x) : memory::desc();
  dnnl::primitive_attr attributes = UserScratchpad();
  if (spec.activation == Activation::kRelu) {
    dnnl::post_ops relu;
    relu.append_eltwise(algorithm::eltwise_relu, 0, 0);
    attributes.set_post_ops(relu);
  }
  const auto describe = [&](memory::format_tag x, memory::format_tag y) {
    return Forwarding::primitive_desc(device.engine, prop_kind::forward_training,
                                      algorithm::convolution_direct, {e.x, kFloat, x},
                                      {e.weight, kFloat, kAny}, bias, {e.y, kFloat, y}, e.strides,
                                      e.pad_begin, e.pad_end, attributes);
  };
  auto best = describe(kAny, kAny);
  if (ViewOf(best.dst_desc())) return best;
  return describe(memory::format_tag::nchw, memory::format_tag::nchw);
}

Convolution Describe(const Device& device, const Conv2dSpec& spec, const Extents& e) {
  const auto forward = DescribeForward(device, spec, e);
  const memory::desc x = forward.src_desc(), y = forward.dst_desc(), weight{e.weight, kFloat, kAny};
  const auto direct = algorithm::convolution_direct;
  Convolution made{
      .forward = forward,
      .weights = spec.bias ? WeightsBackward::primitive_desc(
                                 device.engine, direct, x, weight, forward.bias_desc(), y,
                                 e.strides, e.pad_begin, e.pad_end, forward, UserScratchpad())
                           : WeightsBackward::primitive_desc(device.engine, direct, x, weight, y,
                                                             e.strides, e.pad_begin, e.pad_end,
                                                             forward, UserScratchpad()),
      .data = std::nullopt};
  if (spec.input_gradient) {
    made.data = DataBackward::primitive_desc(device.engine, direct, x, weight, y, e.strides,
                                             e.pad_begin, e.pad_end, forward, UserScratchpad());
  }
  return made;
}

// y = act(b + x * weight). Where a primitive wants another order than it is given, a reorder stands
// before or after it: x's is kept in the workspace, the others' are in scratch.
class Conv2d final : public BoundOp {
 public:
  Conv2d(const Device& device, const Conv2dSpec& spec, const Extents& extents,
         const Convolution& convolution)
      : BoundOp(device, spec.x, TensorOf(Shape(extents.y), convolution.result())),
        spec_(spec),
        extents_(extents),
        c_(convolution),
        forward_(device, Forwarding(c_.forward)),
        weights_(device, WeightsBackward(c_.weights)),
        order_x_(device, MemoryDescOf(spec.x), c_.image()),
        order_gradient_(device, c_.weights.diff_weights_desc(), c_.weight()) {
    if (c_.data) {
      data_ = Execution(device, DataBackward(*c_.data));
      order_weight_ = Reorder(device, c_.weight(), c_.data->weights_desc());
      order_dx_ = Reorder(device, c_.image(), MemoryDescOf(spec.x));
    }
    PlanScratch();
  }

  std::vector<ParameterDesc> Parameters() const override {
    const std::int64_t field = spec_.kernel_h * spec_.kernel_w;
    std::vector<ParameterDesc> parameters = {{.name = "weight",
                                              .desc = TensorOf(Shape(extents_.weight), c_.weight()),
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
    forward_.Run();
  }

  void Backward(const StepContext&) override {
    if (spec_.activation == Activation::kRelu) MaskByRelu();
    weights_.Run();
    order_gradient_.Run();
    if (data_.empty() || dx() == nullptr) return;
    order_weight_.Run();
    data_.Run();
    order_dx_.Run();
  }

 private:
  void PlanScratch() {
    std::size_t pad =
        std::max(c_.forward.scratchpad_desc().get_size(), c_.weights.scratchpad_desc().get_size());
    for (const Reorder* order : {&order_x_, &order_gradient_, &order_weight_, &order_dx_}) {
      pad = std::max(pad, order->scratch_bytes());
    }
    if (c_.data) pad = std::max(pad, c_.data->scratchpad_desc().get_size());
    pad_at_ = scratch_.Reserve(pad);
    // Only one of the three is in use at a time, but they are small beside the images.
    if (!order_gradient_.empty()) {
      gradient_at_ = scratch_.Reserve(c_.weights.diff_weights_desc().get_size());
    }
    if (!order_weight_.empty()) weight_at_ = scratch_.Reserve(c_.data->weights_desc().get_size());
    if (!order_dx_.empty()) dx_at_ = scratch_.Reserve(c_.image().get_size());
  }

  void* Scratch(std::size_t offset) const {
    return static_cast<std::byte*>(memory().scratch) + offset;
  }

  void OnBind() override {
    const void* image = order_x_.empty() ? memory().x : memory().workspace;
    order_x_.Bind(memory().x, memory().workspace, Scratch(pad_at_));
    forward_.Bind(DNNL_ARG_SRC, c_.image(), image);
    forward_.Bind(DNNL_ARG_WEIGHTS, c_.weight(), memory().parameters[0]);
    forward_.Bind(DNNL_ARG_DST, c_.result(), memory().y);
    forward_.Bind(DNNL_ARG_SCRATCHPAD, c_.forward.scratchpad_desc(), Scratch(pad_at_));
    if (spec_.bias) forward_.Bind(DNNL_ARG_BIAS, c_.forward.bias_desc(), memory().parameters[1]);
    if (memory().dy != nullptr) BindBackward(image);
  }

  void BindBackward(const void* image) {
    float* gradient = memory().gradients[0];
    void* raw_gradient = order_gradient_.empty() ? gradient : Scratch(gradient_at_);
    weights_.Bind(DNNL_ARG_SRC, c_.image(), image);
    weights_.Bind(DNNL_ARG_DIFF_DST, c_.result(), memory().dy);
    weights_.Bind(DNNL_ARG_DIFF_WEIGHTS, c_.weights.diff_weights_desc(), raw_gradient);
    weights_.Bind(DNNL_ARG_SCRATCHPAD, c_.weights.scratchpad_desc(), Scratch(pad_at_));
    if (spec_.bias) {
      weights_.Bind(DNNL_ARG_DIFF_BIAS, c_.weights.diff_bias_desc(), memory().gradients[1]);
    }
    order_gradient_.Bind(raw_gradient, gradient, Scratch(pad_at_));
    if (data_.empty()) return;
    void* weight = order_weight_.empty() ? memory().parameters[0] : Scratch(weight_at_);
    void* raw_dx = order_dx_.empty() ? memory().dx : Scratch(dx_at_);
    order_weight_.Bind(memory().parameters[0], weight, Scratch(pad_at_));
    data_.Bind(DNNL_ARG_DIFF_SRC, c_.image(), raw_dx);
    data_.Bind(DNNL_ARG_WEIGHTS, c_.data->weights_desc(), weight);
    data_.Bind(DNNL_ARG_DIFF_DST, c_.result(), memory().dy);
    data_.Bind(DNNL_ARG_SCRATCHPAD, c_.data->scratchpad_desc(), Scratch(pad_at_));
    order_dx_.Bind(raw_dx, memory().dx, Scratch(pad_at_));
  }

  Conv2dSpec spec_;
  Extents extents_;
  Convolution c_;
  Execution forward_, weights_, data_;
  Reorder order_x_, order_gradient_, order_weight_, order_dx_;
  ScratchPlan scratch_;
  std::size_t pad_at_ = 0, gradient_at_ = 0, weight_at_ = 0, dx_at_ = 0;
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
    const Extents extents = ExtentsOf(spec, rows, columns);
    return std::make_unique<Conv2d>(device, spec, extents, Describe(device, spec, extents));
  });
}

}  // namespace lockstep::train::cpu
