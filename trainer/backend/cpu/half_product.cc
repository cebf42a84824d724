#include "trainer/backend/cpu/half_product.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "trainer/backend/cpu/bound_op.h"
#include "trainer/backend/cpu/convolution.h"
#include "trainer/backend/cpu/device/cost.h"
#include "trainer/backend/cpu/device/execution.h"
#include "trainer/backend/cpu/device/memory_desc.h"
#include "trainer/backend/parameters.h"

namespace lockstep::train::cpu {
namespace {

using dnnl::memory;
using Tag = memory::format_tag;

using Conv2dBackward = dnnl::convolution_backward_data::primitive_desc;
using DenseBackward = dnnl::inner_product_backward_data::primitive_desc;

constexpr auto kFloat = memory::data_type::f32;

// One pass: what convolutions and inner products have in common.
struct Pass {
  explicit Pass(const auto& made)
      : primitive(dnnl::primitive(made.get())),
        name(made.impl_info_str()),
        scratchpad(made.scratchpad_desc()) {}
  dnnl::primitive primitive;
  std::string name;
  memory::desc scratchpad;
};

// The orders of a product's tensors. Without a bias its descriptor is empty.
struct Orders {
  memory::desc x, y;                             // of the 16-bit type
  memory::desc bias;                             // float32
  memory::desc weight_row_major;                 // float32, as the parameter and its gradient are
  memory::desc weight_forward, weight_backward;  // of the 16-bit type
  memory::desc weight_gradient;                  // float32
};

struct Passes {
  Pass forward, weights;
  std::optional<Pass> data;
  Orders orders;
};

// Returns nullopt if a pass has no implementation but plain loops. `data` may be null.
std::optional<Passes> PassesOf(const auto& forward, const auto& weights, const auto* data) {
  Passes passes{
      .forward = Pass(forward),
      .weights = Pass(weights),
      .data = std::nullopt,
      .orders = {.x = forward.src_desc(),
                 .y = forward.dst_desc(),
                 .bias = forward.bias_desc(),
                 .weight_row_major = DenseMemoryDesc(Shape(forward.weights_desc().get_dims())),
                 .weight_forward = forward.weights_desc(),
                 .weight_gradient = weights.diff_weights_desc()}};
  if (data != nullptr) {
    passes.data.emplace(*data);
    passes.orders.weight_backward = data->weights_desc();
  }
  if (IsReference(passes.forward.name) || IsReference(passes.weights.name) ||
      (passes.data && IsReference(passes.data->name))) {
    return std::nullopt;
  }
  return passes;
}

std::optional<Passes> Describe(const Device& device, const Conv2dSpec& spec) {
  const auto type = MemoryDescOf(spec.x).get_data_type();
  const ConvolutionExtents e = ExtentsOf(spec);
  const dnnl::engine& engine = device.onednn->engine;
  const auto direct = dnnl::algorithm::convolution_direct;
  const auto attributes = UserScratchpad();
  const memory::desc x(e.x, type, Tag::nhwc), y(e.y, type, Tag::nhwc);
  const memory::desc weight(e.weight, type, Tag::any), gradient(e.weight, kFloat, Tag::any);
  const memory::desc bias = spec.bias ? memory::desc(e.bias, kFloat, Tag::x) : memory::desc();
  dnnl::convolution_forward::primitive_desc forward(engine, dnnl::prop_kind::forward_training,
                                                    direct, x, weight, bias, y, e.strides,
                                                    e.pad_begin, e.pad_end, attributes);
  if (!SkipBroken(forward, e)) return std::nullopt;
  dnnl::convolution_backward_weights::primitive_desc weights(
      engine, direct, x, gradient, bias, y, e.strides, e.pad_begin, e.pad_end, forward, attributes);
  if (!SkipBroken(weights, e)) return std::nullopt;
  if (!spec.input_gradient)
    return PassesOf(forward, weights, static_cast<const Conv2dBackward*>(nullptr));
  const Conv2dBackward data(engine, direct, x, weight, y, e.strides, e.pad_begin, e.pad_end,
                            forward, attributes);
  return PassesOf(forward, weights, &data);
}

std::optional<Passes> Describe(const Device& device, const DenseSpec& spec) {
  const auto type = MemoryDescOf(spec.x).get_data_type();
  const std::int64_t rows = spec.x.shape[0], features = spec.x.shape.elements() / rows;
  const dnnl::engine& engine = device.onednn->engine;
  const auto attributes = UserScratchpad();
  const memory::desc x({rows, features}, type, Tag::ab), y({rows, spec.units}, type, Tag::ab);
  const memory::desc weight({spec.units, features}, type, Tag::any);
  const memory::desc gradient({spec.units, features}, kFloat, Tag::any);
  const memory::desc bias = spec.bias ? memory::desc({spec.units}, kFloat, Tag::x) : memory::desc();
  const dnnl::inner_product_forward::primitive_desc forward(
      engine, dnnl::prop_kind::forward_training, x, weight, bias, y, attributes);
  const dnnl::inner_product_backward_weights::primitive_desc weights(engine, x, gradient, bias, y,
                                                                     forward, attributes);
  if (!spec.input_gradient)
    return PassesOf(forward, weights, static_cast<const DenseBackward*>(nullptr));
  const DenseBackward data(engine, x, weight, y, forward, attributes);
  return PassesOf(forward, weights, &data);
}

// The op's output: an image in channels-last order, or a matrix.
TensorDesc OutputOf(const Orders& orders, DType type) {
  const memory::dims dims = orders.y.get_dims();
  TensorDesc y{.shape = Shape(dims)};
  if (dims.size() == 4) y = TensorOf(y.shape, memory::desc(dims, kFloat, Tag::nhwc));
  y.dtype = type;
  return y;
}

// The order that a dense layer's weight expects is that of C,H,W.
memory::desc InputOrder(const Conv2dSpec&, const Orders& orders) {
  return orders.x;
}
memory::desc InputOrder(const DenseSpec& spec, const Orders&) {
  return MemoryDescOf({.shape = spec.x.shape, .dtype = spec.x.dtype});
}

// y = act(b + x * weight). The weight is copied to the pass's type and order in each pass; if x is
// in another order, its copy is in the workspace.
template <typename Spec>
class HalfProduct final : public BoundOp {
 public:
  HalfProduct(const Device& device, const Spec& spec, const Passes& passes)
      : BoundOp(device, spec.x, OutputOf(passes.orders, spec.x.dtype)),
        spec_(spec),
        p_(passes),
        forward_(device, p_.forward.primitive),
        weights_(device, p_.weights.primitive),
        order_x_(device, MemoryDescOf(spec.x), InputOrder(spec, p_.orders)),
        order_weight_(device, p_.orders.weight_row_major, p_.orders.weight_forward),
        order_gradient_(device, p_.orders.weight_gradient, p_.orders.weight_row_major) {
    if (p_.data) {
      data_ = Execution(device, p_.data->primitive);
      order_weight_back_ = Reorder(device, p_.orders.weight_row_major, p_.orders.weight_backward);
      order_dx_ = Reorder(device, InputOrder(spec, p_.orders), MemoryDescOf(spec.x));
    }
    std::size_t pad = std::max(p_.forward.scratchpad.get_size(), p_.weights.scratchpad.get_size());
    if (p_.data) pad = std::max(pad, p_.data->scratchpad.get_size());
    for (const Reorder* order :
         {&order_x_, &order_weight_, &order_gradient_, &order_weight_back_, &order_dx_}) {
      pad = std::max(pad, order->scratch_bytes());
    }
    pad_at_ = scratch_.Reserve(pad);
    // The passes do not overlap.
    weight_at_ = scratch_.Reserve(
        std::max({p_.orders.weight_forward.get_size(), p_.orders.weight_backward.get_size(),
                  order_gradient_.source_bytes()}));
    dx_at_ = scratch_.Reserve(order_dx_.source_bytes());
  }

