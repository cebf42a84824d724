// The layers of a model as plain values, parsed from JSON, independent of any backend. They form a
// graph: each layer reads the outputs of earlier ones.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "trainer/backend/op_spec.h"
#include "trainer/nn/model_outputs.h"

namespace lockstep::train {

// What makes the model's outputs of its last values. No op: a loss computes it more exactly from
// the values before it. Only a model's end may have it.
enum class OutputActivation { kSoftmax, kSigmoid };
struct OutputSpec {
  OutputActivation activation = OutputActivation::kSoftmax;
};

template <class... Specs>
std::variant<Specs..., OutputSpec> AddOutputSpec(const std::variant<Specs...>&);
using LayerSpec = decltype(AddOutputSpec(OpSpec()));

struct Layer {
  std::size_t index = 0;    // in the user's list; messages say "layers[2]"
  std::string name;         // as given, else Keras' default: "conv2d_1"
  LayerSpec spec;           // without `x` and `input_gradient`, which CompileLayers sets
  std::vector<int> inputs;  // positions in the list of layers, all before this one, or kSamples
};
inline constexpr int kSamples = -1;  // the model's input

// Parses a list of layers. Types and fields are as in Keras, with fields in camelCase;
// docs/training-job.md lists them. Each has `name` and `inputs`, too: the names of earlier layers,
// or "input" for the samples. Add and Concatenate take at least two, the others one (the default:
// the layer before). Every layer but the last must be an input of another. A layer with an
// activation becomes two, of which the second is called "<name>/activation". A SeparableConv2D
// becomes two or three: a DepthwiseConv2D without bias, "<name>/depthwise", and a 1x1 Conv2D,
// "<name>/pointwise". InvalidArgument has one line per fault: path, found, expected.
absl::StatusOr<std::vector<Layer>> ParseLayers(const std::vector<nlohmann::json>& layers);

// The OpenAPI schema of one of these objects, for the CRD: the fields of all types. Requires that
// a field has the same schema in all types that have it.
nlohmann::ordered_json LayerSchema();

// Removes the OutputSpec at the model's end, if there is one, and so leaves the layers that give
// `outputs`. InvalidArgument if the end does not fit the loss: its activation is that of another
// loss, or from_logits is true with an activation, which would apply twice, or false without.
absl::Status RemoveOutputActivation(const ModelOutputs& outputs, std::vector<Layer>& layers);

// Fuses each relu into an operation that computes it at no extra cost: the max pool before or after
// it (where it runs on a quarter of the values), else the convolution, dense layer, batch
// normalization or sum before it, where nothing else reads the values in between. Likewise fuses
// zeros around an image into the convolution, or the max pool with relu, that reads them. The
// result computes the same function.
std::vector<Layer> FuseLayers(std::vector<Layer> layers);

}  // namespace lockstep::train
