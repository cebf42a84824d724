#include "trainer/train/train_loop.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <future>
#include <latch>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/support/eventually.h"
#include "tests/support/spawn_ranks.h"
#include "tests/support/temp_directory.h"
#include "tests/trainer/backend/backends_under_test.h"
#include "tests/trainer/data/formats/image_files.h"
#include "tests/trainer/train/rank.h"
#include "tests/trainer/train/run_step.h"
#include "trainer/comm/shm/shared_segment.h"
#include "trainer/train/snapshot.h"

namespace lockstep::train {
namespace {

using At = StrategyFaults::At;

struct RankOutcome {
  std::vector<float> parameters;
  RunState state;
  std::vector<NamedTensor> model, best;  // `best`: of the run, as it is kept
};

RankOutcome OutcomeOf(Rank& rank) {
  return {rank.Parameters(), rank.loop.state, CopyModel(*rank.session), rank.loop.best.tensors};
}

RankOutcome TrainAlone(const api::TrainingSpec& training,
                       const std::string& backend = "reference") {
  LocalRendezvousHub hub(1);
  Rank rank(training, 1, hub, 0, nullptr, backend);
  EXPECT_TRUE(rank.Train());
  return OutcomeOf(rank);
}

// Two ranks; rank `victim` loses its process (and memory) as it starts its `kill_at`-th step.
std::vector<RankOutcome> TrainPair(const api::TrainingSpec& training,
                                   const std::string& backend = "reference", int victim = -1,
                                   int kill_at = 0) {
  LocalRendezvousHub hub(2);
  std::vector<RankOutcome> outcomes(2);
  std::vector<std::thread> threads;
  for (int index = 0; index < 2; ++index) {
    threads.emplace_back([&, index] {
      if (index == victim) {
        const auto kill = [&](int step) {
          if (step == kill_at) hub.EndGeneration("killed by the test");
        };
        Rank doomed(training, 2, hub, index, kill, backend);
        EXPECT_FALSE(doomed.Train(/*die_with_generation=*/true));
      }
      Rank rank(training, 2, hub, index, nullptr, backend);
      EXPECT_TRUE(rank.Train());
      outcomes[static_cast<std::size_t>(index)] = OutcomeOf(rank);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return outcomes;
}

TEST(TrainLoopTest, TwoRanksEndWithTheSameBitsAndAnExactLedger) {
  const std::vector<RankOutcome> pair = TrainPair(SmallTraining());
  EXPECT_EQ(pair[0].parameters, pair[1].parameters);
  EXPECT_EQ(pair[0].state, pair[1].state);
  EXPECT_EQ(pair[0].state.step, 20);  // ceil(70 / 16) steps, four epochs
  EXPECT_EQ(pair[0].state.ledger.epochs_checked(), 4);
  EXPECT_EQ(pair[0].state.ledger.lost_total(), 0);
  EXPECT_EQ(pair[0].state.ledger.duplicated_total(), 0);
  EXPECT_EQ(pair[0].state.evaluated_step, 20);
  EXPECT_NE(pair[0].state.evaluated_on, 0u);
}

// Nothing is drawn by rank, so two ranks train on the images that one does.
TEST(TrainLoopTest, TwoRanksAugmentAsOneDoes) {
  api::TrainingSpec training = SmallTraining();
  const RankOutcome plain = TrainAlone(training);
  training.dataset.augment = api::AugmentSpec{.random_flip = api::RandomFlip::kHorizontal,
                                              .random_crop = api::RandomCropSpec{2},
                                              .cutout = api::CutoutSpec{3}};
  const RankOutcome alone = TrainAlone(training);
  const std::vector<RankOutcome> pair = TrainPair(training);
  EXPECT_GT(std::abs(alone.state.sums.loss - plain.state.sums.loss), 1e-2 * plain.state.sums.loss);
  EXPECT_NEAR(pair[0].state.sums.loss, alone.state.sums.loss, 1e-4 * alone.state.sums.loss);
  EXPECT_EQ(pair[0].state.sums.correct, alone.state.sums.correct);
}

TEST(TrainLoopTest, ImagesTooSmallForTheirAugmentationAreRefused) {
  api::TrainingSpec training = SmallTraining();
  training.dataset.augment.emplace().random_crop = api::RandomCropSpec{8};
  const absl::Status status = Session::Create({.training = training}).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
}

TEST(TrainLoopTest, TwoRanksComputeWhatOneDoes) {
  const RankOutcome alone = TrainAlone(SmallTraining());
  const std::vector<RankOutcome> pair = TrainPair(SmallTraining());
  EXPECT_NEAR(pair[0].state.sums.loss, alone.state.sums.loss, 1e-4 * alone.state.sums.loss);
  EXPECT_EQ(pair[0].state.sums.correct, alone.state.sums.correct);
  ASSERT_EQ(pair[0].parameters.size(), alone.parameters.size());
  for (std::size_t i = 0; i < alone.parameters.size(); ++i) {
    EXPECT_NEAR(pair[0].parameters[i], alone.parameters[i], 1e-4) << "parameter " << i;
  }
}

TEST(TrainLoopTest, ADeviceWithAQueueComputesTheBitsOfAHost) {
  api::TrainingSpec training = SmallTraining();
  training.gradient_accumulation = 3;
  training.optimizer.global_clip_norm = 0.05;
  training.optimizer.weight_decay = 0.01;
  api::Json layers = *training.model.layers;
  layers.insert(layers.begin() + 1, api::Json{{"type", "BatchNormalization"}});
  training.model.layers = std::move(layers);
  const std::vector<RankOutcome> host = TrainPair(training);
  const std::vector<RankOutcome> device = TrainPair(training, "async-reference");
  for (const std::size_t rank : {0u, 1u}) {
    EXPECT_EQ(device[rank].parameters, host[0].parameters);
    EXPECT_EQ(device[rank].state, host[0].state);
  }
}

// Sums of two ranks have the same bits in either order.
TEST(TrainLoopTest, NcclGivesTheLossesOfHostSums) {
  const std::vector<RankOutcome> host = TrainPair(SmallTraining(), "cuda");
  const std::vector<RankOutcome> nccl = TrainPair(SmallTraining(), kOwnGpus);
  for (const std::size_t rank : {0u, 1u}) {
    EXPECT_EQ(nccl[rank].parameters, host[0].parameters);
    EXPECT_EQ(nccl[rank].state, host[0].state);
  }
}

TEST(TrainLoopTest, RanksWithGpusOfTheirOwnUseNccl) {
  for (const std::string& device : {std::string("cuda"), kOwnGpus}) {
    LocalRendezvousHub hub(2);
    SpawnThreads(2, [&](int index) {
      Rank rank(SmallTraining(), 2, hub, index, nullptr, device);
      const auto membership = rank.rendezvous.Join(0, "");
      ASSERT_TRUE(rank.strategy->Connect(*membership, rank.rendezvous.store()).ok());
      EXPECT_EQ(rank.strategy->CommunicatorName(), device == kOwnGpus ? "nccl" : "shm");
      // Only what passes through the host needs room there.
      struct stat info{};
      ASSERT_EQ(fstat(rank.session->buffer().segment()->locator().fd, &info), 0);
      EXPECT_EQ(info.st_blocks * 512 > std::int64_t{SharedSegment::kHeaderBytes},
                device != kOwnGpus);
      // NCCL's end may hang, and a state may have to be saved first.
      rank.strategy->Disconnect();
      EXPECT_EQ(rank.strategy->CommunicatorName(), device == kOwnGpus ? "nccl" : "none");
    });
  }
}

class KilledRankTest
    : public ::testing::TestWithParam<std::tuple<std::string, std::pair<int, int>>> {};

TEST_P(KilledRankTest, TrainingGoesOnFromMemoryBitForBit) {
  const auto& [backend, kill] = GetParam();
  const std::vector<RankOutcome> expected = TrainPair(SmallTraining(), backend);
  const std::vector<RankOutcome> pair =
      TrainPair(SmallTraining(), backend, kill.first, kill.second);
  EXPECT_EQ(pair[0].parameters, expected[0].parameters);
  EXPECT_EQ(pair[1].parameters, expected[0].parameters);
  EXPECT_EQ(pair[0].state, expected[0].state);
  EXPECT_EQ(pair[1].state, expected[0].state);
}

INSTANTIATE_TEST_SUITE_P(EitherRankAtAnyTime, KilledRankTest,
                         ::testing::Combine(::testing::ValuesIn(kRankDevices),
                                            ::testing::Values(std::pair(0, 0), std::pair(0, 7),
                                                              std::pair(0, 19), std::pair(1, 0),
                                                              std::pair(1, 5), std::pair(1, 12))));

class StoppingRunTest : public KilledRankTest {};

// Does 15 of 20 steps: 5 to the best evaluation, and 10 more without an improvement.
TEST_P(StoppingRunTest, AllRanksEndAtTheSameStepWhoeverIsLost) {
  const auto& [backend, kill] = GetParam();
  api::TrainingSpec shorter = SmallTraining();
  shorter.epochs = 3;
  const std::vector<RankOutcome> expected = TrainPair(shorter, backend);
  const std::vector<RankOutcome> pair =
      TrainPair(StoppingTraining(3), backend, kill.first, kill.second);
  for (const RankOutcome& rank : pair) {
    EXPECT_EQ(rank.parameters, expected[0].parameters);
    EXPECT_EQ(rank.state.step, 15);
    EXPECT_EQ(rank.state.evaluated_step, 15);
    EXPECT_EQ(rank.state.best.step, 5);
    EXPECT_EQ(rank.state.best.without_improvement, 2);
    EXPECT_EQ(rank.state, pair[0].state);
    EXPECT_EQ(rank.state.ledger.epochs_checked(), 3);
    EXPECT_EQ(rank.state.ledger.lost_total() + rank.state.ledger.duplicated_total(), 0);
  }
}

// The rank that takes the place of a lost one has to save and to export it, if it is rank 0.
TEST_P(StoppingRunTest, AllRanksHaveTheBestModelWhoeverIsLost) {
  const auto& [backend, kill] = GetParam();
  api::TrainingSpec best = SmallTraining();
  best.epochs = 1;
  const std::vector<RankOutcome> expected = TrainPair(best, backend);
  for (const RankOutcome& rank :
       TrainPair(RestoringTraining(3), backend, kill.first, kill.second)) {
    EXPECT_EQ(rank.state.step, 15);
    EXPECT_EQ(rank.state.best.step, 5);
    EXPECT_EQ(rank.state.best.test_loss, expected[0].state.test_loss);
    EXPECT_EQ(rank.state.best.test_accuracy, expected[0].state.test_accuracy);
    EXPECT_EQ(rank.best, expected[0].model);
    EXPECT_NE(rank.best, rank.model);
  }
}

// Undisturbed; the leading rank, in each part of the run; and the other one.
INSTANTIATE_TEST_SUITE_P(EitherRankAtAnyTime, StoppingRunTest,
                         ::testing::Combine(::testing::ValuesIn(kRankDevices),
                                            ::testing::Values(std::pair(-1, 0), std::pair(0, 4),
                                                              std::pair(0, 7), std::pair(0, 14),
                                                              std::pair(0, 23), std::pair(1, 12))));

class StoppedRunTest : public ::testing::Test {
 protected:
  // Runs until the end, or until the process is asked to stop after `asked_at` steps. Each call is
  // another process, with another pod.
  void Run(const api::TrainingSpec& training, LoopEnd expected, int asked_at = -1) {
    const auto store = OpenStore(folder_, ++pods_);
    rank_.reset();
    hub_ = std::make_unique<LocalRendezvousHub>(1);
    rank_ = std::make_unique<Rank>(training, 1, *hub_, 0, nullptr, "reference", store.get());
    begun_ = 0;
    rank_->faults.before = [this, asked_at](At at) {
      begun_ += at == At::kStep ? 1 : 0;
      if (begun_ == asked_at) rank_->rendezvous.asked_to_stop = true;
      return absl::OkStatus();
    };
    const LoopOutcome outcome = rank_->RunOnce();
    EXPECT_EQ(outcome.end, expected) << outcome.reason;
    saves_ = rank_->saver->outcome().saves;
    rank_->saver.reset();
    rank_->loop.saver = nullptr;
    rank_->loop.store = nullptr;
  }
  const RunState& state() const { return rank_->loop.state; }

  const TempDirectory folder_, exports_;
  std::unique_ptr<LocalRendezvousHub> hub_;
  std::unique_ptr<Rank> rank_;
  std::int64_t saves_ = 0;
  int pods_ = 0, begun_ = 0;
};

// The counter is in the checkpoint: the evaluation that ends the run is the second after it.
TEST_F(StoppedRunTest, ARunThatGoesOnFromACheckpointEndsWithTheBitsOfAnUndisturbedOne) {
  const RankOutcome undisturbed = TrainAlone(StoppingTraining(3));
  EXPECT_EQ(undisturbed.state.step, 15);
  for (const int asked_at : {2, 5, 9, 10, 12}) {
    SCOPED_TRACE(asked_at);
    std::filesystem::remove_all(folder_.path());
    Run(StoppingTraining(3), LoopEnd::kStopped, asked_at);
    EXPECT_LT(state().step, 15);
    Run(StoppingTraining(3), LoopEnd::kDone);
    EXPECT_EQ(rank_->Parameters(), undisturbed.parameters);
    EXPECT_EQ(state(), undisturbed.state);
  }
}

TEST_F(StoppedRunTest, IsDoneSavesAndExportsAndSaysSo) {
  api::TrainingSpec training = StoppingTraining(2);
  training.checkpoint.export_to = exports_.At("model.safetensors");
  ::testing::internal::CaptureStderr();
  Run(training, LoopEnd::kDone);
  rank_->reporter.LeaveMessage();
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(log.find("the run has stopped early"), std::string::npos) << log;
  const auto progress = api::Json::parse(rank_->Message());
  EXPECT_EQ(progress["step"], 10);
  EXPECT_EQ(progress["totalSteps"], 10);
  EXPECT_EQ(progress["lastCheckpointStep"], 10);
  EXPECT_TRUE(std::filesystem::exists(training.checkpoint.export_to));
}

TEST_F(StoppedRunTest, DoesNotTrainOnWhenItIsStartedAgainAndSaysSo) {
  api::TrainingSpec training = StoppingTraining(2);
  Run(training, LoopEnd::kDone);
  const std::vector<float> parameters = rank_->Parameters();
  training.checkpoint.export_to = exports_.At("model.safetensors");
  ::testing::internal::CaptureStderr();
  Run(training, LoopEnd::kDone);
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(log.find("the run has stopped early"), std::string::npos) << log;
  EXPECT_EQ(rank_->rendezvous.activities[api::Activity::kEvaluation], 0);
  EXPECT_EQ(begun_, 0);
  EXPECT_EQ(saves_, 0);
  EXPECT_EQ(state().step, 10);
  EXPECT_EQ(rank_->Parameters(), parameters);
  EXPECT_TRUE(std::filesystem::exists(training.checkpoint.export_to));
}

TEST_F(StoppedRunTest, GoesOnWithMorePatience) {
  Run(StoppingTraining(2), LoopEnd::kDone);
  EXPECT_EQ(state().step, 10);
  Run(StoppingTraining(3), LoopEnd::kDone);
  EXPECT_EQ(state(), TrainAlone(StoppingTraining(3)).state);
  Run(SmallTraining(), LoopEnd::kDone);
  EXPECT_EQ(state(), TrainAlone(SmallTraining()).state);
}

// Where there was no evaluation, nothing is decided.
TEST_F(StoppedRunTest, WithLessPatienceTheNextEvaluationEndsIt) {
  Run(StoppingTraining(4), LoopEnd::kStopped, /*asked_at=*/11);
  EXPECT_EQ(state().step, 12);
  EXPECT_EQ(state().best.without_improvement, 1);
  Run(StoppingTraining(2), LoopEnd::kDone);
  EXPECT_EQ(state().step, 15);
  EXPECT_EQ(saves_, 1);
}

TEST_F(StoppedRunTest, ByAnotherMetricTheBestIsSoughtAnew) {
  api::TrainingSpec training = StoppingTraining(2);
  Run(training, LoopEnd::kDone);
  training.early_stopping->metric = api::BestMetric::kAccuracy;
  Run(training, LoopEnd::kDone);
  EXPECT_EQ(state().best.step, 15);
  EXPECT_EQ(state().step, 20);
}

TEST_F(StoppedRunTest, AMetricThatTheJobNamesDecidesAndIsInTheCheckpoint) {
  api::TrainingSpec training = StoppingTraining(3);
  training.evaluation = {.metrics = {api::TestMetric::kTopKCategoricalAccuracy}, .top_k = 2};
  training.early_stopping->metric = api::BestMetric::kTopKCategoricalAccuracy;
  const RunState undisturbed = TrainAlone(training).state;
  EXPECT_EQ(undisturbed.step, 15);
  EXPECT_EQ(undisturbed.best.value, undisturbed.best.test_metrics.All().begin()->second);
  EXPECT_GT(undisturbed.best.value, undisturbed.best.test_accuracy);
  Run(training, LoopEnd::kStopped, /*asked_at=*/12);
  EXPECT_LT(state().step, 15);
  Run(training, LoopEnd::kDone);
  EXPECT_EQ(state(), undisturbed);
  training.evaluation.top_k = 1;
  Run(training, LoopEnd::kDone);
  EXPECT_EQ(state().best.step, 20) << "the best is sought anew";
  training.evaluation.top_k = 2;
  Run(training, LoopEnd::kDone);
  EXPECT_EQ(state().best.step, 20) << "also if no step is left";
}

class RestoringRunTest : public StoppedRunTest {
 protected:
  // Returns the file that a run of so many epochs exports: its last model.
  std::string ModelAfter(int epochs) {
    api::TrainingSpec training = SmallTraining();
    training.epochs = epochs;
    training.checkpoint.export_to = exports_.At("expected.safetensors");
    TrainAlone(training);
    return ReadTextFile(training.checkpoint.export_to);
  }
  api::TrainingSpec Exporting(api::TrainingSpec training) {
    training.checkpoint.export_to = exports_.At("model.safetensors");
    return training;
  }
  std::string Exported() const { return ReadTextFile(exports_.At("model.safetensors")); }
  // The model in the checkpoint of that step.
  std::string Saved(int step) const {
    return ReadTextFile(folder_.At(fmt::format("step-{:08}/model.safetensors", step)));
  }
};

TEST_F(RestoringRunTest, EndsWithTheModelOfItsBestEvaluationThatItSavesExportsAndReports) {
  const std::string best = ModelAfter(1);
  for (const int patience : {2, 9}) {  // 9: the run ends with its last step, after 20
    SCOPED_TRACE(patience);
    std::filesystem::remove_all(folder_.path());
    ::testing::internal::CaptureStderr();
    Run(Exporting(RestoringTraining(patience + 1)), LoopEnd::kDone);
    rank_->reporter.LeaveMessage();
    const std::string log = ::testing::internal::GetCapturedStderr();
    EXPECT_NE(log.find("the run ends with the model of its best evaluation"), std::string::npos);
    EXPECT_EQ(state().step, patience == 2 ? 15 : 20);
    EXPECT_EQ(Exported(), best);
    EXPECT_EQ(Saved(static_cast<int>(state().step)), best);
    const auto progress = api::Json::parse(rank_->Message());
    EXPECT_EQ(progress["testLoss"], state().best.test_loss);
    EXPECT_NE(state().best.test_loss, state().test_loss);
  }
}

// The training goes on from the model of the step, and the best one is in each checkpoint.
TEST_F(RestoringRunTest, ARunThatGoesOnFromACheckpointHasLostNothing) {
  const std::string best = ModelAfter(1);
  const RankOutcome undisturbed = TrainAlone(RestoringTraining(3));
  for (const int asked_at : {2, 5, 6, 9, 10, 12}) {
    SCOPED_TRACE(asked_at);
    std::filesystem::remove_all(folder_.path());
    Run(Exporting(RestoringTraining(3)), LoopEnd::kStopped, asked_at);
    EXPECT_LT(state().step, 15);
    Run(Exporting(RestoringTraining(3)), LoopEnd::kDone);
    EXPECT_EQ(rank_->Parameters(), undisturbed.parameters);
    EXPECT_EQ(state(), undisturbed.state);
    EXPECT_EQ(Exported(), best);
    EXPECT_EQ(Saved(15), best);
  }
}

TEST_F(RestoringRunTest, GoesOnWithMorePatienceFromTheModelOfItsLastStep) {
  const std::string best = ModelAfter(1);
  Run(Exporting(RestoringTraining(2)), LoopEnd::kDone);
  EXPECT_EQ(state().step, 10);
  EXPECT_EQ(Exported(), best);
  Run(Exporting(RestoringTraining(3)), LoopEnd::kDone);
  const RankOutcome undisturbed = TrainAlone(StoppingTraining(3));
  EXPECT_EQ(rank_->Parameters(), undisturbed.parameters);
  EXPECT_EQ(state(), undisturbed.state);
  EXPECT_EQ(Exported(), best);
  std::filesystem::remove(exports_.At("model.safetensors"));
  Run(Exporting(RestoringTraining(3)), LoopEnd::kDone);  // it has ended: nothing but the export
  EXPECT_EQ(begun_, 0);
  EXPECT_EQ(Exported(), best);
  Run(Exporting(SmallTraining()), LoopEnd::kDone);
  EXPECT_EQ(state(), TrainAlone(SmallTraining()).state);
  EXPECT_EQ(Exported(), ModelAfter(4)) << "the job asks no more for the best one";
}

TEST_F(RestoringRunTest, OtherRanksThanThoseThatSavedTakeTheBestModel) {
  const std::string best = ModelAfter(1);
  Run(RestoringTraining(3), LoopEnd::kStopped, /*asked_at=*/7);
  ASSERT_EQ(state().best.step, 5);
  const std::vector<NamedTensor> kept = rank_->loop.best.tensors;
  const auto store = OpenStore(folder_, ++pods_);
  LocalRendezvousHub hub(2);
  SpawnThreads(2, [&](int index) {
    Rank rank(Exporting(RestoringTraining(3)), 2, hub, index, nullptr, "reference",
              index == 0 ? store.get() : nullptr);
    EXPECT_TRUE(rank.Train());
    EXPECT_EQ(rank.loop.state.step, 15);
    EXPECT_EQ(rank.loop.best.tensors, kept);
  });
  EXPECT_EQ(Exported(), best);
}

TEST_F(RestoringRunTest, WhereNoEvaluationCountsTheLastModelIsTheRuns) {
  api::TrainingSpec training = RestoringTraining();
  training.early_stopping->start_from_epoch = 100;
  Run(Exporting(training), LoopEnd::kDone);
  EXPECT_EQ(state().step, 20);
  EXPECT_EQ(Exported(), ModelAfter(4));
  EXPECT_EQ(Saved(20), ModelAfter(4));
}

TEST_F(RestoringRunTest, ABestModelThatTheRunDidNotKeepIsSoughtAnew) {
  Run(StoppingTraining(4), LoopEnd::kStopped, /*asked_at=*/7);
  EXPECT_EQ(state().best.step, 5);
  ::testing::internal::CaptureStderr();
  Run(Exporting(RestoringTraining(2)), LoopEnd::kDone);
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(log.find("the model of the best evaluation was not kept"), std::string::npos) << log;
  EXPECT_EQ(state().best.step, 10);
  EXPECT_EQ(state().step, 15);
  EXPECT_EQ(Exported(), ModelAfter(2));
}

// The model of the checkpoint is that of the best evaluation itself.
TEST_F(RestoringRunTest, ACheckpointOfTheStepOfTheBestEvaluationHasThatModel) {
  api::TrainingSpec training = StoppingTraining(4);
  training.epochs = 1;
  Run(training, LoopEnd::kDone);
  EXPECT_EQ(state().best.step, 5);
  Run(Exporting(RestoringTraining(2)), LoopEnd::kDone);
  EXPECT_EQ(state().best.step, 5);
  EXPECT_EQ(Exported(), ModelAfter(1));
}

class OnDevicesTest : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Devices, OnDevicesTest, ::testing::ValuesIn(kRankDevices),
                         [](const auto& device) { return TestName(device.param); });

TEST_P(OnDevicesTest, ANaNLossEndsTheRunOnEveryRank) {
  api::TrainingSpec training = SmallTraining();
  training.model.layers = api::Json::array({{{"type", "Flatten"}},
                                            {{"type", "Dense"}, {"units", 8}},
                                            {{"type", "Dense"}, {"units", 3}}});
  training.optimizer = {.name = "SGD", .learning_rate = 1e30};  // 1e30 * 1e30 is infinite
  LocalRendezvousHub hub(2);
  std::vector<LoopEnd> ends(2);
  std::vector<std::thread> threads;
  for (int index = 0; index < 2; ++index) {
    threads.emplace_back([&, index] {
      Rank rank(training, 2, hub, index, nullptr, GetParam());
      const auto membership = rank.rendezvous.Join(-1, "");
      const LoopOutcome outcome = rank.loop.Run(*membership);
      ends[static_cast<std::size_t>(index)] = outcome.end;
      const std::span<float> parameters = rank.session->model().parameters();
      EXPECT_TRUE(rank.session->backend().AllFinite(parameters.data(), std::ssize(parameters)));
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(ends[0], LoopEnd::kDiverged);
  EXPECT_EQ(ends[1], LoopEnd::kDiverged);
}

TEST(TrainLoopTest, TheAddressIsWithheldOnceAGroupHasFailedForWantOfTrust) {
  LocalRendezvousHub hub(1);
  Rank rank(SmallTraining(), 1, hub, 0);
  rank.faults.before = [](At at) {
    return at == At::kConnect ? absl::UnavailableError("timed out") : absl::OkStatus();
  };
  EXPECT_EQ(rank.RunOnce().end, LoopEnd::kGenerationOver);
  EXPECT_FALSE(rank.rendezvous.withholds_address);
  rank.faults.trusts_addresses = false;
  EXPECT_EQ(rank.RunOnce().end, LoopEnd::kGenerationOver);
  EXPECT_TRUE(rank.rendezvous.withholds_address);
}

TEST_P(OnDevicesTest, AStopRequestStopsAllRanksAtTheSameStep) {
  LocalRendezvousHub hub(2);
  std::vector<std::int64_t> steps(2), begun(2);
  std::vector<std::thread> threads;
  for (int index = 0; index < 2; ++index) {
    threads.emplace_back([&, index] {
      const auto stop = [&, index](int step) {
        if (index == 1 && step == 5) hub.RequestStop();
      };
      Rank rank(SmallTraining(), 2, hub, index, stop, GetParam());
      rank.faults.before = [&, index](At at) {
        begun[static_cast<std::size_t>(index)] += at == At::kStep ? 1 : 0;
        return absl::OkStatus();
      };
      const auto membership = rank.rendezvous.Join(-1, "");
      const LoopOutcome outcome = rank.loop.Run(*membership);
      EXPECT_EQ(outcome.end, LoopEnd::kStopped) << outcome.reason;
      steps[static_cast<std::size_t>(index)] = rank.loop.state.step;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(steps[0], steps[1]);
  EXPECT_GE(steps[0], 5);
  EXPECT_EQ(steps, begun);
}

TEST_P(OnDevicesTest, AStopRequestSavesTheLastStepThatWasBegun) {
  const TempDirectory folder;
  const auto store = *CheckpointStore::Open(RealFileSystem(), folder.path(), 2,
                                            {.job_uid = "uid", .pod_started = 1});
  LocalRendezvousHub hub(1);
  Rank rank(SmallTraining(), 1, hub, 0, nullptr, GetParam(), store.get());
  std::int64_t begun = 0;
  rank.faults.before = [&](At at) {
    if (at == At::kStep && ++begun == 7) rank.rendezvous.asked_to_stop = true;
    return absl::OkStatus();
  };
  EXPECT_EQ(rank.RunOnce().end, LoopEnd::kStopped);
  // The eighth step carries the request; a device with a queue has the ninth by then.
  EXPECT_EQ(begun, rank.session->backend().IsHost() ? 8 : 9);
  EXPECT_EQ(rank.loop.state.step, begun);
  const auto saved = store->LoadLatest(ModelHash(*rank.session));
  ASSERT_TRUE(saved.ok() && *saved) << saved.status();
  EXPECT_EQ((*saved)->step, begun);
}

// Epochs of five steps, a checkpoint every three, and a last step that is neither's end.
TEST_P(OnDevicesTest, AStepIsBegunBeforeTheLastHasEndedUnlessTheStateIsDue) {
  api::TrainingSpec training = SmallTraining();
  training.epochs = std::nullopt;
  training.steps = 14;
  training.checkpoint.every_steps = 3;
  LocalRendezvousHub hub(1);
  Rank rank(training, 1, hub, 0, nullptr, GetParam());
  std::vector<std::int64_t> ahead;  // at each step's begin: how many before it have not ended
  rank.faults.before = [&](At at) {
    if (at == At::kStep) ahead.push_back(std::ssize(ahead) - rank.loop.state.step);
    return absl::OkStatus();
  };
  EXPECT_EQ(rank.RunOnce().end, LoopEnd::kDone);
  std::vector<std::int64_t> expected(14);
  for (const std::size_t step : {1u, 2u, 4u, 7u, 8u, 11u, 13u}) {
    expected[step] = rank.session->backend().IsHost() ? 0 : 1;
  }
  EXPECT_EQ(ahead, expected);
}

// Two bad batches, the generation's end, and a third.
TEST_P(OnDevicesTest, StepsSkippedBeforeARegroupCountAfterIt) {
  api::TrainingSpec training = SmallTraining();
  training.max_skipped_steps = 2;
  LocalRendezvousHub hub(1);
  Rank rank(training, 1, hub, 0, nullptr, GetParam());
  int begun = 0;
  rank.faults.before = [&](At at) {
    if (at != At::kStep) return absl::OkStatus();
    if (begun++ == 4) return absl::UnavailableError("a peer is gone");
    constexpr float kBad = std::numeric_limits<float>::infinity();
    const std::span<float> gradients = rank.session->model().gradients();
    if (begun > 2) rank.session->backend().Upload(&kBad, gradients.data(), sizeof(kBad));
    return absl::OkStatus();
  };
  const LoopOutcome first = rank.RunOnce();
  EXPECT_EQ(first.end, LoopEnd::kGenerationOver) << first.reason;
  EXPECT_EQ(rank.loop.state.skipped_in_a_row, 2);
  const LoopOutcome second = rank.RunOnce();
  EXPECT_EQ(second.end, LoopEnd::kDiverged) << second.reason;
  EXPECT_EQ(rank.loop.state.step, 4);
}

// Adam's first update moves a parameter by the learning rate, however many steps were before.
TEST_P(OnDevicesTest, StepsThatUpdatedNothingBeforeTheLoopAreNoneOfTheOptimizer) {
  api::TrainingSpec training = SmallTraining();
  training.epochs = std::nullopt;
  training.steps = 6;
  training.evaluation.enabled = false;
  LocalRendezvousHub hub(1);
  Rank rank(training, 1, hub, 0, nullptr, GetParam());
  rank.loop.state.step = 5;
  rank.loop.state.skipped_steps = 3;
  rank.loop.state.left_out_steps = 2;
  const std::vector<float> start = rank.Parameters();
  const LoopOutcome outcome = rank.RunOnce();
  EXPECT_EQ(outcome.end, LoopEnd::kDone) << outcome.reason;
  const std::vector<float> end = rank.Parameters();
  float largest = 0;
  for (std::size_t i = 0; i < start.size(); ++i) {
    largest = std::max(largest, std::abs(end[i] - start[i]));
  }
  EXPECT_NEAR(largest, 0.01f, 1e-4f);
}

// A device with a queue still works on the step before.
TEST_P(OnDevicesTest, ASampleThatCannotBeReadLeavesTheStateOfTheStepBefore) {
  const TempDirectory folder;
  for (int i = 0; i < 16; ++i) {
    const std::string path =
        folder.At(fmt::format("train/{}/{}.png", i < 8 ? "cat" : "dog", i % 8));
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    const std::string image = PngFile({8, 8, 8, 0}, std::string(64, static_cast<char>(i)));
    WriteTextFile(path, i == 9 ? image.substr(0, 50) : image);
  }
  api::TrainingSpec training = SmallTraining();
  training.dataset = {.format = api::DatasetFormat::kImageFolder, .path = folder.path()};
  api::Json layers = *training.model.layers;
  layers.back()["units"] = 2;
  training.model.layers = std::move(layers);
  training.dataset.image_size = {8, 8};
  training.dataset.image_channels = 1;
  training.dataset.shuffle = false;
  training.evaluation.enabled = false;
  training.batch_size.global = 4;
  LocalRendezvousHub hub(1), hub_of_two_steps(1);
  Rank rank(training, 1, hub, 0, nullptr, GetParam());
  const LoopOutcome outcome = rank.RunOnce();
  EXPECT_EQ(outcome.end, LoopEnd::kFailed) << outcome.reason;
  EXPECT_EQ(outcome.reason.code(), absl::StatusCode::kDataLoss) << outcome.reason;
  EXPECT_EQ(rank.loop.state.step, 2);

  training.epochs = std::nullopt;
  training.steps = 2;
  Rank expected(training, 1, hub_of_two_steps, 0, nullptr, GetParam());
  EXPECT_EQ(expected.RunOnce().end, LoopEnd::kDone);
  EXPECT_EQ(rank.Parameters(), expected.Parameters());
  EXPECT_EQ(rank.loop.state, expected.loop.state);
}

// The first rank's step is queued, and waits for a rank that takes none.
class QueuedSumsTest : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Devices, QueuedSumsTest, ::testing::Values("async-reference", kOwnGpus),
                         [](const auto& device) { return TestName(device.param); });

TEST_P(QueuedSumsTest, AProcessThatEndsDoesNotWaitForThem) {
  LocalRendezvousHub hub(2);
  std::promise<void> ended;
  const auto connect = [](Rank& rank) {
    const auto membership = rank.rendezvous.Join(0, "");
    ASSERT_TRUE(rank.strategy->Connect(*membership, rank.rendezvous.store()).ok());
  };
  const std::jthread second([&] {
    Rank idle(SmallTraining(), 2, hub, 1, nullptr, GetParam());
    connect(idle);
    ended.get_future().wait();
  });
  const auto start = std::chrono::steady_clock::now();
  {
    Rank rank(SmallTraining(), 2, hub, 0, nullptr, GetParam());
    connect(rank);
    const auto loader =
        Loader::Create(rank.session->train_data(), {.plan = rank.session->plan(), .prefetch = 0});
    EXPECT_FALSE(BeginStep(*rank.session, *rank.strategy, *loader, {}, rank.sender.phases()));
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, CollectiveOptions().least_timeout / 2);
  ended.set_value();
}

// One of two ranks on a device with a queue, which takes a step at a time.
class QueuedRank {
 public:
  QueuedRank(LocalRendezvousHub& hub, int index, const std::string& device, bool is_central)
      : rank_(SmallTraining(), 2, hub, index, nullptr, device, nullptr,
              {.site = SiteOf(index, is_central)}) {}

  void Connect() {
    session().model().InitializeParameters();
    const auto membership = rank_.rendezvous.Join(0, "");
    ASSERT_TRUE(rank_.strategy->Connect(*membership, rank_.rendezvous.store()).ok());
    loader_ = Loader::Create(session().train_data(),
                             {.plan = session().plan(), .rank = membership->rank});
    session().OpenGate();
  }
  // Calls `at_update` once the sums are queued, before the update is.
  void Begin(std::int64_t step, const std::function<void()>& at_update = [] {}) {
    int computes = 0;  // first the gradients, then the update
    const auto entered = [&](api::StepPart part) {
      if (part == api::StepPart::kCompute && ++computes == 2) at_update();
    };
    const StepOptions options{.step = step, .entered = entered};
    EXPECT_FALSE(BeginStep(session(), *rank_.strategy, *loader_, options, phases_));
  }
  // Its device does nothing more until `goes_on` has a value.
  void Hold(std::promise<void>& goes_on) {
    session().backend().stream().Call([&goes_on] { goes_on.get_future().wait(); });
  }
  void End(std::int64_t step) {
    const auto ended = EndStep(session(), *rank_.strategy, step, phases_);
    EXPECT_TRUE(std::holds_alternative<StepTotals>(ended));
  }
  // Returns true once time that passes counts as the phase.
  bool CountsAs(Phase phase) {
    return lockstep::testing::Eventually([&] {
      const double before = phases_.Read().Seconds(phase);
      clock_.Advance(std::chrono::hours(1));
      return phases_.Read().Seconds(phase) - before == 3600;
    });
  }
  Session& session() { return *rank_.session; }
  StrategyFaults& faults() { return rank_.faults; }

 private:
  static UpdateSite SiteOf(int index, bool is_central) {
    if (!is_central) return UpdateSite::kEveryRank;
    return index == 0 ? UpdateSite::kThisRank : UpdateSite::kRankZero;
  }

  Rank rank_;
  std::unique_ptr<Loader> loader_;
  lockstep::testing::FakeClock clock_;
  PhaseClock phases_{clock_};
};

// By this a straggler is known: it computes while its peers wait for it.
TEST_P(QueuedSumsTest, TheTimeForWhichADeviceWaitsForItsPeersIsCommunication) {
  LocalRendezvousHub hub(2);
  std::promise<void> computed, peer_may_step, updated;
  std::latch ended(2);  // who leaves earlier may take what the other one still receives
  const std::jthread second([&] {
    QueuedRank peer(hub, 1, GetParam(), /*is_central=*/false);
    peer.Connect();
    peer_may_step.get_future().wait();
    peer.Begin(0);
    peer.End(0);
    ended.arrive_and_wait();
  });
  QueuedRank rank(hub, 0, GetParam(), /*is_central=*/false);
  rank.Connect();
  rank.Hold(computed);
  rank.Begin(0, [&] { rank.Hold(updated); });
  const std::jthread host([&] {
    rank.End(0);
    ended.arrive_and_wait();
  });
  EXPECT_TRUE(rank.CountsAs(Phase::kBackward));
  computed.set_value();
  EXPECT_TRUE(rank.CountsAs(Phase::kCommunication));
  peer_may_step.set_value();
  EXPECT_TRUE(rank.CountsAs(Phase::kOptimizer));
  updated.set_value();
}

TEST_P(QueuedSumsTest, SoIsTheTimeForWhichItWaitsForParameters) {
  LocalRendezvousHub hub(2);
  std::promise<void> updated;
  std::latch ended(2);
  const std::jthread first([&] {
    QueuedRank leader(hub, 0, GetParam(), /*is_central=*/true);
    leader.faults().before = [&, waits = true](At at) mutable {
      if (at == At::kParameters && std::exchange(waits, false)) updated.get_future().wait();
      return absl::OkStatus();
    };
    leader.Connect();
    for (std::int64_t step = 0; step < 2; ++step) {
      leader.Begin(step);
      leader.End(step);
    }
    ended.arrive_and_wait();
  });
  QueuedRank rank(hub, 1, GetParam(), /*is_central=*/true);
  rank.Connect();
  rank.Begin(0);
  rank.Begin(1);
  rank.End(0);
  const std::jthread host([&] {
    rank.End(1);
    ended.arrive_and_wait();
  });
  EXPECT_TRUE(rank.CountsAs(Phase::kCommunication));
  updated.set_value();
}

// One rank on the CPU back end that takes a step at a time.
class Stepper {
 public:
  Stepper(const api::TrainingSpec& training, int world, LocalRendezvousHub& hub, int index)
      : rank_(training, world, hub, index, nullptr, "cpu"),
        loader_(Loader::Create(session().train_data(), {.plan = session().plan(), .rank = index})) {
    session().model().InitializeParameters();
    const auto membership = rank_.rendezvous.Join(0, "");
    EXPECT_TRUE(rank_.strategy->Connect(*membership, rank_.rendezvous.store()).ok());
  }

  Session& session() { return *rank_.session; }
  void TakeStateOf(Stepper& other) {
    std::ranges::copy(other.session().model().parameters(), session().model().parameters().begin());
    for (int slot = 0; slot < session().optimizer().slots(); ++slot) {
      std::ranges::copy(other.session().optimizer().slot(slot),
                        session().optimizer().slot(slot).begin());
    }
  }
  void Step() {
    const auto done =
        RunStep(session(), *rank_.strategy, *loader_, {.step = steps_++}, rank_.sender.phases());
    ASSERT_TRUE(std::holds_alternative<StepTotals>(done));
    totals_ = std::get<StepTotals>(done);
  }
  double loss() const { return totals_.loss / totals_.examples; }

 private:
  Rank rank_;
  std::unique_ptr<Loader> loader_;
  StepTotals totals_;
  int steps_ = 0;
};

// As far as sums in another order allow, relative to the largest of each tensor.
void ExpectSameGradients(Session& found, Session& expected) {
  for (const TensorSlot& slot : expected.model().parameter_slots()) {
    const auto part = [&slot](std::span<float> all) {
      return all.subspan(static_cast<std::size_t>(slot.offset),
                         static_cast<std::size_t>(slot.size));
    };
    const std::span<float> two = part(found.model().gradients());
    const std::span<float> one = part(expected.model().gradients());
    float largest = 0, difference = 0;
    for (std::size_t i = 0; i < one.size(); ++i) {
      largest = std::max(largest, std::abs(one[i]));
      difference = std::max(difference, std::abs(two[i] - one[i]));
    }
    EXPECT_LE(difference, 2e-5f * largest) << slot.name;
  }
}

api::TrainingSpec CoreCnnTraining() {
  api::TrainingSpec training;
  training.model.name = "core-cnn";
  training.dataset.format = api::DatasetFormat::kSynthetic;
  training.dataset.synthetic = api::SyntheticSpec{.train_examples = 2560, .test_examples = 32};
  training.batch_size.global = 128;
  training.steps = 20;
  return training;
}

// Twenty steps by one rank and by two. `compare` sees the first of the two after each step; both
// must have made the same update, to the last bit.
void StepBeside(const api::TrainingSpec& training, bool from_equal_numbers,
                const std::function<void(Stepper& two, Stepper& one)>& compare) {
  LocalRendezvousHub hub_of_one(1), hub_of_two(2);
  Stepper alone(training, 1, hub_of_one, 0);
  std::barrier meet(2);
  std::vector<float> of_second;
  std::vector<std::thread> threads;
  for (int index = 0; index < 2; ++index) {
    threads.emplace_back([&, index] {
      Stepper rank(training, 2, hub_of_two, index);
      for (int step = 0; step < 20; ++step) {
        if (from_equal_numbers) rank.TakeStateOf(alone);
        meet.arrive_and_wait();
        if (index == 0) alone.Step();
        rank.Step();
        const std::span<float> updated = rank.session().model().parameters();
        if (index == 1) of_second.assign(updated.begin(), updated.end());
        meet.arrive_and_wait();
        if (index != 0) continue;
        SCOPED_TRACE(step);
        EXPECT_TRUE(std::ranges::equal(updated, of_second));
        compare(rank, alone);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// From the same numbers at each step: the order of sums makes a difference of 1e-7, and twenty
// steps of Adam, which makes much of a gradient that is next to nothing, make a thousand times as
// much of that.
TEST(TrainLoopTest, CoreCnnOnTwoRanksHasTheLossesAndGradientsOfOne) {
  StepBeside(CoreCnnTraining(), /*from_equal_numbers=*/true, [](Stepper& two, Stepper& one) {
    EXPECT_NEAR(two.loss(), one.loss(), 1e-6 * one.loss());
    ExpectSameGradients(two.session(), one.session());
  });
}

TEST(TrainLoopTest, CoreCnnOnTwoRanksHasTheLossesOfOneOverTwentySteps) {
  api::TrainingSpec training = CoreCnnTraining();
  training.optimizer = {.name = "SGD", .learning_rate = 0.01, .momentum = 0.9};
  std::vector<double> losses;
  StepBeside(training, /*from_equal_numbers=*/false, [&losses](Stepper& two, Stepper& one) {
    losses.push_back(one.loss());
    EXPECT_NEAR(two.loss(), one.loss(), 1e-4 * one.loss());
  });
  EXPECT_LT(losses.back(), losses.front());  // there were updates to compare
}

// The process ends in the middle of a step, with checkpoints on a real disk, at rates that change
// from step to step; another one goes on from there.
TEST_P(OnDevicesTest, KilledAndResumedEqualsUninterruptedBitForBit) {
  api::TrainingSpec training = SmallTraining();
  training.learning_rate_schedule = {.type = api::ScheduleType::kCosine, .warmup_steps = 3};
  const RankOutcome whole = TrainAlone(training, GetParam());
  training.checkpoint.every_steps = 3;
  for (const std::int64_t killed_at : {2, 7, 12, 19}) {
    SCOPED_TRACE(killed_at);
    const TempDirectory folder;
    {
      const auto store = OpenStore(folder, 1);
      LocalRendezvousHub hub(1);
      Rank killed(training, 1, hub, 0, nullptr, GetParam(), store.get());
      killed.faults.before = DiesInStep(killed_at);
      EXPECT_EQ(killed.RunOnce().end, LoopEnd::kGenerationOver);
    }
    const auto store = OpenStore(folder, 2);
    LocalRendezvousHub hub(1);
    Rank resumed(training, 1, hub, 0, nullptr, GetParam(), store.get());
    std::int64_t first_step = -1;
    resumed.faults.before = [&](At at) {
      if (at == At::kStep && first_step < 0) first_step = resumed.loop.state.step;
      return absl::OkStatus();
    };
    EXPECT_TRUE(resumed.Train());
    EXPECT_EQ(first_step, killed_at / 3 * 3);
    EXPECT_EQ(resumed.Parameters(), whole.parameters);
    EXPECT_EQ(resumed.loop.state, whole.state);
  }
}

// Loads what it was given and has no room for more.
class FullStore final : public CheckpointStore {
 public:
  explicit FullStore(Snapshot held) : held_(std::move(held)) {}
  absl::StatusOr<bool> Claim() override { return false; }
  bool IsClaimed() const override { return true; }
  absl::StatusOr<std::string> Save(const Snapshot&) override {
    return absl::ResourceExhaustedError("the disk is full");
  }
  absl::StatusOr<std::optional<Snapshot>> LoadLatest(const std::string&) override { return held_; }
  void Lose() { held_.reset(); }
  absl::StatusOr<std::optional<CheckpointAge>> Newest() override { return std::nullopt; }

 private:
  std::optional<Snapshot> held_;
};

// A run that has trained to its end, and one that finds its last state in the store.
struct ResumedRun {
  static Snapshot Trained(Rank& rank) {
    EXPECT_TRUE(rank.Train());
    return MakeSnapshot(rank.loop.session, rank.loop.state, Time());
  }

  api::TrainingSpec training = SmallTraining();
  LocalRendezvousHub hub{1}, next_hub{1};
  Rank whole{training, 1, hub, 0};
  FullStore store{Trained(whole)};
  Rank resumed{training, 1, next_hub, 0, nullptr, "reference", &store};
};

TEST(SnapshotTest, ARestoredStateIsNotSavedAgainWhenNothingFollows) {
  ResumedRun run;
  const LoopOutcome done = run.resumed.RunOnce();
  EXPECT_EQ(done.end, LoopEnd::kDone) << done.reason;
  EXPECT_EQ(run.resumed.loop.state, run.whole.loop.state);
  const LoopOutcome stopped = run.resumed.loop.SaveAlone();
  EXPECT_EQ(stopped.end, LoopEnd::kStopped);
  EXPECT_TRUE(stopped.reason.ok()) << stopped.reason;
}

TEST(SnapshotTest, AStateThatIsReachedAgainAfterItsCheckpointIsLostIsSaved) {
  ResumedRun run;
  EXPECT_EQ(run.resumed.loop.RestoreOrInitialize(), std::nullopt);
  EXPECT_EQ(run.resumed.loop.state, run.whole.loop.state);
  run.store.Lose();
  EXPECT_EQ(run.resumed.loop.RestoreOrInitialize(), std::nullopt);
  EXPECT_EQ(run.resumed.loop.state.step, 0);
  const LoopOutcome done = run.resumed.RunOnce();
  EXPECT_EQ(run.resumed.loop.state, run.whole.loop.state);
  EXPECT_EQ(done.reason.message(), "the disk is full");
}

// Everything but the last evaluation is there; but that has made the model the best one, and those
// who take the checkpoint's model would get another one.
TEST(SnapshotTest, ABestModelThatTheDiskDoesNotKnowEndsARunWithoutRoom) {
  for (const bool restores_best : {false, true}) {
    api::TrainingSpec training = SmallTraining();
    training.epochs = 1;
    training.early_stopping = api::EarlyStoppingSpec{.restore_best = restores_best};
    LocalRendezvousHub hub(1), next_hub(1);
    Rank whole(training, 1, hub, 0);
    EXPECT_TRUE(whole.Train());
    RunState unevaluated = whole.loop.state;
    ForgetEvaluations(unevaluated);
    FullStore store(MakeSnapshot(*whole.session, unevaluated, Time()));
    Rank resumed(training, 1, next_hub, 0, nullptr, "reference", &store);
    const LoopOutcome outcome = resumed.RunOnce();
    EXPECT_EQ(outcome.end, restores_best ? LoopEnd::kStorageRefused : LoopEnd::kDone)
        << outcome.reason;
  }
}

// Belongs to another job until the first save.
class UnclaimedStore final : public CheckpointStore {
 public:
  explicit UnclaimedStore(Snapshot held) : held_(std::move(held)) {}
  absl::StatusOr<bool> Claim() override { return false; }
  bool IsClaimed() const override { return !saved.empty(); }
  absl::StatusOr<std::string> Save(const Snapshot& snapshot) override {
    saved.push_back(snapshot);
    return "folder";
  }
  absl::StatusOr<std::optional<Snapshot>> LoadLatest(const std::string&) override { return held_; }
  absl::StatusOr<std::optional<CheckpointAge>> Newest() override { return std::nullopt; }

  std::vector<Snapshot> saved;

 private:
  Snapshot held_;
};

// A run was stopped in its last evaluation, and goes on as another job.
TEST(SnapshotTest, ABestModelThatTheDiskDoesNotKnowIsSavedInAnotherJobsFolderToo) {
  for (const bool restores_best : {false, true}) {
    api::TrainingSpec training = SmallTraining();
    training.epochs = 2;
    training.early_stopping = api::EarlyStoppingSpec{.restore_best = restores_best};
    LocalRendezvousHub hub(1), next_hub(1);
    Rank whole(training, 1, hub, 0);
    EXPECT_TRUE(whole.Train());
    RunState unevaluated = whole.loop.state;
    ForgetEvaluations(unevaluated);
    unevaluated.best = {.step = unevaluated.step / 2, .value = 1e6, .test_loss = 1e6};
    Snapshot held = MakeSnapshot(*whole.session, unevaluated, Time());
    if (restores_best) held.best = held.model;
    UnclaimedStore store(std::move(held));
    Rank resumed(training, 1, next_hub, 0, nullptr, "reference", &store);
    const LoopOutcome outcome = resumed.RunOnce();
    EXPECT_EQ(outcome.end, LoopEnd::kDone) << outcome.reason;
    EXPECT_EQ(resumed.loop.state.best.step, unevaluated.step);
    ASSERT_EQ(store.saved.size(), restores_best ? 1u : 0u);
    for (const Snapshot& saved : store.saved) {
      EXPECT_EQ(saved.step, unevaluated.step);
      EXPECT_TRUE(saved.best.empty()) << "its model is the best one";
    }
  }
}

// In memory; each load takes 500 s of the rank's clock.
class SlowStore final : public CheckpointStore {
 public:
  explicit SlowStore(Rank*& rank) : rank_(rank) {}
  absl::StatusOr<bool> Claim() override { return false; }
  bool IsClaimed() const override { return true; }
  absl::StatusOr<std::string> Save(const Snapshot& snapshot) override {
    saved = snapshot.saved;
    return "folder";
  }
  absl::StatusOr<std::optional<Snapshot>> LoadLatest(const std::string&) override {
    rank_->clock.Advance(std::chrono::seconds(500));
    return std::nullopt;
  }
  absl::StatusOr<std::optional<CheckpointAge>> Newest() override { return std::nullopt; }

  Time saved;  // the latest

 private:
  Rank*& rank_;
};

// Connecting takes 1 s each time, a broadcast 10, a sum of the evaluation 100, a sum of gradients
// 1000.
TEST(TrainLoopTest, TimeIsBookedForWhatTheReplicaWaitsFor) {
  LocalRendezvousHub hub(1);
  Rank* self = nullptr;
  SlowStore store(self);
  Rank rank(SmallTraining(), 1, hub, 0, nullptr, "reference", &store);
  self = &rank;
  int broadcasts = 0, sums = 0, steps = 0;
  rank.faults.before = [&](At at) {
    broadcasts += at == At::kBroadcast ? 1 : 0;
    sums += at == At::kSum ? 1 : 0;
    steps += at == At::kStep ? 1 : 0;
    const int takes = at == At::kConnect     ? 1
                      : at == At::kBroadcast ? 10
                      : at == At::kSum       ? 100
                                             : 1000;
    rank.clock.Advance(std::chrono::seconds(takes));
    return absl::OkStatus();
  };
  const Time start = rank.clock.Now();
  ASSERT_TRUE(rank.Train());
  const PhaseTimes times = rank.sender.phases().Read();
  EXPECT_GT(broadcasts * sums * steps, 0);
  EXPECT_EQ(times.Seconds(Phase::kRendezvous), 1 + 10 * broadcasts);
  EXPECT_EQ(times.Seconds(Phase::kCheckpoint), 500);
  EXPECT_EQ(times.Seconds(Phase::kEvaluation), 100 * sums);
  EXPECT_EQ(times.Seconds(Phase::kCommunication), 1000 * steps);
  EXPECT_EQ(times.Life(), std::chrono::duration<double>(rank.clock.Now() - start).count());
  EXPECT_EQ(store.saved, rank.clock.Now()) << "the last checkpoint is of the last moment";
}

TEST(SnapshotTest, AnotherBatchSizeIsRefusedByName) {
  LocalRendezvousHub hub(1);
  Rank rank(SmallTraining(), 1, hub, 0);
  const Snapshot snapshot = MakeSnapshot(*rank.session, {.step = 0}, Time());
  api::TrainingSpec other = SmallTraining();
  other.batch_size.global = 32;
  Rank second(other, 1, hub, 0);
  const absl::Status status = RestoreSnapshot(snapshot, *second.session, second.loop.state);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(status.message().find("globalBatch = 16"), std::string::npos) << status;
  EXPECT_EQ(second.loop.state.step, -1);
}

TEST(SnapshotTest, ARunStateOfAnotherStepIsRefused) {
  LocalRendezvousHub hub(1);
  Rank rank(SmallTraining(), 1, hub, 0);
  Snapshot snapshot = MakeSnapshot(*rank.session, {.step = 2}, Time());
  snapshot.state["run"]["step"] = 1;
  EXPECT_EQ(RestoreSnapshot(snapshot, *rank.session, rank.loop.state),
            absl::DataLossError(
                "the checkpoint of step 2: its run state is of step 1, expected the same step"));
  EXPECT_EQ(rank.loop.state.step, -1);
}

}  // namespace
}  // namespace lockstep::train
