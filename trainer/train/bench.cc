#include "trainer/train/bench.h"

#include <chrono>
#include <memory>

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
      start = std::chrono::steady_clock::now();
    }
    LOCKSTEP_ASSIGN_OR_RETURN(last, TrainStep(*session, *strategy, *loader, step, false, phases));
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  return Report(options, threads, seconds.count(), last, phases);
}

}  // namespace lockstep::train
