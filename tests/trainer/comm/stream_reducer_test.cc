// Gradients in memory that the host cannot reach, summed beside the computation.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

#include "base/check.h"
#include "tests/support/local_group.h"
#include "trainer/check/device_array.h"
#include "trainer/comm/gradient_reducer.h"

namespace lockstep::train {
namespace {

using Bucket = GradientReducer::Bucket;
const std::vector<Bucket> kBuckets = {{60, 100}, {30, 60}, {0, 30}};

void OnThreads(int ranks, const std::function<void(int)>& run) {
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < ranks; ++rank) threads.emplace_back(run, rank);
}

// One rank's device and its gradients.
class DeviceRank {
 public:
  explicit DeviceRank(Communicator& communicator)
      : gradients_(*backend_, std::vector<float>(100)),
        is_summed_(*backend_, {'\1'}),
        transfer_(backend_->MakeStream()),
        staged_(MakeStagedCommunicator(communicator, gradients_.data(), staging_)),
        reducer_(GradientReducer::CreateOnStreams(
            communicator.size(), *staged_, kBuckets,
            {.memory = gradients_.data(),
             .is_summed = reinterpret_cast<bool*>(is_summed_.data()),
             .compute = &backend_->stream(),
             .transfer = transfer_.get()})) {}

  GradientReducer& reducer() { return *reducer_; }
  // As a backward pass does it: a part is computed, then declared ready.
  void Compute(float value) {
    const std::vector<float> part(20, value);
    for (int begin = 80; begin >= 0; begin -= 20) {
      backend_->Upload(part.data(), gradients_.data() + begin, part.size() * sizeof(float));
      reducer_->Ready(begin);
    }
  }
  // After the sums.
  void Overwrite(std::size_t floats, float value) {
    const std::vector<float> part(floats, value);
    backend_->Upload(part.data(), gradients_.data(), part.size() * sizeof(float));
  }
  std::vector<float> Gradients() const { return gradients_.Values(); }
  void FailTransfers() {
    transfer_->Call([] { throw std::runtime_error("the test broke the device"); });
  }
  bool IsSummed() const { return is_summed_.Values()[0] != 0; }

