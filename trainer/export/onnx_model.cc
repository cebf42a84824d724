#include "trainer/export/onnx_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>
#include <variant>

#include "base/check.h"
#include "base/status.h"
#include "trainer/backend/measuring_backend.h"
#include "trainer/backend/window.h"
#include "trainer/export/onnx_graph.h"
#include "trainer/nn/layer.h"
#include "trainer/nn/model.h"

namespace lockstep::train {
namespace {

using Tensors = std::map<std::string, const NamedTensor*>;

// The loss that the model was trained with does not matter here, but building a model asks for one
// that fits its end.
ModelOutputs OutputsThatFit(const std::vector<Layer>& layers) {
  const auto* end = std::get_if<OutputSpec>(&layers.back().spec);
  const bool is_sigmoid = end != nullptr && end->activation == OutputActivation::kSigmoid;
  return {.kind = is_sigmoid ? OutputKind::kBinaryLogits : OutputKind::kClassLogits};
}

absl::Status ExpectTensors(const std::vector<TensorSlot>& slots, const Tensors& tensors) {
  for (const TensorSlot& slot : slots) {
    const auto found = tensors.find(slot.name);
    if (found == tensors.end()) {
      return absl::InvalidArgumentError(fmt::format("found no tensor {}, expected one of {}",
                                                    slot.name, slot.desc.shape.ToString()));
    }
    if (found->second->shape == slot.desc.shape) continue;
    return absl::InvalidArgumentError(fmt::format("found tensor {} of {}, expected {}", slot.name,
                                                  found->second->shape.ToString(),
                                                  slot.desc.shape.ToString()));
  }
  return absl::OkStatus();
}

// Builds the model as training does, in memory that is not touched. So the layers fit each other
// and the tensors fit them.
absl::Status CheckModel(const ModelDescription& model, const std::vector<Layer>& layers,
                        const Tensors& tensors) {
  ReservedMemory memory;
  const std::unique_ptr<Backend> backend =
      MakeMeasuringBackend(MakeBackend({.name = "reference"}), memory);
  const ModelOptions options{.batch = 1,
                             .input = model.input,
                             .classes = model.outputs,
                             .outputs = OutputsThatFit(layers),
                             .initializes = false};
  LOCKSTEP_ASSIGN_OR_RETURN(const auto built, Model::Build(model.layers, options, *backend));
  LOCKSTEP_RETURN_IF_ERROR(ExpectTensors(built->parameter_slots(), tensors));
  return ExpectTensors(built->state_slots(), tensors);
}

// Adds a model's layers to a graph. A value has the name of its layer, such as "dense", or
// "dense/activation" if the layer has an activation. The parts of a layer add a slash and their own
// word, so no two values have one name. Only "input" is that of the samples: a layer of that name
// gives "input/output". Requires: CheckModel.
class LayerWriter {
 public:
  LayerWriter(const ModelDescription& model, const Tensors& tensors)
      : samples_{kInput, model.input}, tensors_(tensors) {}

  void Add(const Layer& layer) {
    name_ = layer.name;
    inputs_.clear();
    for (const int input : layer.inputs) {
      inputs_.push_back(input == kSamples ? samples_ : values_[static_cast<std::size_t>(input)]);
    }
    values_.push_back(std::visit([this](const auto& spec) { return Write(spec); }, layer.spec));
  }

  OnnxGraph Finish() && { return std::move(graph_); }

 private:
  static constexpr char kInput[] = "input";

  struct Value {
    std::string name;
    Shape sample;  // without the batch
  };

  const Value& input() const { return inputs_.front(); }
  const Shape& shape() const { return input().sample; }

  OnnxGraph::Names InputNames() const {
    OnnxGraph::Names names;
    for (const Value& value : inputs_) names.push_back(value.name);
    return names;
  }

  std::string Weights(const char* what) {
    return graph_.AddFloats(*tensors_.at(fmt::format("{}/{}", name_, what)));
  }

  std::string Node(const char* op, const OnnxGraph::Names& inputs,
                   const std::vector<OnnxGraph::Attribute>& attributes = {}) {
    const std::string output = name_ == kInput ? name_ + "/output" : name_;
    return graph_.AddNode(op, output, inputs, attributes);
  }

