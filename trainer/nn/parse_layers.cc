#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <optional>
#include <set>

#include "base/check.h"
#include "base/field_error.h"
#include "base/json_text.h"
#include "trainer/nn/layer.h"
#include "trainer/nn/layer_fields.h"

namespace lockstep::train {
namespace {

// One of the ops that a layer becomes.
struct LayerOp {
  LayerSpec spec;
  const char* suffix = "";  // of its name, after the layer's
};
// In order: each reads the one before it.
using LayerOps = std::vector<LayerOp>;

LayerOps WithActivation(LayerOps ops, LayerFields& fields) {
  if (std::optional<LayerSpec> activation = fields.ActivationField()) {
    ops.push_back({*std::move(activation), "/activation"});
  }
  return ops;
}

LayerOps ParseDense(LayerFields& fields) {
  return WithActivation(
      {{DenseSpec{.units = fields.Count("units"), .bias = fields.Flag("useBias", true)}}}, fields);
}

LayerOps ParseConv2d(LayerFields& fields) {
  const Extent2d kernel = fields.Extent("kernelSize");
  const Extent2d strides = fields.Extent("strides", {1, 1});
  return WithActivation({{Conv2dSpec{.filters = fields.Count("filters"),
                                     .kernel_h = kernel.h,
                                     .kernel_w = kernel.w,
                                     .stride_h = strides.h,
                                     .stride_w = strides.w,
                                     .padding = fields.PaddingField(),
                                     .bias = fields.Flag("useBias", true)}}},
                        fields);
}

// Without a bias.
DepthwiseConv2dSpec DepthwiseOf(LayerFields& fields) {
  const Extent2d kernel = fields.Extent("kernelSize");
  const Extent2d strides = fields.Extent("strides", {1, 1});
  return {.depth_multiplier = fields.Count("depthMultiplier", 1),
          .kernel_h = kernel.h,
          .kernel_w = kernel.w,
          .stride_h = strides.h,
          .stride_w = strides.w,
          .padding = fields.PaddingField(),
          .bias = false};
}

LayerOps ParseDepthwiseConv2d(LayerFields& fields) {
  DepthwiseConv2dSpec spec = DepthwiseOf(fields);
  spec.bias = fields.Flag("useBias", true);
  return WithActivation({{spec}}, fields);
}

LayerOps ParseSeparableConv2d(LayerFields& fields) {
  const DepthwiseConv2dSpec depthwise = DepthwiseOf(fields);
  const Conv2dSpec pointwise{.filters = fields.Count("filters"),
                             .kernel_h = 1,
                             .kernel_w = 1,
                             .bias = fields.Flag("useBias", true)};
  return WithActivation({{depthwise, "/depthwise"}, {pointwise, "/pointwise"}}, fields);
}

LayerOps ParsePool2d(LayerFields& fields, PoolKind kind) {
  const Extent2d window = fields.Extent("poolSize", {2, 2});
  const Extent2d strides = fields.Extent("strides", window);  // Keras: the window's own size
  return {{Pool2dSpec{.kind = kind,
                      .window_h = window.h,
                      .window_w = window.w,
                      .stride_h = strides.h,
                      .stride_w = strides.w,
                      .padding = fields.PaddingField()}}};
}

LayerOps ParseZeroPadding2d(LayerFields& fields) {
  const std::int64_t edge = fields.EdgePadding();
  return {{ZeroPadding2dSpec{.edges = {.top = edge, .bottom = edge, .left = edge, .right = edge}}}};
}

LayerOps ParseActivation(LayerFields& fields) {
  std::optional<LayerSpec> activation = fields.ActivationField();
  if (!activation) fields.Fault("activation", "an activation other than linear");
  return {{std::move(activation).value_or(ActivationSpec{})}};
}

LayerOps ParseBatchNorm(LayerFields& fields) {
  return {
      {BatchNormSpec{.momentum = fields.Number("momentum", 0.99, 0, 1),
                     .epsilon = fields.Number("epsilon", 1e-3, 1e-12, 1),
                     .zero_gamma = fields.Choice("gammaInitializer", {"ones", "zeros"}, 0) == 1}}};
}

LayerOps ParseLayerNorm(LayerFields& fields) {
  return {{LayerNormSpec{.epsilon = fields.Number("epsilon", 1e-3, 1e-12, 1),
                         .center = fields.Flag("center", true),
                         .scale = fields.Flag("scale", true)}}};
}

LayerOps ParseDropout(LayerFields& fields) {
  if (!fields.Has("rate")) fields.Fault("rate", "a number in [0, 1)");
  return {{DropoutSpec{.rate = fields.Number("rate", 0, 0, 1)}}};
}

LayerOps ParseLeakyRelu(LayerFields& fields) {
  return {{ActivationSpec{.activation = Activation::kLeakyRelu,
                          .slope = fields.Number("negativeSlope", 0.3, 0, 1000)}}};
}

struct LayerType {
  const char* type;
  const char* default_name;  // Keras'
  LayerOps (*parse)(LayerFields& fields);
  bool merges = false;  // takes at least two inputs; the others take one
};
const LayerType kLayerTypes[] = {
    {"Activation", "activation", ParseActivation},
    {"Add", "add", [](LayerFields&) { return LayerOps{{AddSpec{}}}; }, /*merges=*/true},
    {"AveragePooling2D", "average_pooling2d",
     [](LayerFields& fields) { return ParsePool2d(fields, PoolKind::kAverage); }},
    {"BatchNormalization", "batch_normalization", ParseBatchNorm},
    {"Concatenate", "concatenate", [](LayerFields&) { return LayerOps{{ConcatenateSpec{}}}; },
     /*merges=*/true},
    {"Conv2D", "conv2d", ParseConv2d},
    {"Dense", "dense", ParseDense},
    {"DepthwiseConv2D", "depthwise_conv2d", ParseDepthwiseConv2d},
    {"Dropout", "dropout", ParseDropout},
    {"Flatten", "flatten", [](LayerFields&) { return LayerOps{{FlattenSpec{}}}; }},
    {"GlobalAveragePooling2D", "global_average_pooling2d",
     [](LayerFields&) { return LayerOps{{GlobalAveragePool2dSpec{}}}; }},
    {"LayerNormalization", "layer_normalization", ParseLayerNorm},
    {"LeakyReLU", "leaky_re_lu", ParseLeakyRelu},
    {"MaxPool2D", "max_pooling2d",
     [](LayerFields& fields) { return ParsePool2d(fields, PoolKind::kMax); }},
    {"MaxPooling2D", "max_pooling2d",
     [](LayerFields& fields) { return ParsePool2d(fields, PoolKind::kMax); }},
    {"ReLU", "re_lu",
     [](LayerFields&) { return LayerOps{{ActivationSpec{.activation = Activation::kRelu}}}; }},
    {"SeparableConv2D", "separable_conv2d", ParseSeparableConv2d},
    {"Softmax", "softmax", [](LayerFields&) { return LayerOps{{OutputSpec{}}}; }},
    {"ZeroPadding2D", "zero_padding2d", ParseZeroPadding2d},
};

const LayerType* FindType(LayerFields& fields) {
  const std::string type = fields.Text("type");
  std::vector<std::string> known;
  for (const LayerType& entry : kLayerTypes) {
    if (type == entry.type) return &entry;
    known.push_back(entry.type);
  }
  fields.Fault("type", fmt::format("one of {}", fmt::join(known, ", ")));
  return nullptr;
}

// Returns "conv2d", "conv2d_1", …, skipping names that the user has given.
std::string DefaultName(const std::string& base, const std::set<std::string>& given,
                        std::map<std::string, int>& used) {
  while (true) {
    const int count = used[base]++;
    std::string name = count == 0 ? base : fmt::format("{}_{}", base, count);
    if (!given.contains(name)) return name;
  }
}

// Returns the given names. Reports duplicates and names that contain a slash, which checkpoints use
// as in "<name>/weight".
std::set<std::string> GivenNames(const std::vector<nlohmann::json>& layers,
                                 std::vector<FieldError>& errors) {
  std::set<std::string> given;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (!layers[i].is_object() || !layers[i].contains("name")) continue;
    if (!layers[i]["name"].is_string()) continue;  // reported with the layer's other fields
    LayerFields fields(layers[i], fmt::format("layers[{}]", i), errors);
    const std::string name = layers[i]["name"];
    if (name.find('/') != std::string::npos) {
      fields.Fault("name", "a text without a slash");
    }
    if (!given.insert(name).second) {
      fields.Fault("name", "a name that no earlier layer has");
    }
  }
  return given;
}

// What a field is, for people; by name.
const std::map<std::string, std::string> kFieldDocs = {
    {"activation", "linear if absent; softmax and sigmoid only at the model's end."},
    {"center", "beta is added; true if absent."},
    {"depthMultiplier", "filters for each channel; 1 if absent."},
    {"epsilon", "0.001 if absent."},
    {"filters", "channels that it gives."},
    {"gammaInitializer", "ones if absent."},
    {"kernelSize", "one number, or height and width."},
    {"momentum", "0.99 if absent."},
    {"negativeSlope", "what numbers below 0 are multiplied by; 0.3 if absent."},
    {"padding",
     "valid or same, valid if absent; with ZeroPadding2D a number of rows and columns, 1 if "
     "absent."},
    {"poolSize", "one number, or height and width; 2 if absent."},
    {"rate", "the share that is dropped."},
    {"scale", "multiplied by gamma; true if absent."},
    {"strides", "one number, or those of height and width; 1 if absent, poolSize with pooling."},
    {"units", "numbers that it gives."},
    {"useBias", "true if absent."},
};

std::string DocOf(const std::string& field) {
  const auto found = kFieldDocs.find(field);
  LOCKSTEP_CHECK(found != kFieldDocs.end(), "layers: {} has no text in kFieldDocs", field);
  return found->second;
}

class Parser {
 public:
  explicit Parser(const std::vector<nlohmann::json>& layers) : given_(GivenNames(layers, errors_)) {
    if (layers.empty()) {
      errors_.push_back({"layers", "found an empty list, expected at least one layer"});
    }
  }

