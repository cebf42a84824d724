// YAML (1.2 core schema: true/false, numbers, null; anything quoted is a string) to JSON values.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "api/v1/training_job.h"

namespace lockstep::api {

// All documents of a stream, empty ones left out. InvalidArgument names `source`, line and column.
absl::StatusOr<std::vector<Json>> ParseYaml(std::string_view text, std::string_view source);

// One document as block YAML, keys in the order of `json`.
std::string ToYaml(const nlohmann::ordered_json& json);

}  // namespace lockstep::api
