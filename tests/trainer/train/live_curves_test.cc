#include "trainer/train/reporter.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "tests/support/temp_directory.h"
#include "tests/trainer/train/rank.h"

namespace lockstep::train {
namespace {

// What somebody who looks at the run's curves finds on the disk.
class LiveCurvesTest : public ::testing::Test {
 protected:
  LiveCurvesTest() {
    training_ = SmallTraining();
    training_.summaries = {.directory = folder_.At("logs"), .every_steps = 1};
    training_.evaluation.every_epochs = 100;
  }
  std::string OnDisk() {
    std::string all;
    for (const auto& file : std::filesystem::directory_iterator(training_.summaries.directory)) {
      all += ReadTextFile(file.path());
    }
    return all;
  }
  bool OnDiskIs(const std::string& tag) { return OnDisk().find(tag) != std::string::npos; }

  TempDirectory folder_;
  api::TrainingSpec training_;
  LocalRendezvousHub hub_{1};
};

TEST_F(LiveCurvesTest, CurvesReachTheDiskWhileTrainingGoesOn) {
  Rank rank(training_, 1, hub_, 0);
  Reporter& reporter = rank.reporter;
  Membership alone{.generation = 1, .rank = 0, .members = std::vector<Member>(1)};
  reporter.GenerationStarted(alone, *rank.strategy, {.step = 0});
  const StepTotals totals{.loss = 1, .correct = 1, .examples = 1};
  reporter.StepDone(totals, {.step = 1});
  rank.clock.Advance(std::chrono::seconds(10));
  reporter.StepDone(totals, {.step = 2});
  EXPECT_TRUE(OnDiskIs("train/loss"));
  EXPECT_FALSE(OnDiskIs("test/loss"));
  reporter.Evaluated({.step = 2, .evaluated_step = 2, .test_loss = 1, .test_accuracy = 1});
  EXPECT_TRUE(OnDiskIs("test/loss"));
}

TEST_F(LiveCurvesTest, TheEndOfAGenerationLosesNoneOfThem) {
  Rank rank(training_, 1, hub_, 0);
  rank.faults.before = [&](StrategyFaults::At at) {
    const bool third = at == StrategyFaults::At::kStep && rank.loop.state.step == 3;
    return third ? absl::UnavailableError("a peer is lost") : absl::OkStatus();
  };
  EXPECT_EQ(rank.RunOnce().end, LoopEnd::kGenerationOver);
  EXPECT_TRUE(OnDiskIs("train/loss"));
  const std::string one = "train/loss";
  int points = 0;
  const std::string found = OnDisk();
  for (std::size_t at = found.find(one); at != std::string::npos; at = found.find(one, at + 1)) {
    ++points;
  }
  EXPECT_EQ(points, 3);
}

}  // namespace
}  // namespace lockstep::train
