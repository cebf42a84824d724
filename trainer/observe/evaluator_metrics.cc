#include "trainer/observe/evaluator_metrics.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/json_text.h"

namespace lockstep::train {
namespace {

using Json = nlohmann::json;

struct CountField {
  const char* name;
  std::int64_t EvaluatorMetrics::* member;
  std::int64_t least;
};
constexpr std::array kEvaluatorCounts = {
    CountField{"step", &EvaluatorMetrics::step, -1},
    CountField{"evaluations", &EvaluatorMetrics::evaluations, 0},
    CountField{"batches", &EvaluatorMetrics::batches, 0},
    CountField{"skipped", &EvaluatorMetrics::skipped, 0},
};

struct ResultField {
  const char* name;
  double EvaluatorMetrics::* member;
};
constexpr std::array kEvaluatorResults = {
    ResultField{"testLoss", &EvaluatorMetrics::test_loss},
    ResultField{"testAccuracy", &EvaluatorMetrics::test_accuracy},
    ResultField{"testMeanAbsoluteError", &EvaluatorMetrics::test_mean_absolute_error},
};
constexpr std::size_t kFieldCount = kEvaluatorCounts.size() + kEvaluatorResults.size();

absl::Status UnexpectedValue(const char* name, const Json& found, const std::string& expected) {
  return absl::InvalidArgumentError(
      fmt::format("metrics.{}: found {}, expected {}", name, JsonText(found), expected));
}

}  // namespace

std::string EncodeEvaluatorMetrics(const EvaluatorMetrics& metrics) {
  Json json = Json::object();
  for (const CountField& field : kEvaluatorCounts) json[field.name] = metrics.*field.member;
  for (const ResultField& field : kEvaluatorResults) {
    const double value = metrics.*field.member;
    json[field.name] = std::isfinite(value) ? Json(value) : Json();
  }
  return json.dump();
}

absl::StatusOr<EvaluatorMetrics> DecodeEvaluatorMetrics(const std::string& line) {
  const auto is_flat = [](int depth, Json::parse_event_t, Json&) { return depth < 3; };
  const Json json = Json::parse(line, is_flat, /*allow_exceptions=*/false);
  if (!json.is_object() || json.size() != kFieldCount) {
    return absl::InvalidArgumentError(
        fmt::format("metrics: found {} bytes that are not a JSON object of {} fields", line.size(),
                    kFieldCount));
  }
  EvaluatorMetrics metrics;
  constexpr auto kMost = std::uint64_t{std::numeric_limits<std::int64_t>::max()};
  for (const CountField& field : kEvaluatorCounts) {
    const Json value = json.value(field.name, Json());
    const bool is_int64 = value.is_number_integer() &&
                          (!value.is_number_unsigned() || value.get<std::uint64_t>() <= kMost);
    if (!is_int64 || value.get<std::int64_t>() < field.least) {
      return UnexpectedValue(field.name, value,
                             fmt::format("an integer of at least {}", field.least));
    }
    metrics.*field.member = value.get<std::int64_t>();
  }
  for (const ResultField& field : kEvaluatorResults) {
    if (!json.contains(field.name)) return UnexpectedValue(field.name, Json(), "a field");
    const Json& value = json.at(field.name);
    if (!value.is_number() && !value.is_null()) {
      return UnexpectedValue(field.name, value, "a number or null");
    }
    if (value.is_number()) metrics.*field.member = value.get<double>();
  }
  return metrics;
}

}  // namespace lockstep::train
