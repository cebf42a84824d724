// What a model is besides its parameters: enough to build it again without the job that trained it.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "trainer/core/dtype.h"
#include "trainer/core/shape.h"

namespace lockstep::train {

struct ModelDescription {
  std::vector<nlohmann::json> layers;  // as ParseLayers takes them
  Shape input;                         // of one sample: C,H,W or F
  // A sample's, as its data set has it: see Dataset::element. Nullopt: not known.
  std::optional<DType> element = {};
  std::int64_t outputs = 0;  // values that the last layer gives for a sample
  bool operator==(const ModelDescription&) const = default;
};

nlohmann::json DescriptionToJson(const ModelDescription& model);

// InvalidArgument names the field, what was found and what is expected. Does not look into layers.
absl::StatusOr<ModelDescription> DescriptionFromJson(const nlohmann::json& json);

}  // namespace lockstep::train
