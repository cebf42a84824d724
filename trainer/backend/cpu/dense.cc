#include <algorithm>
#include <optional>

#include "trainer/backend/cpu/bound_op.h"
#include "trainer/backend/cpu/device/execution.h"
#include "trainer/backend/cpu/device/memory_desc.h"
#include "trainer/backend/cpu/ops.h"
#include "trainer/backend/parameters.h"

namespace lockstep::train::cpu {
namespace {

using dnnl::memory;
using DataBackward = dnnl::inner_product_backward_data;
using WeightsBackward = dnnl::inner_product_backward_weights;

constexpr auto kFloat = memory::data_type::f32;

// The three products of one layer over row-major matrices: x is N,K and the weight is units,K. The
// orders that oneDNN would choose are no faster, and on some instruction sets one of the three
// would run as plain loops. The forward product is a matmul, because inner_product is up to 1.7
// times slower on narrow layers in this order.
struct Products {
  dnnl::matmul::primitive_desc forward;
  WeightsBackward::primitive_desc weights;
  std::optional<DataBackward::primitive_desc> data;
};

Products Describe(const Device& device, const DenseSpec& spec, std::int64_t k) {
  using Tag = memory::format_tag;
  const std::int64_t n = spec.x.shape[0];
  const memory::desc x({n, k}, kFloat, Tag::ab), y({n, spec.units}, kFloat, Tag::ab);
  const memory::desc weight({spec.units, k}, kFloat, Tag::ab);
  const memory::desc transposed({k, spec.units}, kFloat, Tag::ba);  // the same memory
  const dnnl::primitive_attr attributes = UserScratchpad();
  const memory::desc row =
      spec.bias ? memory::desc({1, spec.units}, kFloat, Tag::ab) : memory::desc();
  const memory::desc bias = spec.bias ? memory::desc({spec.units}, kFloat, Tag::x) : memory::desc();
  const dnnl::inner_product_forward::primitive_desc hint(
      device.onednn->engine, dnnl::prop_kind::forward_training, x, weight, bias, y);
  Products made{.forward = spec.bias ? dnnl::matmul::primitive_desc(device.onednn->engine, x,
                                                                    transposed, row, y, attributes)
                                     : dnnl::matmul::primitive_desc(device.onednn->engine, x,
                                                                    transposed, y, attributes),
                .weights = spec.bias
                               ? WeightsBackward::primitive_desc(device.onednn->engine, x, weight,
                                                                 bias, y, hint, UserScratchpad())
                               : WeightsBackward::primitive_desc(device.onednn->engine, x, weight,
                                                                 y, hint, UserScratchpad()),
                .data = std::nullopt};
  if (spec.input_gradient) {
    made.data =
        DataBackward::primitive_desc(device.onednn->engine, x, weight, y, hint, UserScratchpad());
  }
  return made;
}

// How to multiply an image that is not row-major by a row-major weight: copies one of them to the
// other's order, whichever is less to copy in a step. A row-major x needs no copy.
struct Flattening {
  std::int64_t k = 0;  // columns of both matrices, padding channels included in an image's order
  // The row-major order and the image's order; equal if no copy is needed.
  memory::desc x, x_image;
  memory::desc weight, weight_image;
};

Flattening ChooseFlattening(const DenseSpec& spec) {
  const memory::desc image = MemoryDescOf(spec.x);
  std::vector<std::int64_t> extents = spec.x.shape.dims();
  extents[0] = spec.units;
  const Shape weight_shape(extents);
  const memory::desc weight = DenseMemoryDesc(weight_shape);
  const std::int64_t inputs = spec.x.shape.elements() / spec.x.shape[0];
  if (spec.x.dense()) return {inputs, image, image, weight, weight};
  const memory::desc weight_image = MemoryDescOf(WithExtents(spec.x, weight_shape));
  // Per step: x and dx, or the weight in both passes and its gradient.
  const std::size_t copies_of_x = spec.input_gradient ? 2 : 1;
  const std::size_t copies_of_weight = spec.input_gradient ? 3 : 2;
  if (copies_of_x * spec.x.bytes() <= copies_of_weight * weight_image.get_size()) {
    return {inputs, DenseMemoryDesc(spec.x.shape), image, weight, weight};
  }
  return {ViewOf(spec.x).row_floats(), image, image, weight, weight_image};
}

// y = act(b + x weight^T)
class Dense final : public BoundOp {
 public:
  Dense(const Device& device, const DenseSpec& spec, const Flattening& flattening)
      : BoundOp(device, spec.x, {.shape = {spec.x.shape[0], spec.units}}),
        spec_(spec),
        f_(flattening),
        p_(Describe(device, spec, f_.k)),
        forward_(device, dnnl::matmul(p_.forward)),
        weights_(device, WeightsBackward(p_.weights)),
        order_x_(device, f_.x_image, f_.x),
        order_weight_(device, f_.weight, f_.weight_image),
        order_gradient_(device, f_.weight_image, f_.weight) {
    if (p_.data) {
      data_ = Execution(device, DataBackward(*p_.data));
      order_dx_ = Reorder(device, f_.x, f_.x_image);
    }
    PlanScratch();
  }

