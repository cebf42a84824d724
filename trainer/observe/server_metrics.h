// The metrics of a parameter server's process.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "trainer/core/count_histogram.h"

namespace lockstep::train {

// Totals since the process started, but for `server`, its index.
struct ServerMetrics {
  std::int64_t server = 0;
  std::int64_t step = 0;  // of training, that the values have reached
  std::int64_t updates = 0, dropped = 0, pushed_bytes = 0, pulled_bytes = 0;
  CountHistogram staleness;
  bool operator==(const ServerMetrics&) const = default;
};

// Converts to and from one line of JSON. InvalidArgument: `line` is malformed, or a field is
// missing, unknown, or below 0.
std::string EncodeServerMetrics(const ServerMetrics& metrics);
absl::StatusOr<ServerMetrics> DecodeServerMetrics(const std::string& line);

}  // namespace lockstep::train
