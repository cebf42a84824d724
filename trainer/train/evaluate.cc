#include "trainer/train/evaluate.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <memory>
#include <utility>

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
  double loss = 0, correct = 0, examples = 0;
};

void RunParts(Session& session, const Batch& batch) {
  for (int part = 0; part < session.parts(); ++part) {
    session.Load(batch, part);
    session.model().Forward(Mode::kEvaluation);
    session.evaluation_loss().Run();
  }
}

// `batch`: null in later stages of a model. `groups`: null without stages.
absl::Status AddBatch(Session& session, StageGroups* groups, const Batch* batch, Sums& sums) {
  session.BeginEvaluation();
  if (groups == nullptr) {
    RunParts(session, *batch);
  } else {
    LOCKSTEP_RETURN_IF_ERROR(EvaluateStage(session, *groups, batch));
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

std::array<float, 5> ToFloats(const Sums& sums) {
  const CountLimbs correct = SplitCount(sums.correct), examples = SplitCount(sums.examples);
  return {static_cast<float>(sums.loss), correct.high, correct.low, examples.high, examples.low};
}

Evaluation ToEvaluation(const std::array<float, 5>& sums, std::int64_t expected) {
  const double total = JoinCount({.high = sums[3], .low = sums[4]});
  LOCKSTEP_CHECK(total == static_cast<double>(expected),
                 "evaluation counted {} test samples, expected {}", total, expected);
  return {.loss = static_cast<double>(sums[0]) / total,
          .accuracy = JoinCount({.high = sums[1], .low = sums[2]}) / total,
          .examples = expected};
}

}  // namespace

std::variant<Evaluation, LoopOutcome> Evaluate(
    Session& session, Strategy& strategy, int rank,
    const std::function<std::optional<LoopOutcome>()>& batch_done) {
  const StepPlan plan = EvaluationPlan(session);
  const auto loader = MakeLoader(session, plan, rank);
  Sums own;
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
  std::array<float, 5> sums = ToFloats(own);
  if (absl::Status summed = strategy.Sum(sums); !summed.ok()) {
    return EndOfStrategy(std::move(summed));
  }
  return ToEvaluation(sums, plan.examples);
}

std::variant<std::optional<Evaluation>, LoopOutcome> EvaluateAlone(
    Session& session, const std::function<bool()>& stop_requested,
    const std::function<void()>& batch_done) {
  const StepPlan plan{.examples = session.test_data()->size(),
                      .global_batch = session.plan().LocalBatch()};
  const auto loader = MakeLoader(session, plan, /*rank=*/0);
  Sums sums;
  for (std::int64_t step = 0; step < plan.StepsPerEpoch(); ++step) {
    const absl::StatusOr<const Batch*> batch = loader->Next();
    if (!batch.ok()) return FailedFor(batch.status());
    absl::Status added = AddBatch(session, /*groups=*/nullptr, *batch, sums);
    if (!added.ok()) return FailedFor(std::move(added));
    batch_done();
    if (stop_requested()) return std::nullopt;
  }
  return ToEvaluation(ToFloats(sums), plan.examples);
}

std::optional<LoopOutcome> DivergedFor(std::int64_t step, double loss) {
  if (std::isfinite(loss)) return std::nullopt;
  return LoopOutcome{LoopEnd::kDiverged, absl::OutOfRangeError(fmt::format(
                                             "step {}: found a test loss of {}, expected a finite "
                                             "number; lower spec.training.optimizer.learningRate",
                                             step, loss))};
}

}  // namespace lockstep::train
