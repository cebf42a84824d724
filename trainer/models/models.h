// The bundled models as layer lists.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace lockstep::train {

// Returns the layers of a model, with `classes` units in the last one. For MNIST: mlp (784-128-10),
// simple-cnn (conv 3x3x32 valid, pool, dense 10), core-cnn (conv 5x5x32 same, pool, conv 5x5x64
// same, pool, dense 1024, dense 10). For any image: resnet-18, -34, -50, -101, -152 and
// cifar-resnet-20, see resnet.h. `zero_gamma` is for those of
// resnet.h. InvalidArgument lists the known names.
absl::StatusOr<std::vector<nlohmann::json>> BundledModel(const std::string& name,
                                                         std::int64_t classes,
                                                         bool zero_gamma = false);
std::vector<std::string> BundledModelNames();

}  // namespace lockstep::train
