// spec.training.dataset.autoShard: ranks that read files of their own, or all samples each.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <thread>
#include <vector>

#include "tests/trainer/train/rank.h"
#include "trainer/core/rng.h"
#include "trainer/train/snapshot.h"

namespace lockstep::train {
namespace {

using ::testing::HasSubstr;

constexpr int kSamples = 70;

class AutoShardTest : public ::testing::TestWithParam<std::string> {
 protected:
  // Five files of CIFAR-10's form, of uneven sizes.
  AutoShardTest() {
    std::uint64_t sample = 0;
    for (int file = 1; const int size : {9, 14, 12, 20, 15}) {
      std::string records;
      for (int i = 0; i < size; ++i, ++sample) {
        records += static_cast<char>(sample % 10);
        for (std::uint64_t pixel = 0; pixel < 3072; ++pixel) {
          records += static_cast<char>(Philox(5, sample, pixel / 64)[pixel % 4]);
        }
      }
      WriteTextFile(folder_.At("data_batch_" + std::to_string(file++) + ".bin"), records);
    }
  }

  api::TrainingSpec TrainingOf(api::AutoShard policy) const {
    api::TrainingSpec training = SmallTraining();
    training.model.layers =
        api::Json::array({{{"type", "AveragePooling2D"}, {"poolSize", 8}},
                          {{"type", "Flatten"}},
                          {{"type", "Dense"}, {"units", 16}, {"activation", "relu"}},
                          {{"type", "Dropout"}, {"rate", 0.25}},
                          {{"type", "Dense"}, {"units", 10}}});
    training.dataset = {.format = api::DatasetFormat::kCifar, .path = folder_.path()};
    training.dataset.auto_shard = policy;
    training.evaluation.enabled = false;
    training.epochs = 2;
    return training;
  }

  struct Outcome {
    std::vector<float> parameters;
    RunState state;
  };