  // A value within the layer.
  std::string Part(const char* op, const char* what, const OnnxGraph::Names& inputs,
                   const std::vector<OnnxGraph::Attribute>& attributes = {}) {
    return graph_.AddNode(op, fmt::format("{}/{}", name_, what), inputs, attributes);
  }

  Value Write(const Conv2dSpec& spec) { return WriteConv(spec, spec.filters, 1); }

  Value Write(const DepthwiseConv2dSpec& spec) {
    return WriteConv(spec, shape()[0] * spec.depth_multiplier, shape()[0]);
  }

  template <typename Spec>
  Value WriteConv(const Spec& spec, std::int64_t filters, std::int64_t groups) {
    const WindowAxis rows = PlaceWindow(shape()[1], spec.kernel_h, spec.stride_h, spec.padding);
    const WindowAxis columns = PlaceWindow(shape()[2], spec.kernel_w, spec.stride_w, spec.padding);
    OnnxGraph::Names inputs = {input().name, Weights("weight")};
    if (spec.bias) inputs.push_back(Weights("bias"));
    std::vector<OnnxGraph::Attribute> attributes = WindowAttributes(rows, columns);
    if (groups > 1) attributes.push_back(OnnxGraph::Integer("group", groups));
    return {Node("Conv", inputs, attributes), {filters, rows.out, columns.out}};
  }

  static std::vector<OnnxGraph::Attribute> WindowAttributes(const WindowAxis& rows,
                                                            const WindowAxis& columns) {
    return {OnnxGraph::Integers("kernel_shape", {rows.size, columns.size}),
            OnnxGraph::Integers("strides", {rows.stride, columns.stride}),
            OnnxGraph::Integers(
                "pads", {rows.pad_begin, columns.pad_begin, rows.pad_end, columns.pad_end})};
  }

  // y = x * weight^T + bias
  Value Write(const DenseSpec& spec) {
    OnnxGraph::Names inputs = {input().name, Weights("weight")};
    if (spec.bias) inputs.push_back(Weights("bias"));
    return {Node("Gemm", inputs, {OnnxGraph::Integer("transB", 1)}), {spec.units}};
  }

  // Neither counts the padding.
  Value Write(const Pool2dSpec& spec) {
    const WindowAxis rows = PlaceWindow(shape()[1], spec.window_h, spec.stride_h, spec.padding);
    const WindowAxis columns = PlaceWindow(shape()[2], spec.window_w, spec.stride_w, spec.padding);
    const char* op = spec.kind == PoolKind::kMax ? "MaxPool" : "AveragePool";
    return {Node(op, {input().name}, WindowAttributes(rows, columns)),
            {shape()[0], rows.out, columns.out}};
  }

  // ONNX keeps the image's axes, with extent 1.
  Value Write(const GlobalAveragePool2dSpec&) {
    const std::string mean = Part("GlobalAveragePool", "mean", {input().name});
    return {Node("Flatten", {mean}), {shape()[0]}};
  }

  Value Write(const BatchNormSpec& spec) {
    return {Node("BatchNormalization",
                 {input().name, Weights("gamma"), Weights("beta"), Weights("mean"),
                  Weights("variance")},
                 {OnnxGraph::Float("epsilon", spec.epsilon)}),
            shape()};
  }

  // Composed of parts, because the operator set has no LayerNormalization.
  Value Write(const LayerNormSpec& spec) {
    const auto axis = OnnxGraph::Integers("axes", {1});
    const std::string mean = Part("ReduceMean", "mean", {input().name}, {axis});
    const std::string centered = Part("Sub", "centered", {input().name, mean});
    const std::string squares = Part("Mul", "squares", {centered, centered});
    const std::string variance = Part("ReduceMean", "variance", {squares}, {axis});
    const std::string epsilon = graph_.AddScalar(name_ + "/epsilon", spec.epsilon);
    const std::string deviation =
        Part("Sqrt", "deviation", {Part("Add", "sum", {variance, epsilon})});
    const OnnxGraph::Names quotient = {centered, deviation};
    if (!spec.scale && !spec.center) return {Node("Div", quotient), shape()};
    std::string y = Part("Div", "normalized", quotient);
    if (spec.scale && !spec.center) return {Node("Mul", {y, ChannelWeights("gamma")}), shape()};
    if (spec.scale) y = Part("Mul", "scaled", {y, ChannelWeights("gamma")});
    return {Node("Add", {y, ChannelWeights("beta")}), shape()};
  }

