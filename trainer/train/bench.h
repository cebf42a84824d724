// `lockstep-trainer bench`: the training step of one process, timed.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/statusor.h"

namespace lockstep::train {

struct BenchOptions {
  std::string model = "core-cnn";
  std::int64_t batch = 128;
  int threads = 0;  // 0: as a replica would choose
  std::int64_t steps = 300, warmup = 30;
  std::string data;  // IDX folder; empty: synthetic
  std::string backend = "cpu";
  bool explain = false;  // adds "ops" to the report
};

// {"model":…, "data":"mnist folder"|"synthetic", "batch":…, "threads":…, "steps":…,
//  "images_per_second":…, "steps_per_second":…, "loss":…, "seconds":{"input":…, "forward":…, …},
//  "ops":[{"name":…, "x":…, "y":…, "choices":[{"pass":…, "implementation":…, "layout":…}, …],
//          "forward_us":…, "backward_us":…}, …]}      the shortest of the timed steps
absl::StatusOr<nlohmann::ordered_json> RunBench(const BenchOptions& options);

// The "ops" of a report as a table, a line for each choice and a newline after each.
std::string ExplainTable(const nlohmann::ordered_json& report);

}  // namespace lockstep::train
