// `lockstep-trainer bench` times the training step of one process.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace lockstep::train {

struct BenchOptions {
  std::string model = "core-cnn";
  std::int64_t batch = 128;
  int threads = 0;  // 0: ReplicaThreads(1)
  std::int64_t steps = 300, warmup = 30;
  std::string data;                               // IDX folder; empty: synthetic, of these shapes
  std::vector<std::int64_t> shape = {1, 28, 28};  // C,H,W
  int classes = 10;
  std::string backend = "cpu";
  int device = 0;                                 // see BackendOptions
  std::string precision = "Float32";              // as in spec.training.precision
  std::string activation_checkpointing = "None";  // likewise
  bool explain = false;                           // adds "ops" to the report; records no steps
  bool records_steps = true;                      // see SessionOptions
};

// Runs the warm-up steps, then the timed ones, and returns this report:
// {"model":…, "data":"mnist folder"|"synthetic", "backend":…, "precision":…,
//  "activation_checkpointing":…, "batch":…, "threads":…, "steps":…, "recorded":…,
//  "images_per_second":…, "steps_per_second":…, "loss":…,
//  "seconds":{"total":…, "input":…, "forward":…, …},
//  "ops":[{"name":…, "x":…, "y":…, "choices":[{"pass":…, "implementation":…, "layout":…}, …],
//          "forward_us":…, "backward_us":…}, …]}
// "recorded": whether the device replayed steps that it had recorded. An op's times are its
// shortest over the timed steps; null if it does not run that pass. Errors: those of
// Session::Create and SoloTraining.
absl::StatusOr<nlohmann::ordered_json> RunBench(const BenchOptions& options);

// Formats the report's "ops" as a table: one line per choice, each ending in a newline.
std::string ExplainTable(const nlohmann::ordered_json& report);

}  // namespace lockstep::train
