#include "operator/progress/report_json.h"

#include <fmt/format.h>

#include <cctype>
#include <charconv>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/json_reader.h"
#include "base/shallow_json.h"
#include "base/status.h"

namespace lockstep::progress {
namespace {

using controller::ProgressReport;
using nlohmann::json;

constexpr int kMostLevels = 8;
constexpr std::size_t kMostMetrics = 256;  // as KEP-2779 allows

// Programs spell the same name in different ways: eval_loss, eval/loss, evalLoss.
std::string Plain(std::string_view name) {
  std::string plain;
  for (const char c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) continue;
    plain.push_back(static_cast<char>(std::tolower(static_cast<unsigned char>(c))));
  }
  return plain;
}

std::optional<double> NumberIn(std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_whole = error == std::errc() && end == text.data() + text.size();
  return is_whole && std::isfinite(number) ? std::optional(number) : std::nullopt;
}

std::optional<std::int64_t> CountIn(std::string_view text) {
  const std::optional<double> number = NumberIn(text);
  if (!number || *number < 0 || *number > static_cast<double>(kMaxJsonInteger)) return std::nullopt;
  return static_cast<std::int64_t>(*number);
}

std::optional<double> PositiveIn(std::string_view text) {
  const std::optional<double> number = NumberIn(text);
  return number && *number >= 0 ? number : std::nullopt;
}

// Takes the value if there is none yet: of several names, the first that a program uses counts.
template <typename T>
bool Set(std::optional<T> value, std::optional<T>& field) {
  if (!field) field = value;
  return true;
}

bool TakeCount(const std::string& name, std::string_view value, ProgressReport& report) {
  if (name == "currentstep" || name == "globalstep" || name == "step") {
    return Set(CountIn(value), report.step);
  }
  if (name == "totalsteps" || name == "maxsteps") return Set(CountIn(value), report.total_steps);
  if (name == "currentepoch" || name == "epoch") return Set(PositiveIn(value), report.epoch);
  return false;
}

void TakeMetric(const std::string& name, std::string_view value, ProgressReport& report) {
  if (TakeCount(name, value, report)) return;
  if (name == "loss" || name == "trainloss") {
    Set(NumberIn(value), report.loss);
  } else if (name == "accuracy" || name == "trainaccuracy") {
    Set(NumberIn(value), report.accuracy);
  } else if (name == "evalloss" || name == "testloss" || name == "valloss") {
    Set(NumberIn(value), report.test_loss);
  } else if (name == "evalaccuracy" || name == "testaccuracy" || name == "valaccuracy") {
    Set(NumberIn(value), report.test_accuracy);
  } else if (name == "examplespersecond" || name == "samplespersecond" ||
             name == "trainsamplespersecond") {
    Set(PositiveIn(value), report.examples_per_second);
  }
}

// The value as a text; absent if it is neither a text nor a number.
std::optional<std::string> TextOf(const json& value) {
  if (value.is_string()) return value.get<std::string>();
  return value.is_number() ? std::optional(value.dump()) : std::nullopt;
}

// Adds what they say to `told`, and a fault if it is no list of names and values.
void ReadMetrics(const json& list, ProgressReport& report, std::string& told,
                 std::vector<FieldError>& errors) {
  if (!list.is_array() || list.size() > kMostMetrics) {
    AppendFault("trainerStatus.metrics", &list,
                fmt::format("a list of at most {} metrics", kMostMetrics), errors);
    return;
  }
  for (const json& metric : list) {
    const bool has_name = metric.is_object() && metric.contains("name") &&
                          metric.at("name").is_string() && metric.contains("value");
    const std::optional<std::string> value =
        has_name ? TextOf(metric.at("value")) : std::optional<std::string>();
    if (!value) {
      AppendFault("trainerStatus.metrics", &metric, "an object with the texts `name` and `value`",
                  errors);
      return;
    }
    const std::string name = Plain(metric.at("name").get_ref<const std::string&>());
    told.append(name).push_back('=');
    told.append(*value).push_back('\n');
    TakeMetric(name, *value, report);
  }
}

// Returns 42 for 42.0, which Python's division makes; any other value as it is.
json AsInteger(const json& value) {
  if (!value.is_number_float()) return value;
  const auto number = value.get<double>();
  const bool is_whole =
      number == std::trunc(number) && std::abs(number) <= static_cast<double>(kMaxJsonInteger);
  return is_whole ? json(static_cast<std::int64_t>(number)) : value;
}

// Returns a whole number from 0 to `most`; absent if the field is, or with a fault.
std::optional<std::int64_t> ReadCount(JsonReader& fields, std::string_view name,
                                      std::int64_t most) {
  const json* field = fields.Find(name);
  if (field == nullptr) return std::nullopt;
  return fields.ReadInteger(AsInteger(*field), fields.Child(name), {0, most});
}

}  // namespace

absl::StatusOr<ProgressReport> ReadReport(std::string_view text) {
  const json whole = ParseShallowJson(text, kMostLevels);
  if (whole.is_discarded()) {
    return absl::InvalidArgumentError(
        fmt::format("found no JSON of at most {} levels, expected an object", kMostLevels));
  }
  std::vector<FieldError> errors;
  JsonReader reader(whole, "", &errors);
  const json* status = reader.Find("trainerStatus");
  if (errors.empty() && status == nullptr) {
    reader.Fault("trainerStatus", nullptr, "an object");
  }
  LOCKSTEP_RETURN_IF_ERROR(ToStatus(errors));
  JsonReader fields(*status, "trainerStatus", &errors);
  ProgressReport report;
  std::string told;
  if (const auto percentage = ReadCount(fields, "progressPercentage", 100)) {
    report.percentage = static_cast<int>(*percentage);
    told = fmt::format("{}%\n", *percentage);
  }
  if (const auto left = ReadCount(fields, "estimatedRemainingSeconds", kMaxJsonInteger)) {
    report.remaining_seconds = static_cast<double>(*left);
  }
  if (const json* metrics = fields.Find("metrics")) ReadMetrics(*metrics, report, told, errors);
  LOCKSTEP_RETURN_IF_ERROR(ToStatus(errors));
  report.digest = std::hash<std::string>()(told);
  return report;
}

}  // namespace lockstep::progress
