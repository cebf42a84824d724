#include "trainer/observe/metrics_json.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "api/v1/enum_names.h"
#include "api/v1/test_metrics.h"
#include "base/json_text.h"
#include "base/shallow_json.h"

namespace lockstep::train {
namespace {

using Json = nlohmann::json;

absl::Status UnexpectedValue(const Json& found, const std::string& expected) {
  return absl::InvalidArgumentError(
      fmt::format("found {}, expected {}", JsonText(found), expected));
}

template <typename Histogram>
Json HistogramToJson(const Histogram& histogram) {
  Json list = histogram.counts;
  list.push_back(MetricToJson(histogram.sum));
  return list;
}

template <typename Histogram>
absl::Status JsonToHistogram(const Json& json, Histogram& histogram) {
  const std::size_t counts = histogram.counts.size();
  if (!json.is_array() || json.size() != counts + 1) {
    return UnexpectedValue(json, fmt::format("a list of {} numbers", counts + 1));
  }
  for (std::size_t i = 0; i < counts; ++i) {
    LOCKSTEP_RETURN_IF_ERROR(JsonToMetric(json[i], 0, histogram.counts[i]));
  }
  return JsonToMetric(json[counts], 0, histogram.sum);
}

}  // namespace

Json MetricToJson(double value) {
  return std::isfinite(value) ? Json(value) : Json();
}

Json MetricToJson(std::int64_t value) {
  return value;
}

Json MetricToJson(int value) {
  return value;
}

Json MetricToJson(const DurationHistogram& histogram) {
  return HistogramToJson(histogram);
}

Json MetricToJson(const CountHistogram& histogram) {
  return HistogramToJson(histogram);
}

Json MetricToJson(const api::TestMetrics& metrics) {
  return api::TestMetricsToJson(metrics);
}

absl::Status JsonToMetric(const Json& json, std::int64_t least, api::TestMetrics& metrics) {
  if (!json.is_object()) return UnexpectedValue(json, "an object");
  metrics.clear();
  for (const auto& [name, value] : json.items()) {
    const api::TestMetric* metric = api::FindByName<api::TestMetric>(name);
    if (metric == nullptr) return UnexpectedValue(name, "the name of a metric");
    LOCKSTEP_RETURN_IF_ERROR(JsonToMetric(value, least, metrics[*metric]));
  }
  return absl::OkStatus();
}

absl::Status JsonToMetric(const Json& json, std::int64_t /*least*/, double& value) {
  if (!json.is_number() && !json.is_null()) return UnexpectedValue(json, "a number or null");
  value = json.is_null() ? std::numeric_limits<double>::quiet_NaN() : json.get<double>();
  return absl::OkStatus();
}

absl::Status JsonToMetric(const Json& json, std::int64_t least, std::int64_t& value) {
  // The parser keeps integers beyond int64's range as unsigned.
  constexpr auto kMost = std::uint64_t{std::numeric_limits<std::int64_t>::max()};
  const bool is_int64 = json.is_number_integer() &&
                        (!json.is_number_unsigned() || json.get<std::uint64_t>() <= kMost);
  if (!is_int64 || json.get<std::int64_t>() < least) {
    return UnexpectedValue(json, fmt::format("an integer of at least {}", least));
  }
  value = json.get<std::int64_t>();
  return absl::OkStatus();
}

absl::Status JsonToMetric(const Json& json, std::int64_t least, int& value) {
  constexpr int kMost = std::numeric_limits<int>::max();
  std::int64_t wide = 0;
  LOCKSTEP_RETURN_IF_ERROR(JsonToMetric(json, least, wide));
  if (wide > kMost) return UnexpectedValue(json, fmt::format("an integer of at most {}", kMost));
  value = static_cast<int>(wide);
  return absl::OkStatus();
}

absl::Status JsonToMetric(const Json& json, std::int64_t /*least*/, DurationHistogram& histogram) {
  return JsonToHistogram(json, histogram);
}

absl::Status JsonToMetric(const Json& json, std::int64_t /*least*/, CountHistogram& histogram) {
  return JsonToHistogram(json, histogram);
}

absl::StatusOr<Json> ParseMetricsLine(const std::string& line) {
  constexpr int kMostLevels = 4;
  Json json = ParseShallowJson(line, kMostLevels);
  if (!json.is_object()) {
    return absl::InvalidArgumentError(
        fmt::format("metrics: found {} bytes that are not a JSON object of at most {} levels",
                    line.size(), kMostLevels));
  }
  return json;
}

absl::Status InMetric(const char* name, const absl::Status& status) {
  return absl::InvalidArgumentError(
      fmt::format("metrics.{}: {}", name, std::string(status.message())));
}

absl::Status CheckFieldCount(std::size_t found, std::size_t expected) {
  if (found == expected) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("metrics: found {} fields, expected {}", found, expected));
}

}  // namespace lockstep::train