  std::vector<ParameterDesc> Parameters() const override { return ParametersOf(spec_); }
  std::size_t WorkspaceBytes() const override { return order_x_.empty() ? 0 : f_.x.get_size(); }
  std::size_t ScratchBytes() const override { return scratch_.bytes(); }

  std::vector<OpChoice> Choices() const override {
    std::string layout = NameOf(input());
    if (!order_x_.empty()) layout += ", x copied";
    if (!order_weight_.empty()) layout += ", weight copied";
    std::vector<OpChoice> choices = {{"forward", p_.forward.impl_info_str(), layout},
                                     {"backward weights", p_.weights.impl_info_str(), layout}};
    if (p_.data) choices.push_back({"backward data", p_.data->impl_info_str(), layout});
    return choices;
  }

  BackwardReads Reads() const override { return {.x = order_x_.empty(), .y = spec_.relu}; }
  void Forward(Mode, const StepContext&) override {
    order_x_.Run();
    order_weight_.Run();
    forward_.Run();
    if (spec_.relu) ApplyRelu();
  }

  void Backward(const StepContext&) override {
    if (spec_.relu) MaskByRelu();
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
        std::max(p_.forward.scratchpad_desc().get_size(), p_.weights.scratchpad_desc().get_size());
    if (p_.data) pad = std::max(pad, p_.data->scratchpad_desc().get_size());
    for (const Reorder* order : {&order_x_, &order_weight_, &order_gradient_, &order_dx_}) {
      pad = std::max(pad, order->scratch_bytes());
    }
    pad_at_ = scratch_.Reserve(pad);
    if (!order_weight_.empty()) weight_at_ = scratch_.Reserve(f_.weight_image.get_size());
    if (!order_dx_.empty()) dx_at_ = scratch_.Reserve(f_.x.get_size());
  }

  void* Scratch(std::size_t offset) const {
    return static_cast<std::byte*>(memory().scratch) + offset;
  }

  void OnBind() override {
    const void* rows = order_x_.empty() ? x() : memory().workspace;
    void* weight = order_weight_.empty() ? memory().parameters[0] : Scratch(weight_at_);
    order_x_.Bind(x(), memory().workspace, Scratch(pad_at_));
    order_weight_.Bind(memory().parameters[0], weight, Scratch(pad_at_));
    forward_.Bind(DNNL_ARG_SRC, p_.forward.src_desc(), rows);
    forward_.Bind(DNNL_ARG_WEIGHTS, p_.forward.weights_desc(), weight);
    forward_.Bind(DNNL_ARG_DST, p_.forward.dst_desc(), memory().y);
    forward_.Bind(DNNL_ARG_SCRATCHPAD, p_.forward.scratchpad_desc(), Scratch(pad_at_));
    if (spec_.bias) forward_.Bind(DNNL_ARG_BIAS, p_.forward.bias_desc(), memory().parameters[1]);
    if (memory().dy != nullptr) BindBackward(rows, weight);
  }

  void BindBackward(const void* rows, void* weight) {
    float* gradient = memory().gradients[0];
    void* raw_gradient = order_gradient_.empty() ? gradient : Scratch(weight_at_);
    weights_.Bind(DNNL_ARG_SRC, p_.weights.src_desc(), rows);
    weights_.Bind(DNNL_ARG_DIFF_DST, p_.weights.diff_dst_desc(), memory().dy);
    weights_.Bind(DNNL_ARG_DIFF_WEIGHTS, p_.weights.diff_weights_desc(), raw_gradient);
    weights_.Bind(DNNL_ARG_SCRATCHPAD, p_.weights.scratchpad_desc(), Scratch(pad_at_));
    if (spec_.bias) {
      weights_.Bind(DNNL_ARG_DIFF_BIAS, p_.weights.diff_bias_desc(), memory().gradients[1]);
    }
    order_gradient_.Bind(raw_gradient, gradient, Scratch(pad_at_));
    if (data_.empty()) return;
    void* raw_dx = order_dx_.empty() ? dx() : Scratch(dx_at_);
    data_.Bind(DNNL_ARG_DIFF_SRC, p_.data->diff_src_desc(), raw_dx);
    data_.Bind(DNNL_ARG_WEIGHTS, p_.data->weights_desc(), weight);
    data_.Bind(DNNL_ARG_DIFF_DST, p_.data->diff_dst_desc(), memory().dy);
    data_.Bind(DNNL_ARG_SCRATCHPAD, p_.data->scratchpad_desc(), Scratch(pad_at_));
    order_dx_.Bind(raw_dx, dx(), Scratch(pad_at_));
  }

  DenseSpec spec_;
  Flattening f_;
  Products p_;
  Execution forward_, weights_, data_;
  Reorder order_x_, order_weight_, order_gradient_, order_dx_;
  ScratchPlan scratch_;
  std::size_t pad_at_ = 0, weight_at_ = 0, dx_at_ = 0;
};

}  // namespace

std::unique_ptr<Op> MakeOp(const Device& device, const DenseSpec& spec) {
  LOCKSTEP_CHECK(spec.x.shape.rank() >= 2 && spec.units > 0,
                 "dense: {} units on x of shape {}, expected at least 1 on N,…", spec.units,
                 spec.x.shape.ToString());
  device.Enter();
  return Guarded("dense",
                 [&] { return std::make_unique<Dense>(device, spec, ChooseFlattening(spec)); });
}

}  // namespace lockstep::train::cpu
