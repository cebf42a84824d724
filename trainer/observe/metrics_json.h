// Encodes a struct of metrics as one line of JSON, from a table of its fields, and decodes it.
// Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <variant>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "api/v1/training_job.h"
#include "base/status.h"
#include "trainer/core/count_histogram.h"
#include "trainer/core/duration_histogram.h"

namespace lockstep::train {

// A number is encoded as such, but JSON has neither NaN nor infinity: both are sent as null and
// decoded as NaN. Metrics of an evaluation are an object by name. A histogram is a flat list: the
// counts, then the sum.
template <typename Metrics>
struct MetricField {
  const char* name;
  std::variant<int Metrics::*, std::int64_t Metrics::*, double Metrics::*,
               DurationHistogram Metrics::*, CountHistogram Metrics::*, api::TestMetrics Metrics::*>
      member;
  std::int64_t least = 0;  // of an integer
};

nlohmann::json MetricToJson(double value);
nlohmann::json MetricToJson(std::int64_t value);
nlohmann::json MetricToJson(int value);
nlohmann::json MetricToJson(const DurationHistogram& histogram);
nlohmann::json MetricToJson(const CountHistogram& histogram);
nlohmann::json MetricToJson(const api::TestMetrics& metrics);

// InvalidArgument: `json` is not such a value, or an integer is below `least`.
absl::Status JsonToMetric(const nlohmann::json& json, std::int64_t least, double& value);
absl::Status JsonToMetric(const nlohmann::json& json, std::int64_t least, std::int64_t& value);
absl::Status JsonToMetric(const nlohmann::json& json, std::int64_t least, int& value);
absl::Status JsonToMetric(const nlohmann::json& json, std::int64_t least,
                          DurationHistogram& histogram);
absl::Status JsonToMetric(const nlohmann::json& json, std::int64_t least,
                          CountHistogram& histogram);
absl::Status JsonToMetric(const nlohmann::json& json, std::int64_t least,
                          api::TestMetrics& metrics);

// InvalidArgument: `line` is not a JSON object, or nests deeper than a list of numbers.
absl::StatusOr<nlohmann::json> ParseMetricsLine(const std::string& line);
// Returns `status` with "metrics.name: " before its message.
absl::Status InMetric(const char* name, const absl::Status& status);
// InvalidArgument: `found` fields are not as many as expected.
absl::Status CheckFieldCount(std::size_t found, std::size_t expected);

template <typename Metrics>
std::string EncodeFields(const Metrics& metrics, std::span<const MetricField<Metrics>> fields) {
  nlohmann::json json = nlohmann::json::object();
  for (const auto& field : fields) {
    std::visit([&](auto member) { json[field.name] = MetricToJson(metrics.*member); },
               field.member);
  }
  return json.dump();
}

// InvalidArgument: `line` is malformed, or a field is missing, unknown or out of its range.
template <typename Metrics>
absl::StatusOr<Metrics> DecodeFields(const std::string& line,
                                     std::span<const MetricField<Metrics>> fields) {
  LOCKSTEP_ASSIGN_OR_RETURN(const nlohmann::json json, ParseMetricsLine(line));
  Metrics metrics;
  for (const auto& field : fields) {
    const auto found = json.find(field.name);
    if (found == json.end()) {
      return InMetric(field.name, absl::InvalidArgumentError("is missing"));
    }
    const absl::Status status =
        std::visit([&](auto member) { return JsonToMetric(*found, field.least, metrics.*member); },
                   field.member);
    if (!status.ok()) return InMetric(field.name, status);
  }
  LOCKSTEP_RETURN_IF_ERROR(CheckFieldCount(json.size(), fields.size()));
  return metrics;
}

}  // namespace lockstep::train
