#include "trainer/train/evaluate.h"

#include <gtest/gtest.h>

#include <optional>
#include <variant>

#include "tests/trainer/train/rank.h"

namespace lockstep::train {
namespace {

// The evaluation of the initial parameters by one rank.
Evaluation EvaluateInParts(int parts, double label_smoothing = 0) {
  api::TrainingSpec training = SmallTraining();
  training.gradient_accumulation = parts;
  training.label_smoothing = label_smoothing;
  LocalRendezvousHub hub(1);
  Rank rank(training, 1, hub, 0);
  EXPECT_EQ(rank.session->parts(), parts);
  const auto membership = rank.rendezvous.Join(0, "");
  EXPECT_TRUE(rank.strategy->Connect(*membership, rank.rendezvous.store()).ok());
  int batches = 0;
  const auto evaluated =
      Evaluate(*rank.session, *rank.strategy, rank.rendezvous, 0, [&] { ++batches; });
  EXPECT_EQ(batches, 3) << "of 16, 16 and 1 samples";
  return std::get<std::optional<Evaluation>>(evaluated).value();
}

TEST(EvaluateTest, PartsGiveTheEvaluationOfTheWhole) {
  const Evaluation whole = EvaluateInParts(1), parts = EvaluateInParts(3);
  EXPECT_EQ(parts.examples, whole.examples);
  EXPECT_EQ(parts.accuracy, whole.accuracy);
  EXPECT_GT(whole.accuracy, 0);
  EXPECT_NEAR(parts.loss, whole.loss, 1e-6 * whole.loss);
}

TEST(EvaluateTest, LabelsAreNotSmoothed) {
  EXPECT_EQ(EvaluateInParts(1, 0.5).loss, EvaluateInParts(1, 0).loss);
}

}  // namespace
}  // namespace lockstep::train