  std::vector<ParameterDesc> Parameters() const override { return ParametersOf(spec_); }
  std::size_t WorkspaceBytes() const override { return order_x_.target_bytes(); }
  std::size_t ScratchBytes() const override { return scratch_.bytes(); }
  BackwardReads Reads() const override { return {.x = order_x_.empty(), .y = spec_.relu}; }
  std::vector<OpChoice> Choices() const override {
    const std::string layout = NameOf(TensorDesc{.shape = input().shape, .layout = input().layout});
    std::vector<OpChoice> choices = {{"forward", p_.forward.name, layout},
                                     {"backward weights", p_.weights.name, layout}};
    if (p_.data) choices.push_back({"backward data", p_.data->name, layout});
    return choices;
  }

  void Forward(Mode, const StepContext&) override {
    order_x_.Run();
    order_weight_.Run();
    forward_.Run();
    if (spec_.relu) Relu();
  }

  void Backward(const StepContext&) override {
    if (spec_.relu) MaskByReluOfY();
    weights_.Run();
    order_gradient_.Run();
    if (!p_.data || memory().dx[0] == nullptr) return;
    order_weight_back_.Run();
    data_.Run();
    order_dx_.Run();
  }

 private:
  // Bits above those of infinity are NaN.
  std::uint16_t Infinity() const { return input().dtype == DType::kBFloat16 ? 0x7f80 : 0x7c00; }
  void Relu() const {
    auto* const y = static_cast<std::uint16_t*>(memory().y);
    ParallelForFloats(device().threads, output().elements(),
                      [&](std::int64_t begin, std::int64_t end) {
                        device().kernels.half_relu(y + begin, end - begin, Infinity());
                      });
  }
  void MaskByReluOfY() const {
    const auto* const y = static_cast<const std::uint16_t*>(memory().y);
    auto* const dy = static_cast<std::uint16_t*>(memory().dy);
    ParallelForFloats(
        device().threads, output().elements(), [&](std::int64_t begin, std::int64_t end) {
          device().kernels.half_mask_by_relu(y + begin, dy + begin, end - begin, Infinity());
        });
  }

