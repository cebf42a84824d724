// The metrics that an evaluation names, as JSON: one number by each name. Pure.
#pragma once

#include <nlohmann/json.hpp>

#include "api/v1/training_job.h"

namespace lockstep::api {

// Returns an object, which is empty if there are none, in the order of the enum.
nlohmann::ordered_json TestMetricsToJson(const TestMetrics& metrics);

// Passes over names that are unknown; anything but an object has none. Throws
// nlohmann::json::exception if one of the metrics is not a number.
TestMetrics TestMetricsFromJson(const nlohmann::json& json);

}  // namespace lockstep::api
