#include "trainer/strategy/parameter_server/shard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "trainer/backend/reference/reference.h"

namespace lockstep::train {
namespace {

using ::testing::ElementsAre;
using Floats = std::vector<float>;

constexpr std::uint64_t kFence = 7;

// A shard with two ranges of two values each and one statistic, updated by SGD with a learning rate
// of 1 and no momentum, after 10 updates.
class ShardTest : public ::testing::Test {
 protected:
  void Load(int parts) {
    api::TrainingSpec training;
    training.optimizer = {.name = "SGD", .learning_rate = 1};
    auto shard = Shard::Create(training, *backend_);
    ASSERT_TRUE(shard.ok()) << shard.status();
    shard_ = *std::move(shard);
    layout_.parts = parts;
    ASSERT_TRUE(shard_->Load(kFence, layout_, 10, Floats{10, 20, 30, 40, 50}).ok());
  }

  // A gradient of `value` for each of the shard's values, and of 1 for the statistic.
  absl::StatusOr<Shard::Outcome> Push(std::int64_t step, float value, Shard::Gradient how = {}) {
    const Floats gradient(2, value), states(1, 1.0f);
    if (how.fence == 0) how.fence = kFence;
    how.step = step;
    if (how.version == 0) how.version = 10;
    if (!how.skip) {
      how.ranges = {gradient.data(), gradient.data()};
      how.states = states.data();
    }
    return shard_->Push(how);
  }

  absl::StatusOr<Floats> Pull(Shard::Request request) {
    if (request.fence == 0) request.fence = kFence;
    Floats pulled;
    const auto version = shard_->Pull(request, [&](std::span<const float> content) {
      pulled.assign(content.begin(), content.end());
    });
    if (!version.ok()) return version.status();
    version_ = *version;
    return pulled;
  }