  void* Scratch(std::size_t offset) const {
    return static_cast<std::byte*>(memory().scratch) + offset;
  }

  void OnBind() override {
    const void* rows = order_x_.empty() ? memory().x[0] : memory().workspace;
    order_x_.Bind(memory().x[0], memory().workspace, Scratch(pad_at_));
    order_weight_.Bind(memory().parameters[0], Scratch(weight_at_), Scratch(pad_at_));
    forward_.Bind(DNNL_ARG_SRC, p_.orders.x, rows);
    forward_.Bind(DNNL_ARG_WEIGHTS, p_.orders.weight_forward, Scratch(weight_at_));
    if (spec_.bias) forward_.Bind(DNNL_ARG_BIAS, p_.orders.bias, memory().parameters[1]);
    forward_.Bind(DNNL_ARG_DST, p_.orders.y, memory().y);
    forward_.Bind(DNNL_ARG_SCRATCHPAD, p_.forward.scratchpad, Scratch(pad_at_));
    if (memory().dy != nullptr) BindBackward(rows);
  }

  void BindBackward(const void* rows) {
    float* const gradient = memory().gradients[0];
    void* const raw_gradient = order_gradient_.empty() ? gradient : Scratch(weight_at_);
    weights_.Bind(DNNL_ARG_SRC, p_.orders.x, rows);
    weights_.Bind(DNNL_ARG_DIFF_DST, p_.orders.y, memory().dy);
    weights_.Bind(DNNL_ARG_DIFF_WEIGHTS, p_.orders.weight_gradient, raw_gradient);
    if (spec_.bias) weights_.Bind(DNNL_ARG_DIFF_BIAS, p_.orders.bias, memory().gradients[1]);
    weights_.Bind(DNNL_ARG_SCRATCHPAD, p_.weights.scratchpad, Scratch(pad_at_));
    order_gradient_.Bind(raw_gradient, gradient, Scratch(pad_at_));
    if (!p_.data || memory().dx[0] == nullptr) return;
    void* const dx = order_dx_.empty() ? memory().dx[0] : Scratch(dx_at_);
    order_weight_back_.Bind(memory().parameters[0], Scratch(weight_at_), Scratch(pad_at_));
    data_.Bind(DNNL_ARG_DIFF_SRC, p_.orders.x, dx);
    data_.Bind(DNNL_ARG_WEIGHTS, p_.orders.weight_backward, Scratch(weight_at_));
    data_.Bind(DNNL_ARG_DIFF_DST, p_.orders.y, memory().dy);
    data_.Bind(DNNL_ARG_SCRATCHPAD, p_.data->scratchpad, Scratch(pad_at_));
    order_dx_.Bind(dx, memory().dx[0], Scratch(pad_at_));
  }

  Spec spec_;
  Passes p_;
  Execution forward_, weights_, data_;
  Reorder order_x_, order_weight_, order_gradient_, order_weight_back_, order_dx_;
  ScratchPlan scratch_;
  std::size_t pad_at_ = 0, weight_at_ = 0, dx_at_ = 0;
};

template <typename Spec>
std::unique_ptr<Op> MakeProduct(const Device& device, const Spec& spec) {
  device.Enter();
  try {
    if (const std::optional<Passes> passes = Describe(device, spec)) {
      return std::make_unique<HalfProduct<Spec>>(device, spec, *passes);
    }
  } catch (const dnnl::error& error) {
    if (error.status != dnnl_unimplemented) {
      throw DeviceError(std::string("16-bit product: oneDNN refused: ") + error.what());
    }
  }
  return nullptr;
}

}  // namespace

bool Computes(const Device& /*device*/, DType type) {
  if (type == DType::kFloat32) return true;
  const auto isa = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
  const auto wanted = static_cast<unsigned>(
      type == DType::kBFloat16 ? dnnl::cpu_isa::avx512_core_bf16 : dnnl::cpu_isa::avx512_core_fp16);
  return (isa & wanted) == wanted;
}

std::unique_ptr<Op> MakeHalfProduct(const Device& device, const OpSpec& spec) {
  if (const auto* conv = std::get_if<Conv2dSpec>(&spec)) {
    if (Computes(device, conv->x.dtype)) return MakeProduct(device, *conv);
  }
  if (const auto* dense = std::get_if<DenseSpec>(&spec)) {
    if (Computes(device, dense->x.dtype)) return MakeProduct(device, *dense);
  }
  return nullptr;
}

}  // namespace lockstep::train::cpu