 private:
  const std::unique_ptr<Backend> backend_ = MakeBackend({.name = "async-reference"});
  std::vector<float> staging_ = std::vector<float>(100);
  DeviceArray<float> gradients_;
  DeviceArray<char> is_summed_;
  const std::unique_ptr<Stream> transfer_;
  const std::unique_ptr<StreamCommunicator> staged_;
  const std::unique_ptr<GradientReducer> reducer_;
};

TEST(StreamReducerTest, EachStepHasTheSumOfItsOwnGradients) {
  const auto group = MakeLocalGroup(3);
  OnThreads(3, [&](int index) {
    DeviceRank rank(*group[static_cast<std::size_t>(index)]);
    for (int step = 0; step < 50; ++step) {
      rank.Compute(static_cast<float>(100 * step + index));
      ASSERT_TRUE(rank.reducer().Wait().ok());
      EXPECT_EQ(rank.Gradients(), std::vector<float>(100, static_cast<float>(300 * step + 3)));
      EXPECT_TRUE(rank.IsSummed());
    }
    EXPECT_TRUE(rank.reducer().status().ok());
  });
}

// What rank 0's device computes after the sum replaces the others' gradients, before their devices
// go on.
TEST(StreamReducerTest, ABroadcastIsOrderedWithTheWorkOfTheDevice) {
  const auto group = MakeLocalGroup(3);
  OnThreads(3, [&](int index) {
    DeviceRank rank(*group[static_cast<std::size_t>(index)]);
    for (int step = 1; step <= 50; ++step) {
      rank.Compute(1);
      ASSERT_TRUE(rank.reducer().Wait().ok());
      if (index == 0) rank.Overwrite(70, static_cast<float>(step));
      ASSERT_TRUE(rank.reducer().BroadcastShares(std::vector<FlatRange>{{0, 70}}).ok());
      std::vector<float> expected(100, 3.0f);
      std::fill_n(expected.begin(), 70, static_cast<float>(step));
      EXPECT_EQ(rank.Gradients(), expected) << "step " << step;
    }
  });
}

// Each rank sends its own range; the last one has none.
TEST(StreamReducerTest, SharesAreOrderedWithTheWorkOfTheDevice) {
  const std::vector<FlatRange> shares = {{0, 40}, {40, 70}, {70, 70}};
  const auto group = MakeLocalGroup(3);
  OnThreads(3, [&](int index) {
    DeviceRank rank(*group[static_cast<std::size_t>(index)]);
    for (int step = 1; step <= 50; ++step) {
      rank.Compute(1);
      ASSERT_TRUE(rank.reducer().Wait().ok());
      rank.Overwrite(70, static_cast<float>(10 * step + index));
      ASSERT_TRUE(rank.reducer().BroadcastShares(shares).ok());
      std::vector<float> expected(100, 3.0f);
      std::fill_n(expected.begin(), 40, static_cast<float>(10 * step));
      std::fill_n(expected.begin() + 40, 30, static_cast<float>(10 * step + 1));
      EXPECT_EQ(rank.Gradients(), expected) << "step " << step;
    }
  });
}

TEST(StreamReducerTest, TheStepAfterABroadcastThatFailedHasNoSums) {
  const auto group = MakeLocalGroup(2);
  OnThreads(2, [&](int index) {
    Communicator& communicator = *group[static_cast<std::size_t>(index)];
    DeviceRank rank(communicator);
    rank.Compute(1);
    (void)rank.reducer().Wait();
    EXPECT_TRUE(rank.IsSummed());
    if (index == 1) return communicator.Abort();
    (void)rank.reducer().BroadcastShares(
        std::vector<FlatRange>{{0, 100}});  // it may not be known yet
    rank.Compute(1);
    (void)rank.reducer().Wait();
    EXPECT_FALSE(rank.IsSummed());
    EXPECT_EQ(rank.reducer().status().code(), absl::StatusCode::kUnavailable);
  });
}

TEST(StreamReducerTest, TheDeviceLearnsThatItsSumsAreNone) {
  const auto group = MakeLocalGroup(2);
  OnThreads(2, [&](int index) {
    Communicator& communicator = *group[static_cast<std::size_t>(index)];
    DeviceRank rank(communicator);
    rank.Compute(1);
    (void)rank.reducer().Wait();
    EXPECT_TRUE(rank.IsSummed());
    if (index == 1) return communicator.Abort();
    rank.Compute(1);
    (void)rank.reducer().Wait();  // it may not be known yet
    EXPECT_FALSE(rank.IsSummed());
    EXPECT_EQ(rank.reducer().status().code(), absl::StatusCode::kUnavailable);
    rank.Compute(1);
    EXPECT_FALSE(rank.reducer().Wait().ok());
    EXPECT_FALSE(rank.IsSummed()) << "nor are the later ones";
  });
}

TEST(StreamReducerTest, DestroyedInMidStepItAborts) {
  const auto group = MakeLocalGroup(2);
  {
    DeviceRank rank(*group[0]);
    rank.reducer().Ready(30);  // the other rank never comes
  }
  std::vector<float> data(1);
  EXPECT_FALSE(group[0]->AllReduceSum(data).ok());
}

TEST(StreamReducerTest, DestroyedAfterItsDeviceHasFailedItDoesNotThrow) {
  const auto group = MakeLocalGroup(2);
  DeviceRank rank(*group[0]);
  rank.FailTransfers();
}

TEST(StreamReducerTest, OneRankKeepsItsGradients) {
  const auto group = MakeLocalGroup(1);
  DeviceRank rank(*group[0]);
  rank.Compute(3);
  EXPECT_TRUE(rank.reducer().Wait().ok());
  EXPECT_EQ(rank.Gradients(), std::vector<float>(100, 3.0f));
}

TEST(StagedCommunicatorTest, OnlyFloatsOfItsMemoryCanBeSummed) {
  const auto backend = MakeBackend({.name = "async-reference"});
  const auto group = MakeLocalGroup(1);
  const DeviceArray<float> memory(*backend, std::vector<float>(8));
  std::vector<float> staging(8);
  const auto staged = MakeStagedCommunicator(*group[0], memory.data(), staging);
  const auto enqueue = [&](std::int64_t begin, std::int64_t count, DType dtype) {
    staged->EnqueueAllReduceSum(memory.data() + begin, count, dtype, backend->stream());
  };
  enqueue(0, 8, DType::kFloat32);
  EXPECT_THROW(enqueue(1, 8, DType::kFloat32), CheckFailure);
  EXPECT_THROW(enqueue(-1, 2, DType::kFloat32), CheckFailure);
  EXPECT_THROW(enqueue(0, 8, DType::kInt32), CheckFailure);
  backend->Synchronize();
}

}  // namespace
}  // namespace lockstep::train