  void Add(std::size_t index, const nlohmann::json& layer) {
    const std::string path = fmt::format("layers[{}]", index);
    if (!layer.is_object()) {
      AppendFault(path, &layer, R"(an object such as {"type": "Flatten"})", errors_);
      return;
    }
    LayerFields fields(layer, path, errors_);
    const LayerType* type = FindType(fields);
    if (type == nullptr) return;
    LayerOps ops = type->parse(fields);
    std::vector<int> inputs = Inputs(*type, fields);
    std::string name = fields.Text("name");
    fields.RefuseOthers();
    if (name.empty()) name = DefaultName(type->default_name, given_, used_);
    for (LayerOp& op : ops) {
      parsed_.push_back({.index = index,
                         .name = name + op.suffix,
                         .spec = std::move(op.spec),
                         .inputs = std::move(inputs)});
      inputs = {static_cast<int>(parsed_.size()) - 1};
    }
    outputs_[name] = inputs.front();
  }

  absl::StatusOr<std::vector<Layer>> Finish() && {
    if (errors_.empty()) ExpectAllUsed();
    if (errors_.empty()) return std::move(parsed_);
    return ToStatus(errors_);
  }

 private:
  std::vector<int> Inputs(const LayerType& type, LayerFields& fields) {
    const std::vector<std::string> names = fields.Texts("inputs");
    if (names.empty() && !type.merges) {
      return {parsed_.empty() ? kSamples : static_cast<int>(parsed_.size()) - 1};
    }
    if (type.merges ? names.size() < 2 : names.size() != 1) {
      fields.Fault("inputs", type.merges ? "the names of at least two earlier layers, or input"
                                         : "the name of one earlier layer, or input");
    }
    std::vector<int> inputs;
    for (const std::string& name : names) {
      const auto at = outputs_.find(name);
      if (at == outputs_.end() && name != "input") {
        fields.Fault("inputs", fmt::format("names of earlier layers, or input, and {} is neither",
                                           JsonText(name)));
      }
      inputs.push_back(at == outputs_.end() ? kSamples : at->second);
    }
    return inputs;
  }

