// Plain YAML scalars.
#pragma once

#include <optional>
#include <string_view>

#include "api/v1/training_job.h"

namespace lockstep::api {

// Returns the JSON value of an unquoted scalar: null, true, false, a number, else a string, as
// kubectl reads it, so that a file is the same job here and in a cluster. That is the 1.2 core
// schema with parts of 1.1: yes, on and y are true, no, off and n are false; a mode of 0400 is
// octal, 0b11 is binary, and these and hexadecimal ones may have a sign; numbers may have
// underscores. Returns nullopt for what JSON cannot hold: .nan, .inf, numbers out of range.
std::optional<Json> ResolvePlainScalar(std::string_view text);

}  // namespace lockstep::api
