#include "trainer/observe/server_metrics.h"

#include <array>

#include "trainer/observe/metrics_json.h"

namespace lockstep::train {
namespace {

constexpr auto kServerFields = std::to_array<MetricField<ServerMetrics>>({
    {"server", &ServerMetrics::server},
    {"step", &ServerMetrics::step},
    {"updates", &ServerMetrics::updates},
    {"dropped", &ServerMetrics::dropped},
    {"pushedBytes", &ServerMetrics::pushed_bytes},
    {"pulledBytes", &ServerMetrics::pulled_bytes},
    {"staleness", &ServerMetrics::staleness},
});

}  // namespace

std::string EncodeServerMetrics(const ServerMetrics& metrics) {
  return EncodeFields<ServerMetrics>(metrics, kServerFields);
}

absl::StatusOr<ServerMetrics> DecodeServerMetrics(const std::string& line) {
  return DecodeFields<ServerMetrics>(line, kServerFields);
}

}  // namespace lockstep::train
