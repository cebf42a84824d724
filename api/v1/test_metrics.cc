#include "api/v1/test_metrics.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "api/v1/enum_names.h"

namespace lockstep::api {

static_assert(std::ranges::all_of(kEnumNames<TestMetric>, [](const EnumName<TestMetric>& entry) {
  // Not by FindByName: with UBSan, GCC does not compare its result in a constant expression.
  return std::ranges::count(kEnumNames<BestMetric>, entry.second, &EnumName<BestMetric>::second) ==
         1;
}));

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

double NumberOf(BestMetric best, double loss, double metric, const TestMetrics& named) {
  if (best == BestMetric::kLoss) return loss;
  const TestMetric* of_name = FindByName<TestMetric>(NameOf(best));
  if (of_name == nullptr) return metric;
  const auto found = named.find(*of_name);
  return found == named.end() ? std::nan("") : found->second;
}

bool IsBetterHigher(BestMetric best) {
  using enum BestMetric;
  switch (best) {
    case kLoss:
    case kMeanAbsoluteError:
    case kMeanSquaredError:
    case kRootMeanSquaredError:
      return false;
    case kAccuracy:
    case kTopKCategoricalAccuracy:
    case kAuc:
    case kPrecision:
    case kRecall:
      return true;
  }
  return false;
}

}  // namespace lockstep::api
