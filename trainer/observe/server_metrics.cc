#include "trainer/observe/server_metrics.h"

#include <fmt/format.h>

#include <array>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "base/status.h"

namespace lockstep::train {
namespace {

using Json = nlohmann::json;

constexpr char kStalenessName[] = "staleness";  // a flat list: the counts, then the sum

struct TotalField {
  const char* name;
  std::int64_t ServerMetrics::* member;
};

constexpr std::array kTotals = {
    TotalField{"server", &ServerMetrics::server},
    TotalField{"step", &ServerMetrics::step},
    TotalField{"updates", &ServerMetrics::updates},
    TotalField{"dropped", &ServerMetrics::dropped},
    TotalField{"pushedBytes", &ServerMetrics::pushed_bytes},
    TotalField{"pulledBytes", &ServerMetrics::pulled_bytes},
};

absl::Status ReadTotal(const Json& json, const std::string& name, std::int64_t& value) {
  // The parser keeps what is not negative as unsigned.
  constexpr auto kMost = std::uint64_t{std::numeric_limits<std::int64_t>::max()};
  if (!json.is_number_unsigned() || json.get<std::uint64_t>() > kMost) {
    return absl::InvalidArgumentError(fmt::format(
        "metrics.{}: found {}, expected an integer of at least 0", name, JsonText(json)));
  }
  value = json.get<std::int64_t>();
  return absl::OkStatus();
}

absl::Status ReadStaleness(const Json& json, CountHistogram& histogram) {
  const std::size_t counts = histogram.counts.size();
  if (!json.is_array() || json.size() != counts + 1) {
    return absl::InvalidArgumentError(fmt::format("metrics.{}: found {}, expected a list of {}",
                                                  kStalenessName, JsonText(json), counts + 1));
  }
  for (std::size_t i = 0; i < counts; ++i) {
    LOCKSTEP_RETURN_IF_ERROR(ReadTotal(json[i], kStalenessName, histogram.counts[i]));
  }
  return ReadTotal(json[counts], kStalenessName, histogram.sum);
}

}  // namespace

std::string EncodeServerMetrics(const ServerMetrics& metrics) {
  Json json = Json::object();
  for (const TotalField& field : kTotals) json[field.name] = metrics.*field.member;
  json[kStalenessName] = metrics.staleness.counts;
  json[kStalenessName].push_back(metrics.staleness.sum);
  return json.dump();
}

absl::StatusOr<ServerMetrics> DecodeServerMetrics(const std::string& line) {
  const auto is_flat = [](int depth, Json::parse_event_t, Json&) { return depth < 4; };
  const Json json = Json::parse(line, is_flat, /*allow_exceptions=*/false);
  if (!json.is_object() || json.size() != kTotals.size() + 1) {
    return absl::InvalidArgumentError(
        fmt::format("metrics: found {} bytes that are not a JSON object of {} fields", line.size(),
                    kTotals.size() + 1));
  }
  ServerMetrics metrics;
  for (const TotalField& field : kTotals) {
    LOCKSTEP_RETURN_IF_ERROR(
        ReadTotal(json.value(field.name, Json()), field.name, metrics.*field.member));
  }
  LOCKSTEP_RETURN_IF_ERROR(ReadStaleness(json.value(kStalenessName, Json()), metrics.staleness));
  return metrics;
}

}  // namespace lockstep::train
