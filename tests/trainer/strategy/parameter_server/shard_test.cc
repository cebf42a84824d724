#include "trainer/strategy/parameter_server/shard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <future>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/time_limit.h"
#include "trainer/backend/reference/reference.h"

namespace lockstep::train {
namespace {

using ::testing::ElementsAre;
using Floats = std::vector<float>;

constexpr std::uint64_t kFence = 7;

std::unique_ptr<SharedContent> ContentOf(const Floats& floats) {
  auto content = *SharedContent::Create(std::ssize(floats));
  std::ranges::copy(floats, content->data());
  return content;
}

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
    ASSERT_TRUE(shard_->Load(kFence, layout_, 10, ContentOf(Floats{10, 20, 30, 40, 50})).ok());
  }

  // A gradient of `value` for each of the shard's values, and of 1 for the statistic.
  absl::StatusOr<Shard::Outcome> Push(std::int64_t step, float value, Shard::Gradient how = {}) {
    const Floats gradient(4, value), states(1, 1.0f);
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

// Twelve workers pulled a variance of 1 and saw batches of 0.1, with a momentum of 0.9. Had each
// pushed the change that it saw, 1 - 12 * 0.09 would be left.
TEST_F(ShardTest, AsyncStatisticsStayBetweenTheirValueAndWhatWorkersSawHoweverStaleThatIs) {
  layout_.kept_states = {{.end = 1, .kept = 0.9f}};
  Load(0);
  const Floats gradient(4, 0.0f), added = {0.1f * 0.1f};
  ASSERT_TRUE(shard_->Load(8, layout_, 10, ContentOf(Floats{10, 20, 30, 40, 1})).ok());
  float least = 1;
  for (int worker = 0; worker < 12; ++worker) {
    ASSERT_TRUE(shard_
                    ->Push({.fence = 8,
                            .step = 10 + worker,
                            .version = 10,
                            .ranges = {gradient.data(), gradient.data()},
                            .states = added.data()})
                    .ok());
    least = std::min(least, Pull({.fence = 8})->back());
  }
  EXPECT_NEAR(least, 0.1 + 0.9 * std::pow(0.9, 12), 1e-5);
}

TEST_F(ShardTest, AsyncEachGradientUpdatesTheValuesAndTheStatistics) {
  Load(0);
  const auto outcome = Push(12, 3, {.version = 8, .scale = 2});
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(outcome->staleness, 2);
  EXPECT_FALSE(outcome->dropped);
  EXPECT_THAT(*Pull({}), ElementsAre(4, 14, 24, 34, 51));
  EXPECT_EQ(version_, 11);
}

// Each server averages its values once it has updated them, and not for a skipped step.
TEST(ShardWithAnAverageTest, AveragesItsValuesAfterEachUpdate) {
  const auto backend = MakeReferenceBackend();
  api::TrainingSpec training;
  training.optimizer = {.name = "SGD", .learning_rate = 1};
  training.ema = api::EmaSpec{.decay = 0.75};
  const auto shard = *Shard::Create(training, *backend);
  for (const int parts : {0, 1}) {  // Async, Sync
    const std::uint64_t fence = kFence + static_cast<std::uint64_t>(parts);
    const ShardLayout layout{.ranges = {{0, 2}, {6, 8}},
                             .states = 1,
                             .segments = {},
                             .parts = parts,
                             .total_steps = 100,
                             .parameters = 8};
    ASSERT_TRUE(
        shard->Load(fence, layout, 10, ContentOf({10, 20, 30, 40, 50, 10, 20, 30, 40})).ok());
    const Floats gradient(4, 4.0f), states(1, 0.0f);
    const Shard::Gradient push{.fence = fence,
                               .step = 10,
                               .version = 10,
                               .ranges = {gradient.data(), gradient.data()},
                               .states = states.data()};
    ASSERT_TRUE(shard->Push(push).ok());
    Floats pulled;
    const auto read = [&](std::span<const float> content) {
      pulled.assign(content.begin(), content.end());
    };
    ASSERT_TRUE(shard->Pull({.fence = fence, .version = 11, .slots = true}, read).ok());
    EXPECT_THAT(pulled, ElementsAre(6, 16, 26, 36, 50, 9, 19, 29, 39)) << parts;
    ASSERT_TRUE(
        shard->Push({.fence = fence, .step = 11, .version = 11, .skip = true, .ranges = {}}).ok());
    const auto skipped =
        shard->Pull({.fence = fence, .version = 12, .skip = true, .slots = true}, read);
    ASSERT_TRUE(skipped.ok()) << skipped.status();
    EXPECT_EQ(*skipped, 12);
    EXPECT_THAT(pulled, ElementsAre(6, 16, 26, 36, 50, 9, 19, 29, 39)) << parts;
  }
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

// Adam's first update moves each value by the learning rate, whatever was skipped before it, here
// or before the values were loaded.
TEST_F(ShardTest, SkippedUpdatesAreNoneOfTheOptimizer) {
  api::TrainingSpec training;
  training.optimizer = {.name = "Adam", .learning_rate = 1};
  layout_.skipped_steps = 10;
  for (const int parts : {0, 1}) {
    SCOPED_TRACE(parts);
    layout_.parts = parts;
    shard_ = *Shard::Create(training, *backend_);
    Floats content(5 + 2 * 4);
    content[0] = 10;
    ASSERT_TRUE(shard_->Load(kFence, layout_, 10, ContentOf(content)).ok());
    ASSERT_TRUE(Push(10, 0, {.skip = true}).ok());
    ASSERT_TRUE(Pull({.version = 11, .skip = true}).ok());
    ASSERT_TRUE(Push(11, 3).ok());
    EXPECT_NEAR(Pull({.version = 12})->front(), 9, 1e-4);
  }
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

// In the order of parts, 1 is lost beside 2^24 and then 2^24 is taken away: any order in which part
// 2 or 3 comes sooner gives another sum.
TEST_F(ShardTest, SyncTheSumDoesNotDependOnTheOrderOfArrival) {
  constexpr float kLarge = 1 << 24;
  const Floats gradients{kLarge, 1, -kLarge, 1};
  std::vector<int> order{0, 1, 2, 3};
  do {
    Load(4);
    for (const int part : order)
      ASSERT_TRUE(Push(10, gradients[static_cast<std::size_t>(part)], {.part = part}).ok());
    EXPECT_THAT(*Pull({.version = 11}), ElementsAre(9, 19, 29, 39, 54))
        << ::testing::PrintToString(order);
  } while (std::ranges::next_permutation(order).found);
}

TEST_F(ShardTest, SyncNothingOfAStepRemainsInTheNext) {
  Load(2);
  std::int64_t step = 10;
  for (const bool reversed : {false, true, false}) {
    ASSERT_TRUE(Push(step, 1, {.part = reversed ? 1 : 0}).ok());
    ASSERT_TRUE(Push(step, 2, {.part = reversed ? 0 : 1}).ok());
    ASSERT_TRUE(Pull({.version = ++step}).ok());
  }
  EXPECT_THAT(*Pull({.version = 13}), ElementsAre(1, 11, 21, 31, 56));
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
  ASSERT_TRUE(shard_->Load(8, layout_, 10, ContentOf(Floats{1, 2, 3, 4, 5})).ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(Push(11, 1).status())) << "the old fence";
  EXPECT_FALSE(Push(10, 1, {.fence = 8})->dropped) << "the steps applied are those of the load";
  EXPECT_THAT(*Pull({.fence = 8}), ElementsAre(0, 1, 2, 3, 6));
}

// Its caller had lost the connection, and the server takes what was sent on the old one later.
TEST_F(ShardTest, ALoadThatIsRepeatedUndoesNoUpdate) {
  for (const int parts : {0, 1}) {
    Load(parts);
    ASSERT_TRUE(Push(10, 1).ok());
    EXPECT_TRUE(shard_->Load(kFence, layout_, 10, ContentOf(Floats{10, 20, 30, 40, 50})).ok());
    EXPECT_THAT(*Pull({.version = 11}), ElementsAre(9, 19, 29, 39, 51));
    EXPECT_TRUE(Push(10, 1)->dropped);
  }
}

TEST_F(ShardTest, AShardStaysAsItIsAfterALoadOfAnotherSize) {
  Load(0);
  EXPECT_TRUE(absl::IsInvalidArgument(shard_->Load(8, layout_, 10, ContentOf(Floats{1, 2, 3, 4}))));
  EXPECT_TRUE(absl::IsFailedPrecondition(Push(10, 1, {.fence = 8}).status()));
  EXPECT_THAT(*Pull({}), ElementsAre(10, 20, 30, 40, 50));
}

// 0.1 of the tensor's norm, in the direction of a gradient of ones.
TEST_F(ShardTest, EachSegmentHasATrustOfItsOwn) {
  api::TrainingSpec training;
  training.optimizer = {.name = "LARS", .learning_rate = 1, .trust_coefficient = 0.1};
  layout_.ranges = {{0, 4}};
  layout_.segments = {{.begin = 0, .end = 1}, {.begin = 1, .end = 3}, {.begin = 3, .end = 4}};
  layout_.segments[2].decays = false;
  shard_ = *Shard::Create(training, *backend_);
  ASSERT_TRUE(shard_->Load(kFence, layout_, 10, ContentOf({10, 30, 40, 50, 60})).ok());
  ASSERT_TRUE(Push(10, 1).ok());
  const Floats values = *Pull({});
  EXPECT_FLOAT_EQ(values[0], 10 - 1);
  EXPECT_NEAR(values[1], 30 - 5 / std::sqrt(2.0), 1e-5);
  EXPECT_NEAR(values[2], 40 - 5 / std::sqrt(2.0), 1e-5);
  EXPECT_FLOAT_EQ(values[3], 50 - 1) << "the gradient itself, times the rate";
}

TEST_F(ShardTest, WhatIsLoadedStaysWhereItIs) {
  Load(0);
  auto content = ContentOf({1, 2, 3, 4, 5});
  const std::string locator = content->locator();
  ASSERT_FALSE(locator.empty()) << "no shared memory here";
  ASSERT_TRUE(shard_->Load(8, layout_, 10, std::move(content)).ok());
  EXPECT_EQ(shard_->Locate({.fence = 8})->memory, locator);
  EXPECT_THAT(*Pull({.fence = 8}), ElementsAre(1, 2, 3, 4, 5));
}

// The content after two updates continues on another shard as it does on this one: the optimizer's
// slots and the number of updates, which Adam's correction of its bias depends on, are in it.
TEST_F(ShardTest, AdamsSlotsMoveWithTheContent) {
  api::TrainingSpec training;
  training.optimizer = {.name = "Adam", .learning_rate = 1};
  const auto push = [&](Shard& shard, std::int64_t step, float value) {
    const Floats gradient{value, -value}, states{0};
    ASSERT_TRUE(shard
                    .Push({.fence = kFence,
                           .step = step,
                           .ranges = {gradient.data(), gradient.data()},
                           .states = states.data()})
                    .ok());
  };
  const auto content = [](Shard& shard) {
    Floats all;
    EXPECT_TRUE(shard
                    .Pull({.fence = kFence, .slots = true},
                          [&](auto read) { all.assign(read.begin(), read.end()); })
                    .ok());
    return all;
  };
  const auto first = *Shard::Create(training, *backend_);
  const auto second = *Shard::Create(training, *backend_);
  Floats begin(5 + 2 * 4);
  begin[0] = 10;
  ASSERT_TRUE(first->Load(kFence, layout_, 0, ContentOf(begin)).ok());
  EXPECT_EQ(first->FloatsToLoad(first->layout()).value(), std::ssize(begin));
  push(*first, 0, 3);
  push(*first, 1, -1);
  const Floats moved = content(*first);
  EXPECT_NE(Floats(moved.begin() + 5, moved.end()), Floats(8)) << "the slots";
  ASSERT_TRUE(second->Load(kFence, layout_, 2, ContentOf(moved)).ok());
  push(*first, 2, 2);
  push(*second, 2, 2);
  EXPECT_EQ(content(*second), content(*first));
  EXPECT_NE(content(*second), moved);
}

// Each copies all values, which takes long.
TEST_F(ShardTest, PullsReadTogether) {
  for (const int parts : {0, 2}) {
    Load(parts);
    const Shard::Request request{.fence = kFence, .version = 10};
    std::promise<void> other_reads;
    std::future<bool> other;
    auto met = std::future_status::deferred;
    const auto read = [&](std::span<const float>) {
      other = std::async(std::launch::async, [&] {
        return shard_->Pull(request, [&](std::span<const float>) { other_reads.set_value(); }).ok();
      });
      met = other_reads.get_future().wait_for(testing::Slowed(std::chrono::seconds(60)));
    };
    EXPECT_TRUE(shard_->Pull(request, read).ok());
    EXPECT_TRUE(other.get());
    EXPECT_EQ(met, std::future_status::ready) << parts << " parts";
  }
}

// The gradients would never arrive where workers always pull.
TEST_F(ShardTest, APushWaitsForNoPullThatBeginsAfterIt) {
  Load(0);
  std::atomic<bool> ends = false;
  std::atomic<int> pulls = 0;
  std::vector<std::jthread> workers;
  for (int i = 0; i < 3; ++i) {
    workers.emplace_back([&] {
      while (!ends) {
        EXPECT_TRUE(shard_
                        ->Pull({.fence = kFence},
                               [&](std::span<const float>) {
                                 ++pulls;
                                 std::this_thread::sleep_for(std::chrono::milliseconds(5));
                               })
                        .ok());
      }
    });
  }
  while (pulls < 10) std::this_thread::yield();
  auto pushed = std::async(std::launch::async, [&] {
    for (int step = 10; step < 20; ++step) EXPECT_TRUE(Push(step, 1).ok());
  });
  const bool arrived =
      pushed.wait_for(testing::Slowed(std::chrono::seconds(60))) == std::future_status::ready;
  ends = true;
  EXPECT_TRUE(arrived);
}

TEST_F(ShardTest, CountsWhatItDoes) {
  Load(0);
  ASSERT_TRUE(Push(10, 1, {.version = 10}).ok());
  ASSERT_TRUE(Push(11, 1, {.version = 10}).ok());
  ASSERT_TRUE(Push(12, 1, {.version = 9}).ok());
  ASSERT_TRUE(Push(12, 1, {.version = 10}).ok()) << "once more";
  ASSERT_TRUE(Push(13, 0, {.version = 13, .skip = true}).ok());
  ASSERT_TRUE(Pull({}).ok());
  const ShardCounts counts = shard_->counts();
  EXPECT_EQ(counts.updates, 3);
  EXPECT_EQ(counts.dropped, 1);
  EXPECT_EQ(counts.pushed_bytes, 4 * 5 * 4) << "four gradients of five floats";
  EXPECT_EQ(counts.pulled_bytes, 5 * 4);
  EXPECT_THAT(counts.staleness.counts, ElementsAre(2, 1, 0, 1, 0, 0, 0, 0, 0, 0));
  EXPECT_EQ(counts.staleness.sum, 4);
}

TEST_F(ShardTest, SyncCountsOneUpdateOfAllParts) {
  Load(2);
  ASSERT_TRUE(Push(10, 1, {.part = 0}).ok());
  ASSERT_TRUE(Push(10, 1, {.part = 1}).ok());
  ASSERT_TRUE(Pull({.version = 11}).ok());
  ASSERT_TRUE(Pull({.version = 11}).ok());
  EXPECT_TRUE(Push(10, 1, {.part = 1})->dropped) << "too late";
  const ShardCounts counts = shard_->counts();
  EXPECT_EQ(counts.updates, 1);
  EXPECT_EQ(counts.dropped, 1);
  EXPECT_EQ(counts.staleness.counts[0], 2);
}

TEST_F(ShardTest, ALoadByALeadingProcessThatIsSupersededChangesNothing) {
  Load(0);
  const Incarnation first{.pod_started = 100, .process_number = 2};
  const Incarnation second{.pod_started = 200, .process_number = 1};
  shard_->LeaderCame(second);
  shard_->LeaderCame(first);
  EXPECT_TRUE(shard_->IsSuperseded(first));
  EXPECT_FALSE(shard_->IsSuperseded(second));
  const Floats content{1, 1, 1, 1, 1};
  EXPECT_TRUE(absl::IsAborted(shard_->Load(8, layout_, 0, ContentOf(content), first)));
  EXPECT_THAT(*Pull({}), ElementsAre(10, 20, 30, 40, 50));
  EXPECT_TRUE(shard_->Load(9, layout_, 0, ContentOf(content), second).ok());
}

// A server has a thread for each worker, and more that come and go. With a team of OpenMP threads
// for each of them, workers times cores would compete for the cores.
TEST(ShardThreadsTest, PushesFromManyThreadsUseOneTeam) {
  constexpr int kCallers = 4, kTeam = 6;
  constexpr std::int64_t kValues = 1 << 20;
  const auto backend = MakeBackend({.name = "cpu", .threads = kTeam});
  api::TrainingSpec training;
  training.optimizer = {.name = "SGD", .learning_rate = 1};
  const auto shard = *Shard::Create(training, *backend);
  ASSERT_TRUE(shard
                  ->Load(kFence, {.ranges = {{0, kValues}}, .parameters = kValues}, 0,
                         ContentOf(Floats(kValues)))
                  .ok());
  const Floats gradient(kValues, 1);
  const auto threads = [] {
    const std::filesystem::directory_iterator tasks("/proc/self/task");
    return std::distance(begin(tasks), end(tasks));
  };
  const auto before = threads();
  std::barrier all(kCallers + 1);
  std::vector<std::jthread> callers;
  for (int i = 0; i < kCallers; ++i) {
    callers.emplace_back([&, i] {
      EXPECT_TRUE(shard->Push({.fence = kFence, .step = i, .ranges = {gradient.data()}}).ok());
      all.arrive_and_wait();  // all have pushed
      all.arrive_and_wait();  // the threads are counted
    });
  }
  all.arrive_and_wait();
  EXPECT_LE(threads() - before, kCallers + kTeam);
  all.arrive_and_wait();
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
           absl::IsInvalidArgument(shard_->Load(8, layout, 0, ContentOf(Floats(5))));
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
  for (const KeptStates& run : {KeptStates{2, 0.5f}, KeptStates{1, 1.5f}, KeptStates{1, NAN}}) {
    layout = layout_;
    layout.kept_states = {run};
    EXPECT_TRUE(refuses(layout)) << run.end << " " << run.kept;
  }
  layout = layout_;
  layout.parts = -1;
  EXPECT_TRUE(refuses(layout));
  EXPECT_EQ(shard_->fence(), kFence) << "the values that it has stay";
  EXPECT_EQ(*shard_->FloatsToLoad(layout_), 5);
}

}  // namespace
}  // namespace lockstep::train