  // The weights of the channels, with the axes of an image after them.
  std::string ChannelWeights(const char* what) {
    NamedTensor weights = *tensors_.at(fmt::format("{}/{}", name_, what));
    std::vector<std::int64_t> dims = shape().dims();
    std::fill(dims.begin() + 1, dims.end(), 1);
    weights.shape = Shape(std::move(dims));
    return graph_.AddFloats(weights);
  }

  Value Write(const DropoutSpec&) { return {Node("Identity", {input().name}), shape()}; }

  Value Write(const ActivationSpec& spec) { return {WriteActivation(spec), shape()}; }

  std::string WriteActivation(const ActivationSpec& spec) {
    const std::string& x = input().name;
    switch (spec.activation) {
      case Activation::kRelu:
        return Node("Relu", {x});
      case Activation::kTanh:
        return Node("Tanh", {x});
      case Activation::kLeakyRelu:
        return Node("LeakyRelu", {x}, {OnnxGraph::Float("alpha", spec.slope)});
      case Activation::kSilu:
        return Node("Mul", {x, Part("Sigmoid", "sigmoid", {x})});
      case Activation::kGelu:
        return WriteGelu(x);
    }
    LOCKSTEP_CHECK(false, "export: found activation {}, expected one of kActivations",
                   static_cast<int>(spec.activation));
    return "";
  }

  // x * Phi(x) = x * (0.5 * erf(x / sqrt(2)) + 0.5): the operator set has no Gelu.
  std::string WriteGelu(const std::string& x) {
    const std::string root =
        graph_.AddScalar(name_ + "/inverse_root", static_cast<float>(1 / std::sqrt(2.0)));
    const std::string half = graph_.AddScalar(name_ + "/half", 0.5F);
    const std::string erf = Part("Erf", "erf", {Part("Mul", "scaled", {x, root})});
    const std::string phi = Part("Add", "phi", {Part("Mul", "halved", {erf, half}), half});
    return Node("Mul", {x, phi});
  }

  Value Write(const AddSpec&) { return {Node("Sum", InputNames()), shape()}; }

  Value Write(const ConcatenateSpec&) {
    std::vector<std::int64_t> dims = shape().dims();
    dims[0] = 0;
    for (const Value& value : inputs_) dims[0] += value.sample[0];
    return {Node("Concat", InputNames(), {OnnxGraph::Integer("axis", 1)}), Shape(dims)};
  }

  Value Write(const ZeroPadding2dSpec& spec) {
    const Edges& edges = spec.edges;
    const std::string pads = graph_.AddIntegers(
        name_ + "/pads", {0, 0, edges.top, edges.left, 0, 0, edges.bottom, edges.right});
    return {
        Node("Pad", {input().name, pads}),
        {shape()[0], edges.top + shape()[1] + edges.bottom, edges.left + shape()[2] + edges.right}};
  }

  Value Write(const FlattenSpec&) {
    return {Node("Flatten", {input().name}), {shape().elements()}};
  }

  Value Write(const OutputSpec& spec) {
    if (spec.activation == OutputActivation::kSigmoid) {
      return {Node("Sigmoid", {input().name}), shape()};
    }
    return {Node("Softmax", {input().name}, {OnnxGraph::Integer("axis", 1)}), shape()};
  }

  OnnxGraph graph_{kInput};
  Value samples_;
  const Tensors& tensors_;
  std::vector<Value> values_;  // each layer's output
  // About the layer that is being added:
  std::string name_;
  std::vector<Value> inputs_;
};

}  // namespace

absl::StatusOr<std::string> EncodeOnnx(const ModelDescription& model,
                                       const std::vector<NamedTensor>& tensors,
                                       const std::string& doc) {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<Layer> layers, ParseLayers(model.layers));
  Tensors by_name;
  for (const NamedTensor& tensor : tensors) by_name[tensor.name] = &tensor;
  LOCKSTEP_RETURN_IF_ERROR(CheckModel(model, layers, by_name));
  LayerWriter writer(model, by_name);
  for (const Layer& layer : layers) writer.Add(layer);
  return std::move(writer).Finish().Finish(model.input, model.outputs, doc);
}

}  // namespace lockstep::train
