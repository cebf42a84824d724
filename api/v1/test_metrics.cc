#include "api/v1/test_metrics.h"

#include <string>

#include "api/v1/enum_names.h"

namespace lockstep::api {

nlohmann::ordered_json TestMetricsToJson(const TestMetrics& metrics) {
  auto json = nlohmann::ordered_json::object();
  for (const auto& [metric, value] : metrics) json[std::string(NameOf(metric))] = value;
  return json;
}

TestMetrics TestMetricsFromJson(const nlohmann::json& json) {
  TestMetrics metrics;
  for (const auto& [metric, name] : kEnumNames<TestMetric>) {
    const auto found = json.find(std::string(name));
    if (found != json.end()) found->get_to(metrics[metric]);
  }
  return metrics;
}

}  // namespace lockstep::api
