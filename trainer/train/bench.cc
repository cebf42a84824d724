#include "trainer/train/bench.h"

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <memory>
#include <utility>

#include "api/base/status.h"
#include "trainer/strategy/strategy.h"
#include "trainer/train/replica.h"
#include "trainer/train/session.h"
#include "trainer/train/train_step.h"

namespace lockstep::train {
namespace {

api::TrainingSpec BenchTraining(const BenchOptions& options) {
  api::TrainingSpec training;
  training.model.name = options.model;
  training.batch_size.global = options.batch;
  training.steps = options.warmup + options.steps;
  training.evaluation.enabled = false;
  training.dataset.path = options.data;
  if (options.data.empty()) {
    training.dataset.format = api::DatasetFormat::kSynthetic;
    training.dataset.synthetic = api::SyntheticSpec{};
  }
  return training;
}

// A group of one needs no store.
class NoStore final : public KeyValueStore {
 public:
  absl::Status Set(const std::string&, const std::string&) override { return absl::OkStatus(); }
  absl::StatusOr<std::string> Get(const std::string& key, Duration) override {
    return absl::NotFoundError("a bench has no peers, but asked for '" + key + "'");
  }
};

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

nlohmann::ordered_json Report(const BenchOptions& options, int threads, double seconds,
                              const StepTotals& last, const PhaseSeconds& phases) {
  const auto steps = static_cast<double>(options.steps);
  return {{"model", options.model},
          {"data", options.data.empty() ? "synthetic" : options.data},
          {"backend", options.backend},
          {"batch", options.batch},
          {"threads", threads},
          {"steps", options.steps},
          {"images_per_second", steps * static_cast<double>(options.batch) / seconds},
          {"steps_per_second", steps / seconds},
          {"loss", last.loss / last.examples},
          {"seconds",
           {{"total", seconds},
            {"input", phases.input},
            {"forward", phases.forward},
            {"backward", phases.backward},
            {"communication", phases.communication},
            {"optimizer", phases.optimizer}}}};
}

}  // namespace

absl::StatusOr<nlohmann::ordered_json> RunBench(const BenchOptions& options) {
  const int threads = options.threads > 0 ? options.threads : ReplicaThreads(1);
  LOCKSTEP_ASSIGN_OR_RETURN(const auto session, Session::Create({.training = BenchTraining(options),
                                                                 .threads = threads,
                                                                 .backend = options.backend}));
  session->model().InitializeParameters();
  const auto strategy =
      MakeCollectiveStrategy(session->buffer(), {.layer_starts = session->LayerStarts()});
  NoStore store;
  LOCKSTEP_RETURN_IF_ERROR(
      strategy->Connect({.generation = 1, .rank = 0, .members = std::vector<Member>(1)}, store));
  const auto loader = Loader::Create(session->train_data(), {.plan = session->plan()});

  PhaseSeconds phases;
  StepTotals last;
  auto start = std::chrono::steady_clock::now();
  for (std::int64_t step = 0; step < session->total_steps(); ++step) {
    if (step == options.warmup) {
      phases = {};
      if (options.explain) session->model().Watch();
      start = std::chrono::steady_clock::now();
    }
    LOCKSTEP_ASSIGN_OR_RETURN(last, TrainStep(*session, *strategy, *loader, step, false, phases));
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  nlohmann::ordered_json report = Report(options, threads, seconds.count(), last, phases);
  if (options.explain) report["ops"] = Ops(session->model());
  return report;
}

std::string ExplainTable(const nlohmann::ordered_json& report) {
  const auto row = [](const std::string& op, const std::string& shape, const std::string& pass,
                      const std::string& implementation, const std::string& layout,
                      const std::string& time) {
    return fmt::format("{:16} {:34} {:17} {:22} {:30} {:>10}\n", op, shape, pass, implementation,
                       layout, time);
  };
  std::string table = row("op", "shape", "pass", "implementation", "layout", "µs");
  for (const auto& op : report.at("ops")) {
    const std::string shape = op.at("x").get<std::string>() + " > " + op.at("y").get<std::string>();
    std::string name = op.at("name");
    std::string last_pass;
    for (const auto& choice : op.at("choices")) {
      const std::string pass = choice.at("pass");
      // Both products of a backward pass are timed as one; the first line has the time.
      const char* timed = pass == "forward" ? "forward_us" : "backward_us";
      const bool first = std::exchange(last_pass, timed) != timed;
      const std::string time = first && op.at(timed).is_number()
                                   ? fmt::format("{:.1f}", op.at(timed).get<double>())
                                   : "";
      table += row(std::exchange(name, ""), pass == "forward" ? shape : "", pass,
                   choice.at("implementation"), choice.at("layout"), time);
    }
  }
  return table;
}

}  // namespace lockstep::train