  // Rank 0's, whose checkpoints are in `checkpoints` if that is given.
  Outcome Train(const api::TrainingSpec& training, int world,
                const TempDirectory* checkpoints = nullptr,
                const std::string& backend = "reference", const RankPlace& place = {}) {
    LocalRendezvousHub hub(world);
    const auto store = checkpoints ? OpenStore(*checkpoints, ++pods_) : nullptr;
    std::vector<Outcome> outcomes(static_cast<std::size_t>(world));
    std::vector<std::thread> threads;
    for (int index = 0; index < world; ++index) {
      threads.emplace_back([&, index] {
        Rank rank(training, world, hub, index, nullptr, backend, index == 0 ? store.get() : nullptr,
                  place);
        EXPECT_TRUE(rank.Train());
        outcomes[static_cast<std::size_t>(index)] = {rank.Parameters(), rank.loop.state};
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const Outcome& outcome : outcomes) EXPECT_EQ(outcome.state, outcomes[0].state);
    return outcomes[0];
  }

  static void ExpectExact(const Outcome& outcome, int epochs) {
    EXPECT_EQ(outcome.state.ledger.epochs_checked(), epochs);
    EXPECT_EQ(outcome.state.ledger.lost_total(), 0);
    EXPECT_EQ(outcome.state.ledger.duplicated_total(), 0);
  }

  static void ExpectNear(const Outcome& found, const Outcome& expected) {
    ASSERT_EQ(found.parameters.size(), expected.parameters.size());
    for (std::size_t i = 0; i < found.parameters.size(); ++i) {
      ASSERT_NEAR(found.parameters[i], expected.parameters[i], 1e-4) << i;
    }
    EXPECT_NEAR(found.state.sums.loss, expected.state.sums.loss, 1e-3);
  }

  TempDirectory folder_;
  int pods_ = 0;
};

TEST_F(AutoShardTest, WithFilesAnEpochHasEverySampleOnceAtAnyNumberOfReplicas) {
  for (const int world : {1, 2, 3, 4, 5}) {
    SCOPED_TRACE(world);
    const Outcome outcome = Train(TrainingOf(api::AutoShard::kFile), world);
    ExpectExact(outcome, 2);
    EXPECT_EQ(outcome.state.step, 10) << "as many steps as with Data";
    EXPECT_EQ(outcome.state.epoch_replicas, 0);
  }
}

TEST_F(AutoShardTest, OneReplicaReadsFilesAndItsOwnCopyInTheOrderOfData) {
  const Outcome data = Train(TrainingOf(api::AutoShard::kData), 1);
  EXPECT_EQ(Train(TrainingOf(api::AutoShard::kAuto), 1).parameters, data.parameters);
  EXPECT_EQ(Train(TrainingOf(api::AutoShard::kFile), 1).parameters, data.parameters);
  EXPECT_EQ(Train(TrainingOf(api::AutoShard::kOff), 1).parameters, data.parameters);
}

// The run stops in the middle of its second epoch. Whoever goes on with it uses the samples that
// this epoch has left; the third one deals the files anew.
TEST_F(AutoShardTest, AnEpochThatHasBegunKeepsItsOrderAtAnotherNumberOfReplicas) {
  api::TrainingSpec training = TrainingOf(api::AutoShard::kFile);
  const Outcome whole = Train(training, 2);
  for (const int world : {1, 2, 3, 4}) {
    SCOPED_TRACE(world);
    const TempDirectory checkpoints;
    api::TrainingSpec begins = training;
    begins.epochs.reset();
    begins.steps = 8;
    EXPECT_EQ(Train(begins, 2, &checkpoints).state.epoch_replicas, 2);
    const Outcome resumed = Train(training, world, &checkpoints);
    ExpectExact(resumed, 2);
    ExpectNear(resumed, whole);
    if (world == 2) {
      EXPECT_EQ(resumed.parameters, whole.parameters);
      EXPECT_EQ(resumed.state, whole.state);
    }
    api::TrainingSpec goes_on = training;
    goes_on.epochs = 3;
    ExpectExact(Train(goes_on, world, &checkpoints), 3);
  }
}

TEST_F(AutoShardTest, OffUsesEverySampleOnceForEachReplica) {
  for (const int world : {2, 3}) {
    SCOPED_TRACE(world);
    const api::TrainingSpec training = TrainingOf(api::AutoShard::kOff);
    const Outcome whole = Train(training, world);
    ExpectExact(whole, 2);
    const int steps = (world * kSamples + 15) / 16;
    EXPECT_EQ(whole.state.step, 2 * steps);
    EXPECT_EQ(whole.state.sums.examples, world * kSamples);
    const TempDirectory checkpoints;
    api::TrainingSpec begins = training;
    begins.epochs.reset();
    begins.steps = steps + 3;
    Train(begins, world, &checkpoints);
    const Outcome resumed = Train(training, world, &checkpoints);
    EXPECT_EQ(resumed.parameters, whole.parameters);
    EXPECT_EQ(resumed.state, whole.state);
  }
}

TEST_F(AutoShardTest, PipelinesReadFilesOfTheirOwn) {
  const Outcome outcome =
      Train(TrainingOf(api::AutoShard::kFile), 4, nullptr, "reference", {.stages = 2});
  ExpectExact(outcome, 2);
}

// The same samples, the same sums, and the same bits: also if the run goes on in the middle of an
// epoch, with as many replicas or with another number.
TEST_F(AutoShardTest, FilesAreDealtAsEverIfTheOptimizersStateIsSharded) {
  const RankPlace sharded{.site = UpdateSite::kShares};
  const api::TrainingSpec training = TrainingOf(api::AutoShard::kFile);
  for (const int world : {2, 3}) {
    SCOPED_TRACE(world);
    const Outcome mirrored = Train(training, world);
    const Outcome whole = Train(training, world, nullptr, "reference", sharded);
    ExpectExact(whole, 2);
    EXPECT_EQ(whole.parameters, mirrored.parameters);
    EXPECT_EQ(whole.state, mirrored.state);
    const TempDirectory checkpoints;
    api::TrainingSpec begins = training;
    begins.epochs.reset();
    begins.steps = 8;
    Train(begins, world, &checkpoints, "reference", sharded);
    const Outcome resumed = Train(training, 2, &checkpoints, "reference", sharded);
    ExpectExact(resumed, 2);
    ExpectNear(resumed, whole);
    if (world == 2) {
      EXPECT_EQ(resumed.parameters, whole.parameters);
    }
  }
}

TEST_P(AutoShardTest, RanksReadAsOnTheReferenceDevice) {
  for (const api::AutoShard policy : {api::AutoShard::kFile, api::AutoShard::kOff}) {
    const api::TrainingSpec training = TrainingOf(policy);
    const Outcome outcome = Train(training, 2, nullptr, GetParam());
    ExpectExact(outcome, 2);
    ExpectNear(outcome, Train(training, 2));
  }
}
INSTANTIATE_TEST_SUITE_P(Devices, AutoShardTest,
                         ::testing::Values("async-reference", "cpu", "cuda", kOwnGpus),
                         [](const auto& device) {
                           std::string name = device.param;
                           std::erase(name, '-');
                           return name;
                         });

constexpr char kTooFewFiles[] =
    "spec.training.dataset.autoShard: found File with 5 training files for 6 replicas, expected at "
    "least one file for each replica; Data needs no files";

TEST_F(AutoShardTest, ARunDoesNotBeginWithFewerFilesThanReplicas) {
  LocalRendezvousHub hub(6);
  std::vector<std::thread> threads;
  for (int index = 0; index < 6; ++index) {
    threads.emplace_back([&, index] {
      Rank rank(TrainingOf(api::AutoShard::kFile), 6, hub, index);
      const LoopOutcome outcome = rank.RunOnce();
      EXPECT_EQ(outcome.end, LoopEnd::kFailed) << index;
      EXPECT_EQ(outcome.reason, absl::InvalidArgumentError(kTooFewFiles)) << index;
      EXPECT_EQ(rank.loop.state.step, 0);
    });
  }
  for (std::thread& thread : threads) thread.join();
  Train(TrainingOf(api::AutoShard::kData), 6);
}

// Those without files read what the others' have left over.
TEST_F(AutoShardTest, ARunThatHasBegunGoesOnWithMoreReplicasThanFiles) {
  api::TrainingSpec training = TrainingOf(api::AutoShard::kFile);
  const Outcome whole = Train(training, 2);
  for (const int world : {6, 8}) {
    SCOPED_TRACE(world);
    const TempDirectory checkpoints;
    api::TrainingSpec begins = training;
    begins.epochs.reset();
    begins.steps = 3;
    Train(begins, 2, &checkpoints);
    ::testing::internal::CaptureStderr();
    const Outcome resumed = Train(training, world, &checkpoints);
    const std::string log = ::testing::internal::GetCapturedStderr();
    ExpectExact(resumed, 2);
    EXPECT_EQ(resumed.state.step, whole.state.step) << "the batch has its size";
    const std::string text = "there are fewer training files than replicas";
    ASSERT_NE(log.find(text), std::string::npos) << log;
    EXPECT_EQ(log.find(text), log.rfind(text)) << "one rank says so: " << log;
    EXPECT_THAT(log, HasSubstr(fmt::format("\"files\":5,\"replicas\":{}", world)));
  }
}

// Known before the file is opened.
TEST_F(AutoShardTest, AFormatOfOneFileIsRefusedWhateverTheStep) {
  SessionOptions options{
      .training = TrainingOf(api::AutoShard::kFile), .world = 2, .backend = "reference"};
  options.training.dataset.format = api::DatasetFormat::kIdx;
  const absl::Status status = Session::Create(options).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("File with 1 training file for 2 replicas"));
  options.world = 1;
  EXPECT_TRUE(absl::IsNotFound(Session::Create(options).status()));
}

TEST_F(AutoShardTest, ACheckpointOfAnotherPolicyIsRefused) {
  const auto session_of = [&](api::AutoShard policy, int world) {
    return *Session::Create(
        {.training = TrainingOf(policy), .world = world, .backend = "reference"});
  };
  const auto restored = [&](const Snapshot& snapshot, api::AutoShard policy, int world) {
    RunState state;
    return std::string(RestoreSnapshot(snapshot, *session_of(policy, world), state).message());
  };
  Snapshot data = MakeSnapshot(*session_of(api::AutoShard::kData, 2), {.step = 1}, Time());
  EXPECT_EQ(restored(data, api::AutoShard::kAuto, 3), "");
  EXPECT_THAT(restored(data, api::AutoShard::kFile, 2),
              HasSubstr("was saved with autoShard = \"Data\", this job has \"File\""));
  data.state["settings"].erase("autoShard");  // an earlier version's
  EXPECT_EQ(restored(data, api::AutoShard::kData, 2), "");
  const Snapshot off = MakeSnapshot(*session_of(api::AutoShard::kOff, 2), {.step = 1}, Time());
  EXPECT_EQ(restored(off, api::AutoShard::kOff, 2), "");
  EXPECT_THAT(restored(off, api::AutoShard::kOff, 3),
              HasSubstr("autoShard = \"Off, 2 replicas\", this job has \"Off, 3 replicas\""));
}

}  // namespace
}  // namespace lockstep::train
