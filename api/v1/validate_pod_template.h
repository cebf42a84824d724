// The types of a pod template's fields. In a cluster the API server checks them against the schema;
// here are those that Lockstep reads itself when it runs a job without a cluster. Pure.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/field_error.h"

namespace lockstep::api {

// Appends an error for each field of another type than in Kubernetes. Passes over fields that are
// null, which are absent to Kubernetes, and those that `lockstep run` does not read. `path` is the
// template's.
void ValidatePodTemplateTypes(const nlohmann::json& tmpl, const std::string& path,
                              std::vector<FieldError>& errors);

}  // namespace lockstep::api
