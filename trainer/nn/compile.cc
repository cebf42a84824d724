#include "trainer/nn/compile.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/status.h"
#include "trainer/backend/window.h"

namespace lockstep::train {
namespace {

// The limit of one activation or parameter. Above it, libraries with 32-bit offsets overflow.
constexpr double kMaxElements = 2147483647.0;
// The base of Dropout's random streams, distinct from those of InitialValues.
constexpr std::uint64_t kDropoutStreams = std::uint64_t{2} << 32;

using MadeOp = absl::StatusOr<std::unique_ptr<Op>>;

// Not Shape::elements(), whose product may overflow before it can be compared.
double Elements(const Shape& shape) {
  double product = 1;
  for (const std::int64_t extent : shape.dims()) product *= static_cast<double>(extent);
  return product;
}

absl::Status Fault(const std::string& path, const std::string& text) {
  return absl::InvalidArgumentError(fmt::format("{}: {}", path, text));
}

// A tensor between layers.
struct Value {
  int op = kSamples;  // whose output it is
  TensorDesc desc;
  bool is_flat = false;       // logically N,F, though desc may still be an image in some layout
  bool is_trainable = false;  // depends on parameters
};

class Compiler {
 public:
  Compiler(const ModelOptions& options, Backend& backend) : options_(options), backend_(backend) {
    std::vector<std::int64_t> dims = {options.batch};
    dims.insert(dims.end(), options.input.dims().begin(), options.input.dims().end());
    samples_.desc.shape = Shape(std::move(dims));
    samples_.is_flat = samples_.desc.shape.rank() == 2;
    if (options.type == DType::kFloat32) return;
    samples_ = Push("cast", backend_.MakeCast(samples_.desc, options.type), {samples_});
  }