  // A layer whose output nothing reads is a mistake in `inputs`; it would never learn.
  void ExpectAllUsed() {
    std::vector<bool> is_used(parsed_.size(), false);
    for (const Layer& layer : parsed_) {
      for (const int input : layer.inputs) {
        if (input != kSamples) is_used[static_cast<std::size_t>(input)] = true;
      }
    }
    for (std::size_t i = 0; i + 1 < parsed_.size(); ++i) {
      if (is_used[i]) continue;
      errors_.push_back({fmt::format("layers[{}]", parsed_[i].index),
                         fmt::format("found no later layer that reads the output of {}, expected "
                                     "it in the inputs of one",
                                     parsed_[i].name)});
    }
  }

  std::vector<FieldError> errors_;
  std::set<std::string> given_;
  std::map<std::string, int> used_;     // default names
  std::map<std::string, int> outputs_;  // positions in parsed_, by the layer's name
  std::vector<Layer> parsed_;
};

}  // namespace

nlohmann::ordered_json LayerSchema() {
  std::map<std::string, nlohmann::json> fields_of_all;
  std::map<std::string, std::vector<std::string>> types_of;
  std::vector<std::string> types;
  std::vector<FieldError> faults;  // of objects without fields
  for (const LayerType& type : kLayerTypes) {
    types.emplace_back(type.type);
    nlohmann::json own = nlohmann::json::object();
    LayerFields fields(own, faults);
    type.parse(fields);
    for (const auto& [field, schema] : own.items()) {
      const auto [known, is_new] = fields_of_all.emplace(field, schema);
      LOCKSTEP_CHECK(is_new || known->second == schema,
                     "layers: {} of {} is {}, expected {} as in other types", field, type.type,
                     schema.dump(), known->second.dump());
      types_of[field].emplace_back(type.type);
    }
  }
  nlohmann::ordered_json properties = {
      {"type",
       {{"type", "string"}, {"enum", types}, {"description", "The layer's name in Keras."}}},
      {"name",
       {{"type", "string"},
        {"maxLength", 253},
        {"description", "What its parameters are called in checkpoints."}}},
      {"inputs",
       {{"type", "array"},
        {"minItems", 1},
        {"maxItems", 64},
        {"x-kubernetes-list-type", "atomic"},
        {"items", {{"type", "string"}, {"minLength", 1}, {"maxLength", 253}}},
        {"description",
         "Names of the earlier layers that it reads, or input for the samples; the layer before if "
         "absent."}}}};
  for (const auto& [field, schema] : fields_of_all) {
    properties[field] = schema;
    properties[field]["description"] =
        fmt::format("{}: {}", fmt::join(types_of[field], ", "), DocOf(field));
  }
  return {{"type", "object"},
          {"required", {"type"}},
          {"description", "A layer; which fields it has depends on its type."},
          {"properties", properties}};
}

absl::StatusOr<std::vector<Layer>> ParseLayers(const std::vector<nlohmann::json>& layers) {
  Parser parser(layers);
  for (std::size_t i = 0; i < layers.size(); ++i) parser.Add(i, layers[i]);
  return std::move(parser).Finish();
}

}  // namespace lockstep::train
