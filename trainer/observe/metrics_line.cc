// Encodes the line that a replica sends to its supervisor.
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <variant>

#include "base/json_text.h"
#include "base/status.h"
#include "trainer/observe/metrics.h"

namespace lockstep::train {
namespace {

using Json = nlohmann::json;

struct Field {
  const char* name;
  std::variant<int ReplicaMetrics::*, std::int64_t ReplicaMetrics::*, double ReplicaMetrics::*,
               DurationHistogram ReplicaMetrics::*>
      member;
};

constexpr std::array kFields = {
    Field{"rank", &ReplicaMetrics::rank},
    Field{"world", &ReplicaMetrics::world},
    Field{"step", &ReplicaMetrics::step},
    Field{"totalSteps", &ReplicaMetrics::total_steps},
    Field{"epoch", &ReplicaMetrics::epoch},
    Field{"loss", &ReplicaMetrics::loss},
    Field{"accuracy", &ReplicaMetrics::accuracy},
    Field{"learningRate", &ReplicaMetrics::learning_rate},
    Field{"gradientNorm", &ReplicaMetrics::gradient_norm},
    Field{"testLoss", &ReplicaMetrics::test_loss},
    Field{"testAccuracy", &ReplicaMetrics::test_accuracy},
    Field{"meanAbsoluteError", &ReplicaMetrics::mean_absolute_error},
    Field{"testMeanAbsoluteError", &ReplicaMetrics::test_mean_absolute_error},
    Field{"examplesPerSecond", &ReplicaMetrics::examples_per_second},
    Field{"goodput", &ReplicaMetrics::goodput},
    Field{"remainingSeconds", &ReplicaMetrics::remaining_seconds},
    Field{"stepSeconds", &ReplicaMetrics::step_seconds},
    Field{"stepsTotal", &ReplicaMetrics::steps_total},
    Field{"evaluationBatches", &ReplicaMetrics::evaluation_batches},
    Field{"examplesTotal", &ReplicaMetrics::examples_total},
    Field{"inputSeconds", &ReplicaMetrics::input_seconds},
    Field{"computeSeconds", &ReplicaMetrics::compute_seconds},
    Field{"communicationSeconds", &ReplicaMetrics::communication_seconds},
    Field{"optimizerSeconds", &ReplicaMetrics::optimizer_seconds},
    Field{"checkpointSeconds", &ReplicaMetrics::checkpoint_seconds},
    Field{"evaluationSeconds", &ReplicaMetrics::evaluation_seconds},
    Field{"rendezvousSeconds", &ReplicaMetrics::rendezvous_seconds},
    Field{"idleSeconds", &ReplicaMetrics::idle_seconds},
    Field{"allReduceBytes", &ReplicaMetrics::all_reduce_bytes},
    Field{"generations", &ReplicaMetrics::generations},
    Field{"skippedSteps", &ReplicaMetrics::skipped_steps},
    Field{"diverged", &ReplicaMetrics::diverged},
    Field{"samplesLost", &ReplicaMetrics::samples_lost},
    Field{"samplesDuplicated", &ReplicaMetrics::samples_duplicated},
    Field{"checkpointInterval", &ReplicaMetrics::checkpoint_interval},
    Field{"lastCheckpointStep", &ReplicaMetrics::last_checkpoint_step},
    Field{"lastCheckpointTime", &ReplicaMetrics::last_checkpoint_time},
    Field{"checkpointBytes", &ReplicaMetrics::checkpoint_bytes},
    Field{"checkpointFailures", &ReplicaMetrics::checkpoint_failures},
    Field{"checkpointDurations", &ReplicaMetrics::checkpoint_durations},
};

// JSON has neither NaN nor infinity, so both are sent as null and decoded as NaN.
Json ToJson(double value) {
  return std::isfinite(value) ? Json(value) : Json();
}
Json ToJson(std::int64_t value) {
  return value;
}
Json ToJson(int value) {
  return value;
}
// A flat list: the counts, then the sum.
Json ToJson(const DurationHistogram& histogram) {
  Json list = histogram.counts;
  list.push_back(ToJson(histogram.sum));
  return list;
}

bool FromJson(const Json& json, double& value) {
  if (!json.is_number() && !json.is_null()) return false;
  value = json.is_null() ? std::numeric_limits<double>::quiet_NaN() : json.get<double>();
  return true;
}

bool FromJson(const Json& json, std::int64_t& value) {
  if (!json.is_number_integer()) return false;
  // The parser keeps integers beyond int64's range as unsigned.
  if (json.is_number_unsigned() &&
      json.get<std::uint64_t>() > std::uint64_t{std::numeric_limits<std::int64_t>::max()}) {
    return false;
  }
  value = json.get<std::int64_t>();
  return true;
}

bool FromJson(const Json& json, int& value) {
  std::int64_t wide = 0;
  if (!FromJson(json, wide) || wide < 0 || wide > std::numeric_limits<int>::max()) return false;
  value = static_cast<int>(wide);
  return true;
}

bool FromJson(const Json& json, DurationHistogram& histogram) {
  const std::size_t count = histogram.counts.size();
  if (!json.is_array() || json.size() != count + 1) return false;
  for (std::size_t i = 0; i < count; ++i) {
    if (!FromJson(json[i], histogram.counts[i]) || histogram.counts[i] < 0) return false;
  }
  return FromJson(json[count], histogram.sum);
}

}  // namespace

std::string EncodeMetrics(const ReplicaMetrics& metrics) {
  Json json = Json::object();
  for (const Field& field : kFields) {
    std::visit([&](auto member) { json[field.name] = ToJson(metrics.*member); }, field.member);
  }
  return json.dump();
}

absl::StatusOr<ReplicaMetrics> DecodeMetrics(const std::string& line) {
  const auto is_flat = [](int depth, Json::parse_event_t, Json&) { return depth < 4; };
  const Json json = Json::parse(line, is_flat, /*allow_exceptions=*/false);
  if (!json.is_object()) {
    return absl::InvalidArgumentError(
        fmt::format("metrics: found {} bytes that are not a JSON object", line.size()));
  }
  ReplicaMetrics metrics;
  for (const Field& field : kFields) {
    const auto found = json.find(field.name);
    if (found == json.end()) {
      return absl::InvalidArgumentError(fmt::format("metrics.{}: is missing", field.name));
    }
    const bool ok =
        std::visit([&](auto member) { return FromJson(*found, metrics.*member); }, field.member);
    if (!ok) {
      return absl::InvalidArgumentError(
          fmt::format("metrics.{}: found {}, expected {} in range", field.name, JsonText(*found),
                      field.member.index() == 3 ? "a list of numbers" : "a number"));
    }
  }
  if (json.size() != kFields.size()) {
    return absl::InvalidArgumentError(
        fmt::format("metrics: found {} fields, expected {}", json.size(), kFields.size()));
  }
  return metrics;
}

}  // namespace lockstep::train
