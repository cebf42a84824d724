// Converts between YAML and JSON values. yaml_scalar.h says what is a number, true, false or null;
// anything quoted is a string.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "api/v1/training_job.h"

namespace lockstep::api {

// Returns the non-empty documents of a stream. Returns InvalidArgument, with `source`, line and
// column, if the text is not valid YAML or exceeds a limit.
absl::StatusOr<std::vector<Json>> ParseYaml(std::string_view text, std::string_view source);

// Returns one document as block YAML, with the keys in the order of `json`.
std::string ToYaml(const nlohmann::ordered_json& json);

}  // namespace lockstep::api
