#include "trainer/train/evaluate.h"

#include <fmt/format.h>

#include <cmath>
#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/status.h"
#include "trainer/data/loader.h"
#include "trainer/train/stage_step.h"

namespace lockstep::train {
namespace {

// Uses the training plan's batch size, so that the same compiled model can run it.
StepPlan EvaluationPlan(const Session& session) {
  StepPlan plan = session.plan();
  plan.examples = session.test_data()->size();
  return plan;
}

struct Sums {
  explicit Sums(const Session& session) : metrics(session.training().evaluation) {}
  double loss = 0, correct = 0, examples = 0;
  EvaluationMetrics metrics;
};

void RunParts(Session& session, const Batch& batch, EvaluationMetrics& metrics) {
  for (int part = 0; part < session.parts(); ++part) {
    session.Load(batch, part);
    session.model().Forward(Mode::kEvaluation);
    session.AddEvaluation(metrics);
  }
}

// `batch`: null in later stages of a model. `groups`: null without stages.
absl::Status AddBatch(Session& session, StageGroups* groups, const Batch* batch, Sums& sums) {
  session.BeginEvaluation();
  if (groups == nullptr) {
    RunParts(session, *batch, sums.metrics);
  } else {
    LOCKSTEP_RETURN_IF_ERROR(EvaluateStage(session, *groups, batch, sums.metrics));
  }
  const LossTotals totals = session.EndEvaluation();
  sums.loss += totals.loss;
  sums.correct += totals.correct;
  if (batch != nullptr) sums.examples += static_cast<double>(batch->valid);
  return absl::OkStatus();
}

// Null in a pipeline's later stages.
std::unique_ptr<Loader> MakeLoader(const Session& session, const StepPlan& plan, int rank) {
  if (!session.stage().is_first()) return nullptr;
  return Loader::Create(*session.test_data(), {.plan = plan,
                                               .rank = session.PipelineOf(rank),
                                               .shuffle = false,
                                               .prefetch = session.training().dataset.prefetch,
                                               .threads = session.reading_threads(),
                                               .end_step = plan.StepsPerEpoch()});
}

constexpr std::size_t kFloatsOfLoss = 5;  // what is before those of the metrics

std::vector<float> ToFloats(const Sums& sums) {
  const CountLimbs correct = SplitCount(sums.correct), examples = SplitCount(sums.examples);
  std::vector<float> floats = {static_cast<float>(sums.loss), correct.high, correct.low,
                               examples.high, examples.low};
  const std::vector<float> of_metrics = sums.metrics.Totals();
  floats.insert(floats.end(), of_metrics.begin(), of_metrics.end());
  return floats;
}

// `floats`: the sums of all ranks'. Takes the totals of the metrics into `metrics`.
Evaluation ToEvaluation(std::span<const float> floats, EvaluationMetrics& metrics,
                        std::int64_t expected) {
  const double total = JoinCount({.high = floats[3], .low = floats[4]});
  LOCKSTEP_CHECK(total == static_cast<double>(expected),
                 "evaluation counted {} test samples, expected {}", total, expected);
  metrics.SetTotals(floats.subspan(kFloatsOfLoss));
  return {.loss = static_cast<double>(floats[0]) / total,
          .accuracy = JoinCount({.high = floats[1], .low = floats[2]}) / total,
          .examples = expected,
          .metrics = metrics.Results()};
}

}  // namespace

std::variant<Evaluation, LoopOutcome> Evaluate(
    Session& session, Strategy& strategy, int rank,
    const std::function<std::optional<LoopOutcome>()>& batch_done) {
  const StepPlan plan = EvaluationPlan(session);
  const auto loader = MakeLoader(session, plan, rank);
  Sums own(session);
  for (std::int64_t step = 0; step < plan.StepsPerEpoch(); ++step) {
    absl::StatusOr<const Batch*> batch = nullptr;
    if (loader != nullptr) batch = loader->Next();
    if (!batch.ok()) return FailedFor(batch.status());
    absl::Status added = AddBatch(session, strategy.stages(), *batch, own);
    if (!added.ok()) {
      strategy.StepEnded(added);
      return EndOfStrategy(std::move(added));
    }
    if (std::optional<LoopOutcome> ended = batch_done()) return *std::move(ended);
  }
  std::vector<float> sums = ToFloats(own);
  if (absl::Status summed = strategy.Sum(sums); !summed.ok()) {
    return EndOfStrategy(std::move(summed));
  }
  return ToEvaluation(sums, own.metrics, plan.examples);
}

std::variant<std::optional<Evaluation>, LoopOutcome> EvaluateAlone(
    Session& session, const std::function<bool()>& stop_requested,
    const std::function<void()>& batch_done) {
  const StepPlan plan{.examples = session.test_data()->size(),
                      .global_batch = session.plan().LocalBatch()};
  const auto loader = MakeLoader(session, plan, /*rank=*/0);
  Sums sums(session);
  for (std::int64_t step = 0; step < plan.StepsPerEpoch(); ++step) {
    const absl::StatusOr<const Batch*> batch = loader->Next();
    if (!batch.ok()) return FailedFor(batch.status());
    absl::Status added = AddBatch(session, /*groups=*/nullptr, *batch, sums);
    if (!added.ok()) return FailedFor(std::move(added));
    batch_done();
    if (stop_requested()) return std::nullopt;
  }
  return ToEvaluation(ToFloats(sums), sums.metrics, plan.examples);
}

std::optional<LoopOutcome> DivergedFor(std::int64_t step, double loss) {
  if (std::isfinite(loss)) return std::nullopt;
  return LoopOutcome{LoopEnd::kDiverged, absl::OutOfRangeError(fmt::format(
                                             "step {}: found a test loss of {}, expected a finite "
                                             "number; lower spec.training.optimizer.learningRate",
                                             step, loss))};
}

}  // namespace lockstep::train
