#include "trainer/comm/gradient_reducer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

#include "base/check.h"
#include "tests/support/count_allocations.h"
#include "tests/support/local_group.h"
#include "tests/support/spawn_ranks.h"
#include "trainer/comm/single_communicator.h"

namespace lockstep::train {
namespace {

using ::testing::ElementsAre;
using Bucket = GradientReducer::Bucket;

// Two ranks, of which this is one; its sums are over as soon as the test lets them be.
class FakeCommunicator final : public Communicator {
 public:
  explicit FakeCommunicator(float* buffer) : buffer_(buffer) { calls_.reserve(10'000); }
  int rank() const override { return 0; }
  int size() const override { return 2; }
  std::string Name() const override { return "fake"; }
  absl::Status AllReduceSum(std::span<float> data) override {
    std::unique_lock lock(mutex_);
    const auto begin = data.data() - buffer_;
    calls_.push_back({begin, begin + static_cast<std::int64_t>(data.size())});
    changed_.notify_all();
    changed_.wait(lock, [&] { return !held_ || aborted_; });
    if (aborted_) return absl::CancelledError("aborted");
    return failing_ ? absl::UnavailableError("rank 1 is dead") : absl::OkStatus();
  }
  absl::Status Broadcast(std::span<std::byte>, int) override { return absl::OkStatus(); }
  absl::Status Barrier() override { return absl::OkStatus(); }
  void Abort() override { Set(aborted_, true); }

  void Hold(bool held) { Set(held_, held); }
  void Fail() { Set(failing_, true); }
  bool aborted() {
    const std::lock_guard lock(mutex_);
    return aborted_;
  }
  std::vector<Bucket> WaitForCalls(std::size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::seconds(20), [&] { return calls_.size() >= count; });
    return calls_;
  }

 private:
  void Set(bool& flag, bool value) {
    const std::lock_guard lock(mutex_);
    flag = value;
    changed_.notify_all();
  }
  float* const buffer_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool held_ = false, failing_ = false, aborted_ = false;
  std::vector<Bucket> calls_;
};

TEST(PlanBucketsTest, CutsAtLayerStartsFromTheEnd) {
  const std::vector<std::int64_t> starts{0, 10, 30, 60};
  EXPECT_THAT(GradientReducer::PlanBuckets(starts, 100, 1),
              ElementsAre(Bucket{60, 100}, Bucket{30, 60}, Bucket{10, 30}, Bucket{0, 10}));
  EXPECT_THAT(GradientReducer::PlanBuckets(starts, 100, 50),
              ElementsAre(Bucket{30, 100}, Bucket{0, 30}));
  EXPECT_THAT(GradientReducer::PlanBuckets(starts, 100, 1000), ElementsAre(Bucket{0, 100}));
}

TEST(PlanBucketsTest, CoreCnnsDenseLayersDoNotWaitForItsConvolutions) {
  // conv 5x5x32, conv 5x5x64, dense 1024, dense 10: weights and biases.
  const std::vector<std::int64_t> starts{0, 832, 52'096, 3'264'384};
  EXPECT_THAT(GradientReducer::PlanBuckets(starts, 3'274'634, 1 << 20),
              ElementsAre(Bucket{52'096, 3'274'634}, Bucket{0, 52'096}));
}

TEST(PlanBucketsTest, LayersWithoutParametersAndNothingAtAll) {
  EXPECT_THAT(GradientReducer::PlanBuckets(std::vector<std::int64_t>{0, 5, 5, 5, 9, 9}, 9, 1),
              ElementsAre(Bucket{5, 9}, Bucket{0, 5}));
  EXPECT_THAT(GradientReducer::PlanBuckets({}, 0, 100), ElementsAre());
  EXPECT_THAT(GradientReducer::PlanBuckets({}, 7, 100), ElementsAre(Bucket{0, 7}));
  EXPECT_THROW(GradientReducer::PlanBuckets(std::vector<std::int64_t>{4, 2}, 9, 1), CheckFailure);
}

class GradientReducerTest : public ::testing::Test {
 protected:
  std::vector<float> buffer_ = std::vector<float>(100);
  FakeCommunicator communicator_{buffer_.data()};
  std::unique_ptr<GradientReducer> reducer_ = GradientReducer::Create(
      communicator_, buffer_, {Bucket{60, 100}, Bucket{30, 60}, Bucket{0, 30}});
};

TEST_F(GradientReducerTest, ABucketStartsWhenItsLastPieceIsReadyNotBefore) {
  reducer_->Ready(61);
  reducer_->Ready(60);
  EXPECT_THAT(communicator_.WaitForCalls(1), ElementsAre(Bucket{60, 100}));
  reducer_->Ready(10);  // completes the second, not the third
  EXPECT_THAT(communicator_.WaitForCalls(2), ElementsAre(Bucket{60, 100}, Bucket{30, 60}));
  reducer_->Ready(0);
  EXPECT_TRUE(reducer_->Wait().ok());
  EXPECT_THAT(communicator_.WaitForCalls(3),
              ElementsAre(Bucket{60, 100}, Bucket{30, 60}, Bucket{0, 30}));
}

TEST_F(GradientReducerTest, WaitCompletesTheStep) {
  EXPECT_TRUE(reducer_->Wait().ok());
  EXPECT_EQ(communicator_.WaitForCalls(3).size(), 3u);
  EXPECT_TRUE(reducer_->Wait().ok());
  EXPECT_EQ(communicator_.WaitForCalls(6).size(), 6u);
}

TEST_F(GradientReducerTest, GoingUpwardsIsABrokenInvariant) {
  reducer_->Ready(50);
  EXPECT_THROW(reducer_->Ready(51), CheckFailure);
  EXPECT_THROW(reducer_->Ready(-1), CheckFailure);
}

TEST_F(GradientReducerTest, AFailureSurfacesInThisAndEveryLaterWait) {
  communicator_.Fail();
  reducer_->Ready(60);
  EXPECT_EQ(reducer_->Wait().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(reducer_->Wait().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(communicator_.WaitForCalls(1), ElementsAre(Bucket{60, 100}));
}

TEST_F(GradientReducerTest, AbortEndsTheWait) {
  communicator_.Hold(true);
  std::jthread aborter([&] {
    communicator_.WaitForCalls(1);
    communicator_.Abort();
  });
  EXPECT_EQ(reducer_->Wait().code(), absl::StatusCode::kCancelled);
}

TEST_F(GradientReducerTest, DestroyedInMidStepItAborts) {
  communicator_.Hold(true);
  reducer_->Ready(60);
  communicator_.WaitForCalls(1);
  reducer_.reset();
  EXPECT_TRUE(communicator_.aborted());
}

TEST_F(GradientReducerTest, DestroyedBetweenStepsItLeavesTheCommunicatorAlone) {
  ASSERT_TRUE(reducer_->Wait().ok());
  reducer_.reset();
  EXPECT_FALSE(communicator_.aborted());
}

TEST_F(GradientReducerTest, NothingIsAllocatedInAStep) {
  ASSERT_TRUE(reducer_->Wait().ok());
  const long before = Allocations();
  for (int step = 0; step < 100; ++step) {
    reducer_->Ready(60);
    reducer_->Ready(30);
    if (!reducer_->Wait().ok()) break;
  }
  EXPECT_EQ(Allocations() - before, 0);
  EXPECT_EQ(communicator_.WaitForCalls(303).size(), 303u);
}

TEST(GradientReducerOfOneTest, NeedsNoThreadAndKeepsTheGradients) {
  SingleCommunicator communicator;
  std::vector<float> buffer(10, 3);
  const auto reducer = GradientReducer::Create(communicator, buffer, {{0, 10}});
  reducer->Ready(5);
  EXPECT_TRUE(reducer->Wait().ok());
  EXPECT_EQ(buffer, std::vector<float>(10, 3));
}

TEST(GradientReducerOfOneTest, BucketsThatLeaveAHoleAreABrokenInvariant) {
  SingleCommunicator communicator;
  std::vector<float> buffer(10);
  EXPECT_THROW(GradientReducer::Create(communicator, buffer, {{5, 10}}), CheckFailure);
  EXPECT_THROW(GradientReducer::Create(communicator, buffer, {{5, 10}, {0, 4}}), CheckFailure);
  EXPECT_THROW(GradientReducer::Create(communicator, buffer, {{0, 5}, {5, 10}}), CheckFailure);
}

TEST(GradientReducerOfManyTest, SumsWhatEachRankWroteStepAfterStep) {
  constexpr int kRanks = 3;
  auto group = MakeLocalGroup(kRanks);
  SpawnThreads(kRanks, [&](int rank) {
    std::vector<float> buffer(1000);
    const auto reducer = GradientReducer::Create(*group[static_cast<std::size_t>(rank)], buffer,
                                                 {{600, 1000}, {300, 600}, {0, 300}});
    for (int step = 0; step < 200; ++step) {
      for (std::int64_t end = 1000; end > 0; end -= 100) {
        std::fill(buffer.begin() + end - 100, buffer.begin() + end,
                  static_cast<float>(step + rank));
        reducer->Ready(end - 100);
      }
      ASSERT_TRUE(reducer->Wait().ok());
      ASSERT_EQ(buffer, std::vector<float>(1000, static_cast<float>(kRanks * step + 3)));
    }
  });
}

}  // namespace
}  // namespace lockstep::train
