#include "trainer/train/bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "api/v1/enum_names.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/status.h"
#include "trainer/backend/backend.h"
#include "trainer/observe/phase_clock.h"
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
  const api::Precision* precision = api::FindByName<api::Precision>(options.precision);
  LOCKSTEP_CHECK(precision != nullptr, "bench: unknown precision '{}'", options.precision);
  training.precision = *precision;
  training.dataset.path = options.data;
  if (options.data.empty()) {
    training.dataset.format = api::DatasetFormat::kSynthetic;
    // A few batches of samples, so that large ones fit in memory.
    const auto most = static_cast<std::int64_t>(api::SyntheticSpec{}.train_examples);
    training.dataset.synthetic = api::SyntheticSpec{
        .train_examples = std::max(std::min(4 * options.batch, most), options.batch),
        .shape = options.shape,
        .classes = options.classes};
  }
  return training;
}

// A group of one needs no store.
class NoStore final : public KeyValueStore {
 public:
  absl::Status Set(const std::string&, const std::string&) override { return absl::OkStatus(); }
  absl::StatusOr<std::vector<std::string>> GetAll(const std::vector<std::string>& keys,
                                                  const GetOptions&) override {
    return absl::NotFoundError("a bench has no peers, but asked for '" + keys.front() + "'");
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
                              const StepTotals& last, const PhaseTimes& before,
                              const PhaseTimes& after) {
  const auto steps = static_cast<double>(options.steps);
  const auto spent = [&](Phase phase) { return after.Seconds(phase) - before.Seconds(phase); };
  return {{"model", options.model},
          {"data", options.data.empty() ? "synthetic" : options.data},
          {"backend", options.backend},
          {"precision", options.precision},
          {"batch", options.batch},
          {"threads", threads},
          {"steps", options.steps},
          {"images_per_second", steps * static_cast<double>(options.batch) / seconds},
          {"steps_per_second", steps / seconds},
          {"loss", last.loss / last.examples},
          {"seconds",
           {{"total", seconds},
            {"input", spent(Phase::kInput)},
            {"forward", spent(Phase::kForward)},
            {"backward", spent(Phase::kBackward)},
            {"communication", spent(Phase::kCommunication)},
            {"optimizer", spent(Phase::kOptimizer)}}}};
}

using ExplainRow = std::array<std::string, 6>;

// Counts UTF-8 characters, not bytes.
std::size_t WidthOf(const std::string& text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](unsigned char byte) { return (byte & 0xC0) != 0x80; }));
}

// Pads each column to its widest cell, with one space between columns and no trailing spaces. The
// last column holds numbers and is right-aligned.
std::string AsTable(const std::vector<ExplainRow>& rows) {
  std::array<std::size_t, std::tuple_size_v<ExplainRow>> widths{};
  for (const ExplainRow& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], WidthOf(row[i]));
  }
  std::string table;
  for (const ExplainRow& row : rows) {
    std::string line;
    for (std::size_t i = 0; i + 1 < row.size(); ++i) {
      line += row[i] + std::string(widths[i] - WidthOf(row[i]) + 1, ' ');
    }
    line += std::string(widths.back() - WidthOf(row.back()), ' ') + row.back();
    table += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return table;
}

}  // namespace

absl::StatusOr<nlohmann::ordered_json> RunBench(const BenchOptions& options) {
  const int threads = options.threads > 0 ? options.threads : ReplicaThreads(1);
  LOCKSTEP_ASSIGN_OR_RETURN(const auto session, Session::Create({.training = BenchTraining(options),
                                                                 .threads = threads,
                                                                 .backend = options.backend}));
  session->model().InitializeParameters();
  const auto strategy = MakeCollectiveStrategy(
      session->buffer(), {.layer_starts = session->LayerStarts()}, session->device_sums());
  NoStore store;
  LOCKSTEP_RETURN_IF_ERROR(
      strategy->Connect({.generation = 1, .rank = 0, .members = std::vector<Member>(1)}, store));
  const auto loader = Loader::Create(session->train_data(), {.plan = session->plan()});

  const SystemClock clock;
  PhaseClock phases(clock);
  PhaseTimes before;
  StepTotals last;
  auto start = std::chrono::steady_clock::now();
  // As in training, a device with a queue gets the next step while it works on one.
  const std::int64_t ahead = session->backend().IsHost() ? 1 : Session::kMostStepsBegun;
  std::int64_t begun = 0;
  for (std::int64_t step = 0; step < session->total_steps(); ++step) {
    if (step == options.warmup) {
      before = phases.Read();
      if (options.explain) session->model().Watch();
      start = std::chrono::steady_clock::now();
    }
    // The warm-up's steps end before the timed ones begin.
    const std::int64_t end = step < options.warmup ? options.warmup : session->total_steps();
    for (; begun < std::min(step + ahead, end); ++begun) {
      if (const auto ended = BeginStep(*session, *strategy, *loader, {.step = begun}, phases))
        return ended->reason;
    }
    const auto done = EndStep(*session, *strategy, step, phases);
    if (const auto* ended = std::get_if<LoopOutcome>(&done)) return ended->reason;
    last = std::get<StepTotals>(done);
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  nlohmann::ordered_json report =
      Report(options, threads, seconds.count(), last, before, phases.Read());
  if (options.explain) report["ops"] = Ops(session->model());
  return report;
}

std::string ExplainTable(const nlohmann::ordered_json& report) {
  std::vector<ExplainRow> rows = {{"op", "shape", "pass", "implementation", "layout", "µs"}};
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
  return AsTable(rows);
}

}  // namespace lockstep::train