  absl::Status Add(const Layer& layer) {
    index_ = layer.index;
    path_ = fmt::format("layers[{}]", index_);
    inputs_.clear();
    for (const int input : layer.inputs) inputs_.push_back(ValueOf(input));
    LOCKSTEP_ASSIGN_OR_RETURN(
        std::unique_ptr<Op> op,
        std::visit([this](const auto& spec) { return Make(spec); }, layer.spec));
    values_.push_back(op == nullptr ? FlatView(input()) : Push(layer.name, std::move(op), inputs_));
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<NamedOp>> Finish() && {
    const Value last = values_.empty() ? samples_ : values_.back();
    const std::int64_t elements = last.desc.shape.elements() / options_.batch;
    if (!last.is_flat || elements != options_.classes) {
      return Fault(path_, fmt::format("the last layer gives {} a sample, expected [{}], one value "
                                      "for each {}",
                                      SampleText(last), options_.classes,
                                      options_.outputs.kind == OutputKind::kClassLogits
                                          ? "class of the data set"
                                          : "number of a label"));
    }
    // The logits are the last op's output.
    const bool is_last = !ops_.empty() && last.op == static_cast<int>(ops_.size()) - 1;
    Value logits = last;
    if (!is_last || !last.desc.dense() || last.desc.shape.rank() != 2) {
      logits = Push("logits", MakeOp(FlattenSpec{.x = last.desc}), {last});
    }
    if (options_.type != DType::kFloat32) {
      Push("cast", backend_.MakeCast(logits.desc, DType::kFloat32), {logits});
    }
    return std::move(ops_);
  }

 private:
  const Value& ValueOf(int layer) const {
    return layer == kSamples ? samples_ : values_[static_cast<std::size_t>(layer)];
  }

  const Value& input() const { return inputs_.front(); }
  const TensorDesc& desc() const { return input().desc; }

  std::unique_ptr<Op> MakeOp(const OpSpec& spec) {
    std::unique_ptr<Op> op = backend_.MakeOp(spec);
    facts_ = FactsOf(spec, op->output().shape);
    return op;
  }

  // Places the windows of a convolution, whose kernel must fit its image.
  template <typename Spec>
  absl::StatusOr<Windows> PlaceKernel(const char* type, const Spec& spec) const {
    LOCKSTEP_RETURN_IF_ERROR(ExpectImage(type));
    const Windows windows{.rows = PlaceWindow(desc().shape[2], spec.kernel_h, spec.stride_h,
                                              spec.padding, spec.zeros.top, spec.zeros.bottom),
                          .columns = PlaceWindow(desc().shape[3], spec.kernel_w, spec.stride_w,
                                                 spec.padding, spec.zeros.left, spec.zeros.right)};
    LOCKSTEP_RETURN_IF_ERROR(ExpectFit("kernelSize", windows.rows, windows.columns));
    return windows;
  }

  MadeOp Make(Conv2dSpec spec) {
    LOCKSTEP_ASSIGN_OR_RETURN(const Windows windows, PlaceKernel("Conv2D", spec));
    const auto& [rows, columns] = windows;
    LOCKSTEP_RETURN_IF_ERROR(
        ExpectSize("filters", Elements({options_.batch, spec.filters, rows.out, columns.out}),
                   Elements({spec.filters, desc().shape[1], spec.kernel_h, spec.kernel_w})));
    spec.x = desc();
    spec.input_gradient = input().is_trainable;
    return MakeOp(spec);
  }

  MadeOp Make(DepthwiseConv2dSpec spec) {
    LOCKSTEP_ASSIGN_OR_RETURN(const Windows windows, PlaceKernel("DepthwiseConv2D", spec));
    const auto& [rows, columns] = windows;
    LOCKSTEP_RETURN_IF_ERROR(ExpectSize(
        "depthMultiplier",
        Elements({options_.batch, desc().shape[1], spec.depth_multiplier, rows.out, columns.out}),
        Elements({desc().shape[1], spec.depth_multiplier, spec.kernel_h, spec.kernel_w})));
    spec.x = desc();
    spec.input_gradient = input().is_trainable;
    return MakeOp(spec);
  }

  MadeOp Make(DenseSpec spec) {
    if (!input().is_flat) {
      return Fault(path_, fmt::format("Dense on an input of {} a sample, expected Flatten or "
                                      "GlobalAveragePooling2D before it",
                                      SampleText(input())));
    }
    const std::int64_t features = desc().shape.elements() / options_.batch;
    LOCKSTEP_RETURN_IF_ERROR(ExpectSize("units", Elements({options_.batch, spec.units}),
                                        Elements({spec.units, features})));
    spec.x = desc();
    spec.input_gradient = input().is_trainable;
    return MakeOp(spec);
  }

  MadeOp Make(Pool2dSpec spec) {
    LOCKSTEP_RETURN_IF_ERROR(ExpectImage("a pool"));
    const WindowAxis rows = PlaceWindow(desc().shape[2], spec.window_h, spec.stride_h, spec.padding,
                                        spec.zeros.top, spec.zeros.bottom);
    const WindowAxis columns = PlaceWindow(desc().shape[3], spec.window_w, spec.stride_w,
                                           spec.padding, spec.zeros.left, spec.zeros.right);
    LOCKSTEP_RETURN_IF_ERROR(ExpectFit("poolSize", rows, columns));
    if (Elements({spec.window_h, spec.window_w}) > kMaxElements) {
      return Fault(path_ + ".poolSize",
                   fmt::format("found {}x{}, expected a window of at most {:.3g} elements",
                               spec.window_h, spec.window_w, kMaxElements));
    }
    // Larger than the input if a ZeroPadding2D before it has been fused.
    LOCKSTEP_RETURN_IF_ERROR(ExpectSize(
        "poolSize", Elements({options_.batch, desc().shape[1], rows.out, columns.out}), 0));
    spec.x = desc();
    return MakeOp(spec);
  }

  MadeOp Make(GlobalAveragePool2dSpec spec) {
    LOCKSTEP_RETURN_IF_ERROR(ExpectImage("GlobalAveragePooling2D"));
    spec.x = desc();
    return MakeOp(spec);
  }

  MadeOp Make(ZeroPadding2dSpec spec) {
    LOCKSTEP_RETURN_IF_ERROR(ExpectImage("ZeroPadding2D"));
    spec.x = desc();
    LOCKSTEP_RETURN_IF_ERROR(ExpectSize("padding", Elements(ShapeOf(spec)), 0));
    return MakeOp(spec);
  }

  // Unlike an elementwise op, BatchNorm must know whether its channels are C or C*H*W.
  MadeOp Make(BatchNormSpec spec) {
    FlattenInputs();
    spec.x = desc();
    return MakeOp(spec);
  }

  // As BatchNorm.
  MadeOp Make(LayerNormSpec spec) {
    FlattenInputs();
    spec.x = desc();
    return MakeOp(spec);
  }

  // No op: see FlatView.
  MadeOp Make(const FlattenSpec&) { return std::unique_ptr<Op>(); }

  // RemoveOutputActivation has removed one at the model's end.
  MadeOp Make(const OutputSpec& spec) {
    return Fault(
        path_, fmt::format("{} before another layer, expected it at the model's end alone",
                           spec.activation == OutputActivation::kSoftmax ? "softmax" : "sigmoid"));
  }

  MadeOp Make(ActivationSpec spec) {
    spec.x = desc();
    return MakeOp(spec);
  }

  MadeOp Make(DropoutSpec spec) {
    spec.x = desc();
    spec.layer = kDropoutStreams + index_;
    return MakeOp(spec);
  }

  MadeOp Make(AddSpec spec) {
    FlattenInputs();
    for (const Value& value : inputs_) {
      if (value.desc.shape == desc().shape && value.is_flat == input().is_flat) continue;
      return Fault(path_, fmt::format("Add of inputs of {} and {} a sample, expected equal ones",
                                      SampleText(input()), SampleText(value)));
    }
    for (const Value& value : inputs_) spec.x.push_back(value.desc);
    return MakeOp(spec);
  }

  MadeOp Make(ConcatenateSpec spec) {
    FlattenInputs();
    for (const Value& value : inputs_) {
      if (HasSameArea(value)) continue;
      return Fault(path_, fmt::format("Concatenate of inputs of {} and {} a sample, expected them "
                                      "to differ in their channels alone",
                                      SampleText(input()), SampleText(value)));
    }
    for (const Value& value : inputs_) spec.x.push_back(value.desc);
    double elements = 0;
    for (const TensorDesc& x : spec.x) elements += Elements(x.shape);
    LOCKSTEP_RETURN_IF_ERROR(ExpectSize("inputs", elements, 0));
    return MakeOp(spec);
  }

  // True if the value has the first input's extents in all but the channels.
  bool HasSameArea(const Value& value) const {
    const Shape &shape = value.desc.shape, &first = desc().shape;
    if (value.is_flat != input().is_flat || shape.rank() != first.rank()) return false;
    for (int axis = 2; axis < shape.rank(); ++axis) {
      if (shape[axis] != first[axis]) return false;
    }
    return true;
  }

  // The same memory as N,F. A dense image is in that order already; Dense and the elementwise ops
  // accept the other orders.
  Value FlatView(Value value) const {
    value.is_flat = true;
    if (value.desc.dense()) {
      value.desc.shape = {options_.batch, value.desc.shape.elements() / options_.batch};
    }
    return value;
  }

  // Copies flat inputs that are still images in some layout to N,F.
  void FlattenInputs() {
    for (Value& value : inputs_) {
      if (!value.is_flat || value.desc.shape.rank() == 2) continue;
      value = Push("flatten", MakeOp(FlattenSpec{.x = value.desc}), {value});
    }
  }

  // Appends an op and returns its output.
  Value Push(std::string name, std::unique_ptr<Op> op, const std::vector<Value>& inputs) {
    Value output{.op = static_cast<int>(ops_.size()),
                 .desc = op->output(),
                 .is_flat = inputs.front().is_flat || op->output().shape.rank() == 2,
                 .is_trainable = !op->Parameters().empty()};
    NamedOp named{.name = std::move(name),
                  .op = std::move(op),
                  .inputs = {},
                  .input_gradients = {},
                  .facts = std::exchange(facts_, {})};
    for (const Value& value : inputs) {
      named.inputs.push_back(value.op);
      named.input_gradients.push_back(value.is_trainable);
      output.is_trainable |= value.is_trainable;
    }
    ops_.push_back(std::move(named));
    return output;
  }

  absl::Status ExpectImage(const char* what) const {
    if (!input().is_flat && desc().shape.rank() == 4) return absl::OkStatus();
    return Fault(path_, fmt::format("{} on an input of {} a sample, expected an image [C,H,W]",
                                    what, SampleText(input())));
  }

  absl::Status ExpectFit(const char* field, const WindowAxis& rows,
                         const WindowAxis& columns) const {
    if (rows.out > 0 && columns.out > 0) return absl::OkStatus();
    return Fault(fmt::format("{}.{}", path_, field),
                 fmt::format("found {}x{} on an image of {}x{}, expected at most the image's size "
                             "or padding \"same\"",
                             rows.size, columns.size, rows.in, columns.in));
  }

  absl::Status ExpectSize(const char* field, double outputs, double weights) const {
    const double largest = std::max(outputs, weights);
    if (largest <= kMaxElements) return absl::OkStatus();
    return Fault(fmt::format("{}.{}", path_, field),
                 fmt::format("makes a tensor of {:.3g} elements, expected at most {:.3g}", largest,
                             kMaxElements));
  }

  // "[32,14,14]", or "[6272]" if flat.
  std::string SampleText(const Value& value) const {
    const Shape& shape = value.desc.shape;
    if (value.is_flat) return fmt::format("[{}]", shape.elements() / options_.batch);
    return Shape(std::vector<std::int64_t>(shape.dims().begin() + 1, shape.dims().end()))
        .ToString();
  }

  const ModelOptions& options_;
  Backend& backend_;
  std::vector<NamedOp> ops_;
  Value samples_;
  std::vector<Value> values_;  // each layer's output
  // About the layer that is being added:
  std::string path_ = "layers";
  std::size_t index_ = 0;
  std::vector<Value> inputs_;
  OpFacts facts_{};  // of the op that was made last, until it is pushed
};

}  // namespace

bool NamedOp::NeedsBackward() const {
  return !op->Parameters().empty() ||
         std::ranges::any_of(input_gradients, [](bool needed) { return needed; });
}

absl::StatusOr<std::vector<NamedOp>> CompileLayers(const std::vector<Layer>& layers,
                                                   const ModelOptions& options, Backend& backend) {
  const double elements = static_cast<double>(options.batch) * Elements(options.input);
  if (elements > kMaxElements) {
    return Fault("model",
                 fmt::format("{} samples of {} make a tensor of {:.3g} elements, expected "
                             "at most {:.3g}",
                             options.batch, options.input.ToString(), elements, kMaxElements));
  }
  Compiler compiler(options, backend);
  for (const Layer& layer : layers) LOCKSTEP_RETURN_IF_ERROR(compiler.Add(layer));
  return std::move(compiler).Finish();
}

}  // namespace lockstep::train
