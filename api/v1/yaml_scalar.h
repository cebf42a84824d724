// Plain YAML scalars in the 1.2 core schema.
#pragma once

#include <optional>
#include <string_view>

#include "api/v1/training_job.h"

namespace lockstep::api {

// Returns the JSON value of an unquoted scalar: null, true, false, a number, else a string. Returns
// nullopt for what JSON cannot hold: .nan, .inf, numbers out of range.
std::optional<Json> ResolvePlainScalar(std::string_view text);

}  // namespace lockstep::api
