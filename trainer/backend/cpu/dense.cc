#include <algorithm>
#include <optional>

#include "trainer/backend/cpu/bound_op.h"
#include "trainer/backend/cpu/execution.h"
#include "trainer/backend/cpu/ops.h"

namespace lockstep::train::cpu {
namespace {

using dnnl::memory;
using Forwarding = dnnl::inner_product_forward;
using DataBackward = dnnl::inner_product_backward_data;
using WeightsBackward = dnnl::inner_product_backward_weights;

constexpr auto kFloat = memory::data_type::f32;

// The three products of one layer over matrices: x is N,K with K in the order the image lies in
// memory, so that flattening is free; the weight's K has the same order.
struct InnerProduct {
  Forwarding::primitive_desc forward;
  WeightsBackward::primitive_desc weights;
  std::optional<DataBackward::primitive_desc> data;

  memory::desc weight() const { return forward.weights_desc(); }
};

InnerProduct Describe(const Device& device, const DenseSpec& spec, std::int64_t k) {
  const std::int64_t n = spec.x.shape[0];
  const memory::desc x({n, k}, kFloat, memory::format_tag::ab);
  const memory::desc y({n, spec.units}, kFloat, memory::format_tag::ab);
  const memory::desc bias =
      spec.bias ? memory::desc({spec.units}, kFloat, memory::format_tag::x) : memory::desc();
  dnnl::primitive_attr attributes = UserScratchpad();
  if (spec.activation == Activation::kRelu) {
    dnnl::post_ops relu;
    relu.append_eltwise(dnnl::algorithm::eltwise_relu, 0, 0);
    attributes.set_post_ops(relu);
  }
  const Forwarding::primitive_desc forward(device.engine, dnnl::prop_kind::forward_training, x,
                                           {{spec.units, k}, kFloat, memory::format_tag::any}, bias,
                                           y, attributes);
  const memory::desc weight = forward.weights_desc();
  InnerProduct made{.forward = forward,
                    .weights = spec.bias
                                   ? WeightsBackward::primitive_desc(device.engine, x, weight, bias,
                                                                     y, forward, UserScratchpad())
                                   : WeightsBackward::primitive_desc(device.engine, x, weight, y,
                                                                     forward, UserScratchpad()),
                    .data = std::nullopt};
  if (spec.input_gradient) {
    made.data =
        DataBackward::primitive_desc(device.engine, x, weight, y, forward, UserScratchpad());
  }
  return made;
}

// The weight's order: that of the product over that of the image.
TensorDesc WeightDesc(const DenseSpec& spec, const memory::desc& weight) {
  const std::int64_t inputs = spec.x.shape.elements() / spec.x.shape[0];
  const Shape shape{spec.units, inputs};
  if (spec.x.dense()) return TensorOf(shape, weight);
  std::vector<std::int64_t> extents = spec.x.shape.dims();
  extents[0] = spec.units;
  const memory::desc image = MemoryDescOf(WithExtents(spec.x, Shape(extents)));
  return {.shape = shape, .layout = std::make_shared<DnnlLayout>(weight, image)};
}

// y = act(b + x weight^T)
class Dense final : public BoundOp {
 public:
  Dense(const Device& device, const DenseSpec& spec, const InnerProduct& product)
      : BoundOp(device, spec.x, {.shape = {spec.x.shape[0], spec.units}}),
        spec_(spec),
        p_(product),
        forward_(device, Forwarding(p_.forward)),
        weights_(device, WeightsBackward(p_.weights)) {
    if (p_.data) data_ = Execution(device, DataBackward(*p_.data));
  }

  std::vector<ParameterDesc> Parameters() const override {
    const std::int64_t inputs = spec_.x.shape.elements() / spec_.x.shape[0];
    std::vector<ParameterDesc> parameters = {{.name = "weight",
                                              .desc = WeightDesc(spec_, p_.weight()),
                                              .init = Init::kGlorotUniform,
                                              .fan_in = inputs,
                                              .fan_out = spec_.units}};
    if (spec_.bias) parameters.push_back({.name = "bias", .desc = {.shape = {spec_.units}}});
    return parameters;
  }
  std::size_t ScratchBytes() const override {
    return std::max({p_.forward.scratchpad_desc().get_size(),
                     p_.weights.scratchpad_desc().get_size(),
                     p_.data ? p_.data->scratchpad_desc().get_size() : 0});
  }

  void Forward(const StepContext&) override { forward_.Run(); }

  void Backward(const StepContext&) override {
    if (spec_.activation == Activation::kRelu) MaskByRelu();
    weights_.Run();
    if (!data_.empty() && dx() != nullptr) data_.Run();
  }

 private:
  void OnBind() override {
    forward_.Bind(DNNL_ARG_SRC, p_.forward.src_desc(), memory().x);
    forward_.Bind(DNNL_ARG_WEIGHTS, p_.weight(), memory().parameters[0]);
    forward_.Bind(DNNL_ARG_DST, p_.forward.dst_desc(), memory().y);
    forward_.Bind(DNNL_ARG_SCRATCHPAD, p_.forward.scratchpad_desc(), memory().scratch);
    if (spec_.bias) forward_.Bind(DNNL_ARG_BIAS, p_.forward.bias_desc(), memory().parameters[1]);
    if (memory().dy == nullptr) return;
    weights_.Bind(DNNL_ARG_SRC, p_.weights.src_desc(), memory().x);
    weights_.Bind(DNNL_ARG_DIFF_DST, p_.weights.diff_dst_desc(), memory().dy);
    weights_.Bind(DNNL_ARG_DIFF_WEIGHTS, p_.weight(), memory().gradients[0]);
    weights_.Bind(DNNL_ARG_SCRATCHPAD, p_.weights.scratchpad_desc(), memory().scratch);
    if (spec_.bias) {
      weights_.Bind(DNNL_ARG_DIFF_BIAS, p_.weights.diff_bias_desc(), memory().gradients[1]);
    }
    if (data_.empty()) return;
    data_.Bind(DNNL_ARG_DIFF_SRC, p_.data->diff_src_desc(), memory().dx);
    data_.Bind(DNNL_ARG_WEIGHTS, p_.weight(), memory().parameters[0]);
    data_.Bind(DNNL_ARG_DIFF_DST, p_.data->diff_dst_desc(), memory().dy);
    data_.Bind(DNNL_ARG_SCRATCHPAD, p_.data->scratchpad_desc(), memory().scratch);
  }

  DenseSpec spec_;
  InnerProduct p_;
  Execution forward_, weights_, data_;
};

}  // namespace

std::unique_ptr<Op> MakeDense(const Device& device, const DenseSpec& spec) {
  LOCKSTEP_CHECK(spec.x.shape.rank() >= 2 && spec.units > 0,
                 "dense: {} units on x of shape {}, expected at least 1 on N,…", spec.units,
                 spec.x.shape.ToString());
  device.Enter();
  return Guarded("dense", [&] {
    return std::make_unique<Dense>(device, spec,
                                   Describe(device, spec, ViewOf(spec.x).row_floats()));
  });
}

}  // namespace lockstep::train::cpu
