// A layer of a Keras Sequential list as plain values, parsed from JSON, independent of any backend.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "trainer/backend/backend.h"

namespace lockstep::train {

struct FlattenSpec {};
struct GlobalAveragePool2dSpec {};
struct ReluSpec {};

// The backend's specs; CompileLayers sets their `x` and `input_gradient`.
using LayerSpec = std::variant<Conv2dSpec, DenseSpec, Pool2dSpec, GlobalAveragePool2dSpec,
                               BatchNormSpec, FlattenSpec, ReluSpec, DropoutSpec>;

struct Layer {
  std::size_t index = 0;  // in the user's list; messages say "layers[2]"
  std::string name;       // as given, else Keras' default: "conv2d_1"
  LayerSpec spec;
};

// Parses a list of layers. Types and fields are as in Keras, with fields in camelCase:
//   Dense                   units, useBias, activation
//   Conv2D                  filters, kernelSize, strides, padding, useBias, activation
//   MaxPooling2D (MaxPool2D), AveragePooling2D      poolSize, strides, padding
//   GlobalAveragePooling2D, Flatten, ReLU
//   Activation              activation
//   BatchNormalization      momentum, epsilon
//   Dropout                 rate
// and `name` for each. InvalidArgument has one line per fault: path, found, expected.
absl::StatusOr<std::vector<Layer>> ParseLayers(const std::vector<nlohmann::json>& layers);

// Fuses each relu into an operation that computes it at no extra cost: the max pool before or after
// it (where it runs on a quarter of the values), else the convolution or dense layer before it. The
// result computes the same function.
std::vector<Layer> FuseLayers(std::vector<Layer> layers);

}  // namespace lockstep::train
