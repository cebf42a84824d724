// A layer of a Keras-Sequential list as plain values: what the JSON said, before any back end.
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

// The back end's specs with `x` and `input_gradient` still open.
using LayerSpec = std::variant<Conv2dSpec, DenseSpec, Pool2dSpec, GlobalAveragePool2dSpec,
                               BatchNormSpec, FlattenSpec, ReluSpec, DropoutSpec>;

struct Layer {
  std::size_t index = 0;  // in the list that the user wrote: messages say "layers[2]"
  std::string name;       // "conv2d_1": as given, else Keras' default
  LayerSpec spec;
};

// Types and fields are Keras', the fields in camelCase:
//   Dense                   units, useBias, activation
//   Conv2D                  filters, kernelSize, strides, padding, useBias, activation
//   MaxPooling2D (MaxPool2D), AveragePooling2D      poolSize, strides, padding
//   GlobalAveragePooling2D, Flatten, ReLU
//   Activation              activation
//   BatchNormalization      momentum, epsilon
//   Dropout                 rate
// and `name` on each. InvalidArgument holds one line per fault: path, found, expected.
absl::StatusOr<std::vector<Layer>> ParseLayers(const std::vector<nlohmann::json>& layers);

// Takes each relu into the operation that does it for nothing: into the max pool that stands before
// or after it (which then runs on a quarter of the values), else into the convolution or dense
// layer before it. The function computed stays the same.
std::vector<Layer> FuseLayers(std::vector<Layer> layers);

}  // namespace lockstep::train
