// Mix-up in a training: what the loss reads, on each device and with any number of ranks.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <thread>
#include <vector>

#include "tests/trainer/backend/backends_under_test.h"
#include "tests/trainer/train/rank.h"

namespace lockstep::train {
namespace {

// An odd number of samples; three ranks cut pairs of batches of 16.
api::TrainingSpec MixingTraining() {
  api::TrainingSpec training = SmallTraining();
  training.dataset.synthetic->train_examples = 69;
  training.dataset.augment = api::AugmentSpec{.random_flip = api::RandomFlip::kHorizontal,
                                              .mix_up = api::MixUpSpec{.alpha = 0.8}};
  training.epochs = 2;
  return training;
}

api::TrainingSpec BinaryTraining() {
  api::TrainingSpec training = MixingTraining();
  training.dataset.synthetic->classes = 2;
  api::Json layers = *training.model.layers;
  layers.back()["units"] = 1;
  training.model.layers = layers;
  training.loss.type = api::LossType::kBinaryCrossentropy;
  return training;
}

struct MixedRun {
  std::vector<float> parameters;
  RunState state;
};

MixedRun TrainMixed(const api::TrainingSpec& training, int world, const std::string& backend,
                    int stages = 1) {
  LocalRendezvousHub hub(world);
  std::vector<MixedRun> runs(static_cast<std::size_t>(world));
  std::vector<std::thread> threads;
  for (int index = 0; index < world; ++index) {
    threads.emplace_back([&, index] {
      Rank rank(training, world, hub, index, nullptr, backend, nullptr, {.stages = stages});
      EXPECT_TRUE(rank.Train());
      runs[static_cast<std::size_t>(index)] = {rank.Parameters(), rank.loop.state};
    });
  }
  for (std::thread& thread : threads) thread.join();
  return runs[0];
}

void ExpectSameTraining(const MixedRun& found, const MixedRun& expected) {
  ASSERT_EQ(found.parameters.size(), expected.parameters.size());
  for (std::size_t i = 0; i < found.parameters.size(); ++i) {
    ASSERT_NEAR(found.parameters[i], expected.parameters[i], 1e-4) << "parameter " << i;
  }
  EXPECT_NEAR(found.state.sums.loss, expected.state.sums.loss, 1e-4 * expected.state.sums.loss);
  EXPECT_EQ(found.state.sums.correct, expected.state.sums.correct);
  EXPECT_EQ(found.state.ledger.lost_total(), 0);
}

class MixUpTrainTest : public ::testing::TestWithParam<std::string> {};

// The loss of two classes is that of each, weighted with its share.
TEST_P(MixUpTrainTest, TheLossIsTheMeanOfBothClassesLosses) {
  api::TrainingSpec training = MixingTraining();
  api::Json layers = *training.model.layers;
  layers.erase(3);  // dropout
  training.model.layers = layers;
  const auto session = *Session::Create({.training = training, .backend = GetParam()});
  const auto loader = Loader::Create(session->train_data(), session->TrainingReads(0));
  loader->Seek(4);  // padded: 5 samples of 69
  const Batch& batch = **loader->Next();
  session->BeginStep({}, 1.0f, {});
  session->Load(batch, 0);
  session->model().Forward(Mode::kTraining);
  session->training_loss().Run();
  const LossTotals totals = session->OwnTotals();
  const std::vector<float> logits =
      Download(session->backend(), std::span<const float>(session->model().logits(), 16 * 3));
  double loss = 0, correct = 0, mixed = 0;
  for (std::size_t row = 0; row < 5; ++row) {
    const float* own = &logits[3 * row];
    double sum = 0;
    for (int k = 0; k < 3; ++k) sum += std::exp(double{own[k]});
    const auto of_class = [&](std::int32_t label) { return std::log(sum) - own[label]; };
    const double share = batch.shares[row];
    loss += share * of_class(batch.labels[row]) + (1 - share) * of_class(batch.partners[row]);
    mixed += batch.labels[row] != batch.partners[row];
    const std::int32_t larger = share > 0.5 ? batch.labels[row] : batch.partners[row];
    correct += std::max_element(own, own + 3) - own == larger;
  }
  EXPECT_GT(mixed, 0);
  EXPECT_NEAR(totals.loss, loss, 1e-4 * loss);
  EXPECT_EQ(totals.correct, correct);
}

TEST_P(MixUpTrainTest, RanksThatCutPairsTrainAsOneDoes) {
  for (const api::TrainingSpec& training : {MixingTraining(), BinaryTraining()}) {
    const MixedRun alone = TrainMixed(training, 1, "reference");
    for (const int world : {1, 2, 3}) {
      SCOPED_TRACE(world);
      ExpectSameTraining(TrainMixed(training, world, GetParam()), alone);
    }
  }
}

TEST_P(MixUpTrainTest, ARunThatGoesOnFromACheckpointHasTheSameBits) {
  const api::TrainingSpec training = MixingTraining();
  const MixedRun whole = TrainMixed(training, 1, GetParam());
  const TempDirectory folder;
  for (const std::optional<std::int64_t> steps : {std::optional<std::int64_t>(7), {}}) {
    api::TrainingSpec part = training;
    if (steps) part.epochs.reset();
    part.steps = steps;
    const auto store = OpenStore(folder, steps ? 1 : 2);
    LocalRendezvousHub hub(1);
    Rank rank(part, 1, hub, 0, nullptr, GetParam(), store.get());
    EXPECT_TRUE(rank.Train());
    if (steps) continue;
    EXPECT_EQ(rank.Parameters(), whole.parameters);
    EXPECT_EQ(rank.loop.state, whole.state);
  }
}
INSTANTIATE_TEST_SUITE_P(Devices, MixUpTrainTest,
                         ::testing::Values("reference", "async-reference", "cpu", "cuda"),
                         [](const auto& device) { return TestName(device.param); });

TEST(MixUpRunTest, OnlyTrainingSamplesAreMixed) {
  api::TrainingSpec training = MixingTraining();
  training.optimizer.learning_rate = 1e-30;  // every model is the initial one
  const MixedRun mixed = TrainMixed(training, 1, "reference");
  training.dataset.augment.reset();
  const MixedRun plain = TrainMixed(training, 1, "reference");
  EXPECT_EQ(mixed.state.test_loss, plain.state.test_loss);
  EXPECT_EQ(mixed.state.test_accuracy, plain.state.test_accuracy);
  EXPECT_NE(mixed.state.sums.loss, plain.state.sums.loss);
}

TEST(MixUpRunTest, PartsOfABatchAndStagesReadTheirLabels) {
  api::TrainingSpec training = MixingTraining();
  const MixedRun alone = TrainMixed(training, 1, "reference");
  training.gradient_accumulation = 3;
  ExpectSameTraining(TrainMixed(training, 1, "reference"), alone);
  const MixedRun staged = TrainMixed(training, 2, "reference", /*stages=*/2);
  EXPECT_NEAR(staged.state.sums.loss, alone.state.sums.loss, 1e-4 * alone.state.sums.loss);
  EXPECT_EQ(staged.state.test_accuracy, alone.state.test_accuracy);
}

}  // namespace
}  // namespace lockstep::train
