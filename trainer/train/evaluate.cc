#include "trainer/train/evaluate.h"

#include <fmt/format.h>

#include <cmath>

#include "api/base/status.h"
#include "trainer/data/loader.h"

namespace lockstep::train {
namespace {

// The test set in its own order; the training plan's batch, so that the same model serves.
StepPlan EvaluationPlan(const Session& session) {
  StepPlan plan = session.plan();
  plan.examples = session.test_data()->size();
  return plan;
}

}  // namespace

absl::StatusOr<Evaluation> Evaluate(Session& session, Strategy& strategy, int rank) {
  const StepPlan plan = EvaluationPlan(session);
  const auto loader = Loader::Create(*session.test_data(),
                                     {.plan = plan, .rank = rank, .shuffle = false, .prefetch = 0});
  double loss = 0, correct = 0, examples = 0;
  for (std::int64_t step = 0; step < plan.StepsPerEpoch(); ++step) {
    LOCKSTEP_ASSIGN_OR_RETURN(const Batch* batch, loader->Next());
    session.Load(*batch);
    session.model().Forward({.training = false, .valid = batch->valid});
    const LossOp::Result result = session.evaluation_loss().Run(0.0f);
    loss += result.loss;
    correct += result.correct;
    examples += static_cast<double>(batch->valid);
  }
  // Counts travel in two halves: floats hold integers only up to 2^24.
  constexpr double kHalf = 4096;
  float sums[] = {static_cast<float>(loss), static_cast<float>(std::floor(correct / kHalf)),
                  static_cast<float>(std::fmod(correct, kHalf)),
                  static_cast<float>(std::floor(examples / kHalf)),
                  static_cast<float>(std::fmod(examples, kHalf))};
  LOCKSTEP_RETURN_IF_ERROR(strategy.Sum(sums));
  const double total = static_cast<double>(sums[3]) * kHalf + static_cast<double>(sums[4]);
  if (total != static_cast<double>(plan.examples)) {
    return absl::InternalError(
        fmt::format("evaluation counted {} test samples, expected {}", total, plan.examples));
  }
  return Evaluation{
      .loss = static_cast<double>(sums[0]) / total,
      .accuracy = (static_cast<double>(sums[1]) * kHalf + static_cast<double>(sums[2])) / total,
      .examples = plan.examples};
}

}  // namespace lockstep::train