  const std::unique_ptr<Backend> backend_ = MakeReferenceBackend();
  ShardLayout layout_{.ranges = {{0, 2}, {6, 8}}, .states = 1, .total_steps = 100, .parameters = 8};
  std::unique_ptr<Shard> shard_;
  std::int64_t version_ = 0;
};

TEST_F(ShardTest, AsyncEachGradientUpdatesTheValuesAndTheStatistics) {
  Load(0);
  const auto outcome = Push(12, 3, {.version = 8, .scale = 2});
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(outcome->staleness, 2);
  EXPECT_FALSE(outcome->dropped);
  EXPECT_THAT(*Pull({}), ElementsAre(4, 14, 24, 34, 51));
  EXPECT_EQ(version_, 11);
}

TEST_F(ShardTest, AsyncARepeatedPushIsAcknowledgedAndNotApplied) {
  Load(0);
  ASSERT_TRUE(Push(11, 3).ok());
  for (const std::int64_t step : {11, 9}) {
    const auto outcome = Push(step, 3);
    ASSERT_TRUE(outcome.ok()) << outcome.status();
    EXPECT_TRUE(outcome->dropped) << "step " << step;
  }
  EXPECT_THAT(*Pull({}), ElementsAre(7, 17, 27, 37, 51));
  EXPECT_EQ(version_, 11);
}

TEST_F(ShardTest, AsyncASkippedGradientCountsAndChangesNothing) {
  Load(0);
  ASSERT_TRUE(Push(10, 0, {.skip = true}).ok());
  EXPECT_TRUE(Push(10, 3)->dropped);
  EXPECT_THAT(*Pull({}), ElementsAre(10, 20, 30, 40, 50));
  EXPECT_EQ(version_, 11);
}

TEST_F(ShardTest, SyncTheSumOfAllPartsIsOneUpdateAtTheNextPull) {
  Load(2);
  ASSERT_TRUE(Push(10, 3, {.part = 1}).ok());
  ASSERT_TRUE(Push(10, 1, {.part = 0}).ok());
  EXPECT_THAT(*Pull({.version = 10}), ElementsAre(10, 20, 30, 40, 50));
  EXPECT_THAT(*Pull({.version = 11, .scale = 0.5}), ElementsAre(8, 18, 28, 38, 52));
  EXPECT_THAT(*Pull({.version = 11, .scale = 0.5}), ElementsAre(8, 18, 28, 38, 52));
  ASSERT_TRUE(Push(11, 1, {.part = 0}).ok());
  ASSERT_TRUE(Push(11, 1, {.part = 1}).ok());
  EXPECT_THAT(*Pull({.version = 12}), ElementsAre(6, 16, 26, 36, 54));
}

TEST_F(ShardTest, SyncARepeatedPartIsAcknowledgedAndNotSummed) {
  Load(3);
  EXPECT_FALSE(Push(10, 3, {.part = 2})->dropped);
  EXPECT_TRUE(Push(10, 3, {.part = 2})->dropped) << "before its turn";
  EXPECT_FALSE(Push(10, 1, {.part = 0})->dropped);
  EXPECT_TRUE(Push(10, 1, {.part = 0})->dropped) << "summed";
  EXPECT_FALSE(Push(10, 1, {.part = 1})->dropped);
  EXPECT_THAT(*Pull({.version = 11}), ElementsAre(5, 15, 25, 35, 53));
  EXPECT_TRUE(Push(10, 1, {.part = 1})->dropped) << "of a step that is made";
  EXPECT_THAT(*Pull({.version = 11}), ElementsAre(5, 15, 25, 35, 53));
}

TEST_F(ShardTest, SyncASkippedStepChangesNothing) {
  Load(2);
  ASSERT_TRUE(Push(10, 1, {.part = 0}).ok());
  ASSERT_TRUE(Push(10, 0, {.part = 1, .skip = true}).ok());
  EXPECT_THAT(*Pull({.version = 11, .skip = true}), ElementsAre(10, 20, 30, 40, 50));
  EXPECT_EQ(version_, 11);
}

TEST_F(ShardTest, SyncWhatTheShardCannotHaveIsRefused) {
  Load(2);
  ASSERT_TRUE(Push(10, 1, {.part = 0}).ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(Pull({.version = 11}).status())) << "a part is missing";
  EXPECT_TRUE(absl::IsFailedPrecondition(Pull({.version = 12}).status()));
  EXPECT_TRUE(absl::IsFailedPrecondition(Push(11, 1).status())) << "a step too early";
  EXPECT_TRUE(absl::IsFailedPrecondition(Push(10, 1, {.part = 2}).status()));
}

// It hung after it was given its task, which a backup worker did for it. Its refusal would be taken
// for a loss of the values.
TEST_F(ShardTest, SyncAWorkerThatIsLateGetsTheNewerValuesAndItsPartIsDropped) {
  Load(1);
  ASSERT_TRUE(Push(10, 1).ok());
  ASSERT_TRUE(Pull({.version = 11}).ok());
  const auto pulled = Pull({.version = 10});
  ASSERT_TRUE(pulled.ok()) << pulled.status();
  EXPECT_THAT(*pulled, ElementsAre(9, 19, 29, 39, 51));
  EXPECT_EQ(version_, 11);
  EXPECT_TRUE(Push(10, 1)->dropped);
}

TEST_F(ShardTest, AnotherFenceIsRefusedAndChangesNothing) {
  for (const int parts : {0, 1}) {
    Load(parts);
    EXPECT_TRUE(absl::IsFailedPrecondition(Push(10, 1, {.fence = 8}).status()));
    EXPECT_TRUE(absl::IsFailedPrecondition(Pull({.fence = 8, .version = 10}).status()));
    EXPECT_THAT(*Pull({.version = 10}), ElementsAre(10, 20, 30, 40, 50));
    EXPECT_EQ(version_, 10);
  }
}

TEST_F(ShardTest, ANewLoadReplacesEverything) {
  Load(0);
  ASSERT_TRUE(Push(10, 1).ok());
  ASSERT_TRUE(shard_->Load(8, layout_, 10, Floats{1, 2, 3, 4, 5}).ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(Push(11, 1).status())) << "the old fence";
  EXPECT_FALSE(Push(10, 1, {.fence = 8})->dropped) << "the steps applied are those of the load";
  EXPECT_THAT(*Pull({.fence = 8}), ElementsAre(0, 1, 2, 3, 6));
}

TEST_F(ShardTest, AShardStaysAsItIsAfterALoadOfAnotherSize) {
  Load(0);
  EXPECT_TRUE(absl::IsInvalidArgument(shard_->Load(8, layout_, 10, Floats{1, 2, 3, 4})));
  EXPECT_TRUE(absl::IsFailedPrecondition(Push(10, 1, {.fence = 8}).status()));
  EXPECT_THAT(*Pull({}), ElementsAre(10, 20, 30, 40, 50));
}

TEST_F(ShardTest, AnUnknownOptimizerIsNamed) {
  api::TrainingSpec training;
  training.optimizer.name = "Lion";
  const auto shard = Shard::Create(training, *backend_);
  EXPECT_TRUE(absl::IsInvalidArgument(shard.status()));
  EXPECT_THAT(std::string(shard.status().message()), ::testing::HasSubstr("Lion"));
}

TEST_F(ShardTest, ALayoutThatDoesNotFitItselfIsRefused) {
  Load(0);
  const auto refuses = [this](const ShardLayout& layout) {
    return absl::IsInvalidArgument(shard_->FloatsToLoad(layout).status()) &&
           absl::IsInvalidArgument(shard_->Load(8, layout, 0, Floats(5)));
  };
  for (const ShardRanges& ranges :
       {ShardRanges{{6, 8}, {0, 2}}, ShardRanges{{0, 2}, {1, 3}}, ShardRanges{{0, 2}, {7, 9}},
        ShardRanges{{-2, 2}}, ShardRanges{{2, 0}, {2, 8}}}) {
    ShardLayout layout = layout_;
    layout.ranges = ranges;
    EXPECT_TRUE(refuses(layout)) << ranges.front().begin << " to " << ranges.back().end;
  }
  ShardLayout layout = layout_;
  layout.segments = {{.begin = 0, .end = 3, .decays = true}, {.begin = 2, .end = 4}};
  EXPECT_TRUE(refuses(layout));
  layout.segments = {{.begin = 0, .end = 5, .decays = true}};
  EXPECT_TRUE(refuses(layout));
  layout = layout_;
  layout.states = -1;
  EXPECT_TRUE(refuses(layout));
  layout = layout_;
  layout.parts = -1;
  EXPECT_TRUE(refuses(layout));
  EXPECT_EQ(shard_->fence(), kFence) << "the values that it has stay";
  EXPECT_EQ(*shard_->FloatsToLoad(layout_), 5);
}

}  // namespace
}  // namespace lockstep::train
