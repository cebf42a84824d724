// Steps that the simulated GPU has recorded, against steps whose ops are queued one by one.
#include "trainer/backend/step_recorder.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "api/v1/enum_names.h"
#include "tests/support/cuda_sim/use_simulator.h"
#include "trainer/check/device_array.h"
#include "trainer/check/training_state.h"
#include "trainer/train/bench/solo_training.h"

namespace lockstep::train {
namespace {

constexpr int kSteps = 20;

// Takes small images, because the simulated device takes seconds for MNIST's.
api::TrainingSpec CoreCnn() {
  return SyntheticTraining("core-cnn", 2,
                           {.train_examples = 2 * kSteps, .test_examples = 8, .shape = {1, 8, 8}});
}

// With everything that changes from step to step: masks, running statistics, a short last batch,
// an optimizer that counts steps, and a learning rate of its own for each.
api::TrainingSpec EveryKindOfStep() {
  api::TrainingSpec training = SyntheticTraining(
      "", 16, {.train_examples = 70, .test_examples = 33, .shape = {1, 8, 8}, .classes = 3});
  training.model.layers = api::Json::array({{{"type", "Conv2D"}, {"filters", 4}, {"kernelSize", 3}},
                                            {{"type", "BatchNormalization"}},
                                            {{"type", "ReLU"}},
                                            {{"type", "MaxPooling2D"}},
                                            {{"type", "Flatten"}},
                                            {{"type", "Dropout"}, {"rate", 0.25}},
                                            {{"type", "Dense"}, {"units", 3}}});
  training.optimizer.global_clip_norm = 1;
  training.learning_rate_schedule.type = api::ScheduleType::kCosine;
  return training;
}

struct Trained {
  std::vector<float> losses, norms;
  std::vector<float> state;  // TrainingState
  bool has_recorded = false;

  bool operator==(const Trained&) const = default;
};

std::unique_ptr<SoloTraining> Begin(api::TrainingSpec training, bool records) {
  training.steps = kSteps;
  auto session =
      Session::Create({.training = training, .backend = "cuda", .records_steps = records});
  EXPECT_TRUE(session.ok()) << session.status();
  return *SoloTraining::Create(*std::move(session));
}

void Step(SoloTraining& training, Trained& trained) {
  const absl::StatusOr<StepTotals> totals = training.Step();
  ASSERT_TRUE(totals.ok()) << totals.status();
  trained.losses.push_back(static_cast<float>(totals->loss));
  trained.norms.push_back(static_cast<float>(totals->gradient_norm));
}

void End(SoloTraining& training, Trained& trained) {
  Session& session = training.session();
  trained.state = TrainingState(session);
  trained.has_recorded = session.recorder().has_recorded();
}

Trained Train(const api::TrainingSpec& spec, bool records) {
  Trained trained;
  const auto training = Begin(spec, records);
  for (int step = 0; step < kSteps; ++step) Step(*training, trained);
  End(*training, trained);
  return trained;
}

void ExpectSameBits(const api::TrainingSpec& spec) {
  const Trained eager = Train(spec, /*records=*/false), recorded = Train(spec, /*records=*/true);
  EXPECT_FALSE(eager.has_recorded);
  EXPECT_TRUE(recorded.has_recorded);
  EXPECT_EQ(recorded.losses, eager.losses);
  EXPECT_EQ(recorded.norms, eager.norms);
  EXPECT_TRUE(recorded.state == eager.state);
  EXPECT_NE(recorded.losses.front(), recorded.losses.back());
}

class RecordedStepTest : public ::testing::TestWithParam<api::Precision> {};

TEST_P(RecordedStepTest, GivesTheBitsOfOneWhoseOpsAreQueued) {
  api::TrainingSpec training = EveryKindOfStep();
  training.precision = GetParam();
  ExpectSameBits(training);
}

TEST_P(RecordedStepTest, SoItDoesForCoreCnn) {
  api::TrainingSpec training = CoreCnn();
  training.precision = GetParam();
  ExpectSameBits(training);
}

// A batch of 16 rows has parts of 6 and a last one of 4.
TEST_P(RecordedStepTest, SoItDoesForABatchInParts) {
  api::TrainingSpec training = EveryKindOfStep();
  training.precision = GetParam();
  training.gradient_accumulation = 3;
  ExpectSameBits(training);
}

TEST_P(RecordedStepTest, SoItDoesWhereActivationsAreComputedAgain) {
  api::TrainingSpec training = EveryKindOfStep();
  training.precision = GetParam();
  const Trained kept = Train(training, /*records=*/true);
  training.activation_checkpointing = api::ActivationCheckpointing::kFull;
  ExpectSameBits(training);
  EXPECT_TRUE(Train(training, /*records=*/true) == kept);
}

INSTANTIATE_TEST_SUITE_P(Precisions, RecordedStepTest,
                         ::testing::Values(api::Precision::kFloat32, api::Precision::kBFloat16,
                                           api::Precision::kFloat16),
                         [](const auto& test) { return std::string(api::NameOf(test.param)); });

// What saves and evaluations do between steps moves memory of the back end's, but none that a
// recorded step uses.
TEST(StepRecorderTest, OtherWorkBetweenStepsChangesNone) {
  const api::TrainingSpec spec = EveryKindOfStep();
  Trained disturbed;
  const auto training = Begin(spec, /*records=*/true);
  Session& session = training->session();
  Backend& backend = session.backend();
  for (int step = 0; step < kSteps; ++step) {
    Step(*training, disturbed);
    EXPECT_TRUE(backend.AllFinite(session.model().parameters().data(),
                                  std::ssize(session.model().parameters())));
    // Larger with each step.
    const TensorDesc desc{.shape = {10'000 * (step + 1)}, .dtype = DType::kBFloat16};
    const DeviceArray<std::uint16_t> halves(
        backend, std::vector<std::uint16_t>(static_cast<std::size_t>(desc.elements())));
    std::vector<float> floats(static_cast<std::size_t>(desc.elements()));
    backend.ToDense(desc, halves.data(), floats.data());
  }
  End(*training, disturbed);
  EXPECT_TRUE(disturbed.has_recorded);
  EXPECT_TRUE(disturbed == Train(spec, /*records=*/true));
}

// A model that is timed waits for the device after each op, which cannot be recorded.
TEST(StepRecorderTest, WhatTheDeviceCannotRecordIsQueuedOpByOp) {
  const api::TrainingSpec spec = EveryKindOfStep();
  Trained watched;
  const auto training = Begin(spec, /*records=*/true);
  training->session().model().Watch();
  ::testing::internal::CaptureStderr();
  for (int step = 0; step < kSteps; ++step) Step(*training, watched);
  const std::string log = ::testing::internal::GetCapturedStderr();
  End(*training, watched);
  EXPECT_TRUE(watched == Train(spec, /*records=*/false));
  const std::string warning = "cannot be recorded";
  ASSERT_NE(log.find(warning), std::string::npos) << log;
  EXPECT_EQ(log.find(warning), log.rfind(warning)) << "more than once: " << log;
}

}  // namespace
}  // namespace lockstep::train
