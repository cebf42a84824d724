// The numbers of an evaluation: the metrics that it names, as JSON with one number by each name,
// and the number by which it is better than another. Pure.
#pragma once

#include <nlohmann/json.hpp>

#include "api/v1/training_job.h"

namespace lockstep::api {

// Returns an object, which is empty if there are none, in the order of the enum.
nlohmann::ordered_json TestMetricsToJson(const TestMetrics& metrics);

// Passes over names that are unknown; anything but an object has none. Throws
// nlohmann::json::exception if one of the metrics is not a number.
TestMetrics TestMetricsFromJson(const nlohmann::json& json);

// Returns the number of an evaluation that `best` names; NaN if the evaluation lacks it. `metric`:
// what is measured beside the loss, see MetricOf.
double NumberOf(BestMetric best, double loss, double metric, const TestMetrics& named);
// Returns true if a higher number is better, false if a lower one is.
bool IsBetterHigher(BestMetric best);

}  // namespace lockstep::api
