#include "trainer/train/bench/bench.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "api/v1/enum_names.h"
#include "base/check.h"
#include "base/status.h"
#include "base/text_table.h"
#include "trainer/backend/backend.h"
#include "trainer/observe/phase_clock.h"
#include "trainer/train/bench/solo_training.h"
#include "trainer/train/replica.h"
#include "trainer/train/session.h"

namespace lockstep::train {
namespace {

api::TrainingSpec BenchTraining(const BenchOptions& options) {
  // A few batches of samples, so that large ones fit in memory.
  const std::int64_t most = api::SyntheticSpec{}.train_examples;
  api::TrainingSpec training = SyntheticTraining(
      options.model, options.batch,
      {.train_examples = std::max(std::min(4 * options.batch, most), options.batch),
       .shape = options.shape,
       .classes = options.classes});
  training.steps = options.warmup + options.steps;
  const api::Precision* precision = api::FindByName<api::Precision>(options.precision);
  LOCKSTEP_CHECK(precision != nullptr, "bench: unknown precision '{}'", options.precision);
  training.precision = *precision;
  const auto* checkpointing =
      api::FindByName<api::ActivationCheckpointing>(options.activation_checkpointing);
  LOCKSTEP_CHECK(checkpointing != nullptr, "bench: unknown activation checkpointing '{}'",
                 options.activation_checkpointing);
  training.activation_checkpointing = *checkpointing;
  if (!options.data.empty()) training.dataset = {.path = options.data};
  return training;
}

nlohmann::ordered_json Ops(const Model& model) {
  auto ops = nlohmann::ordered_json::array();
  const auto microseconds = [](double seconds) -> nlohmann::ordered_json {
    if (std::isinf(seconds)) return nullptr;  // the pass is not needed
    return std::round(seconds * 1e7) / 10;
  };
  for (const OpReport& report : model.Report()) {
    auto choices = nlohmann::ordered_json::array();
    for (const OpChoice& choice : report.choices) {
      choices.push_back({{"pass", choice.pass},
                         {"implementation", choice.implementation},
                         {"layout", choice.layout}});
    }
    ops.push_back({{"name", report.name},
                   {"x", report.x.ToString()},
                   {"y", report.y.ToString()},
                   {"choices", std::move(choices)},
                   {"forward_us", microseconds(report.forward_seconds)},
                   {"backward_us", microseconds(report.backward_seconds)}});
  }
  return ops;
}

// The most memory that this process has had.
std::int64_t PeakBytes() {
  rusage usage{};
  LOCKSTEP_CHECK(getrusage(RUSAGE_SELF, &usage) == 0, "bench: getrusage: {}", std::strerror(errno));
  return std::int64_t{usage.ru_maxrss} * 1024;
}

// What the timed steps gave.
struct Timed {
  double seconds = 0;
  PhaseTimes before, after;
  StepTotals last;
  bool is_recorded = false;
};

nlohmann::ordered_json Report(const BenchOptions& options, int threads, const Timed& timed) {
  const auto steps = static_cast<double>(options.steps);
  const auto spent = [&timed](Phase phase) {
    return timed.after.Seconds(phase) - timed.before.Seconds(phase);
  };
  return {{"model", options.model},
          {"data", options.data.empty() ? "synthetic" : options.data},
          {"backend", options.backend},
          {"precision", options.precision},
          {"activation_checkpointing", options.activation_checkpointing},
          {"batch", options.batch},
          {"threads", threads},
          {"steps", options.steps},
          {"recorded", timed.is_recorded},
          {"images_per_second", steps * static_cast<double>(options.batch) / timed.seconds},
          {"steps_per_second", steps / timed.seconds},
          {"loss", timed.last.loss / timed.last.examples},
          {"peak_bytes", PeakBytes()},
          {"seconds",
           {{"total", timed.seconds},
            {"input", spent(Phase::kInput)},
            {"forward", spent(Phase::kForward)},
            {"backward", spent(Phase::kBackward)},
            {"communication", spent(Phase::kCommunication)},
            {"optimizer", spent(Phase::kOptimizer)}}}};
}

}  // namespace

absl::StatusOr<nlohmann::ordered_json> RunBench(const BenchOptions& options) {
  const int threads = options.threads > 0 ? options.threads : ReplicaThreads(1);
  // --explain times each op, which a recorded step does not allow
  const bool records_steps = options.records_steps && !options.explain;
  LOCKSTEP_ASSIGN_OR_RETURN(auto session, Session::Create({.training = BenchTraining(options),
                                                           .threads = threads,
                                                           .backend = options.backend,
                                                           .device = options.device,
                                                           .records_steps = records_steps}));
  LOCKSTEP_ASSIGN_OR_RETURN(const auto training, SoloTraining::Create(std::move(session)));
  Model& model = training->session().model();

  if (options.warmup > 0) LOCKSTEP_RETURN_IF_ERROR(training->Run(options.warmup).status());
  Timed timed{.before = training->ReadPhases()};
  if (options.explain) model.Watch();
  const auto start = std::chrono::steady_clock::now();
  LOCKSTEP_ASSIGN_OR_RETURN(timed.last, training->Run(options.steps));
  timed.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  timed.after = training->ReadPhases();
  timed.is_recorded = training->session().recorder().has_recorded();
  nlohmann::ordered_json report = Report(options, threads, timed);
  if (options.explain) report["ops"] = Ops(model);
  return report;
}

std::string ExplainTable(const nlohmann::ordered_json& report) {
  std::vector<std::vector<std::string>> rows = {
      {"op", "shape", "pass", "implementation", "layout", "µs"}};
  for (const auto& op : report.at("ops")) {
    std::string name = op.at("name"), shape = op.at("x").get<std::string>() + " > ";
    shape += op.at("y").get<std::string>();
    // The products of one pass are timed together; the first line shows the time.
    std::string forward, backward;
    if (op.at("forward_us").is_number())
      forward = fmt::format("{:.1f}", op.at("forward_us").get<double>());
    if (op.at("backward_us").is_number())
      backward = fmt::format("{:.1f}", op.at("backward_us").get<double>());
    auto choices = op.at("choices");
    if (choices.empty()) {  // the backend does not report choices
      for (const char* pass : {"forward", "backward"}) {
        choices.push_back({{"pass", pass}, {"implementation", ""}, {"layout", ""}});
      }
    }
    for (const auto& choice : choices) {
      const std::string pass = choice.at("pass");
      rows.push_back({std::exchange(name, ""), std::exchange(shape, ""), pass,
                      choice.at("implementation"), choice.at("layout"),
                      std::exchange(pass == "forward" ? forward : backward, "")});
    }
  }
  return TextTable(rows, {.gap = 1, .numbers = 1});
}

}  // namespace lockstep::train
