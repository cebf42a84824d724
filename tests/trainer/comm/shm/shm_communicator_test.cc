// Tests the shared-memory algorithms with threads on one mapping, so that ThreadSanitizer sees
// every access.
#include "trainer/comm/shm/shm_communicator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <vector>

#include "tests/support/spawn_ranks.h"
#include "tests/support/time_limit.h"

namespace lockstep::train {
namespace {

constexpr std::size_t kFloats = 5'000;

class ShmThreads {
 public:
  explicit ShmThreads(int size)
      : size_(size),
        barrier_(std::make_unique<BarrierMemory>()),
        bounces_(static_cast<std::size_t>(size), std::vector<std::byte>(kBounceBytes)),
        gradients_(static_cast<std::size_t>(size), std::vector<float>(kFloats)) {}

  std::unique_ptr<ShmCommunicator> Make(
      int rank, Duration timeout = std::chrono::seconds(20),
      std::function<bool(int)> alive = [](int) { return true; }) {
    ShmView view;
    view.rank = rank;
    view.size = size_;
    view.barrier = barrier_.get();
    view.floats = kFloats;
    view.alive = std::move(alive);
    for (auto& bounce : bounces_) view.bounces.push_back(bounce.data());
    for (auto& gradients : gradients_) view.gradients.push_back(gradients.data());
    return std::make_unique<ShmCommunicator>(std::move(view), timeout, std::stop_token());
  }
  std::span<float> gradients(int rank) { return gradients_[static_cast<std::size_t>(rank)]; }
  BarrierMemory& barrier() { return *barrier_; }

 private:
  int size_;
  std::unique_ptr<BarrierMemory> barrier_;
  std::vector<std::vector<std::byte>> bounces_;
  std::vector<std::vector<float>> gradients_;
};

TEST(ShmCommunicatorTest, MixedCollectivesOverSharedPagesHaveNoRaces) {
  for (const int size : {2, 3, 5}) {
    ShmThreads threads(size);
    std::vector<std::unique_ptr<ShmCommunicator>> ranks;
    for (int rank = 0; rank < size; ++rank) ranks.push_back(threads.Make(rank));
    SpawnThreads(size, [&](int rank) {
      Communicator& communicator = *ranks[static_cast<std::size_t>(rank)];
      std::vector<float> outside(200'000);
      for (int step = 0; step < 60; ++step) {
        const auto offset = static_cast<std::size_t>(step % 17);
        const auto inside = threads.gradients(rank).subspan(offset, kFloats - 20);
        std::fill(inside.begin(), inside.end(), static_cast<float>(rank + step));
        ASSERT_TRUE(communicator.AllReduceSum(inside).ok());
        const auto sum = static_cast<float>(size * step + size * (size - 1) / 2);
        ASSERT_TRUE(std::all_of(inside.begin(), inside.end(), [&](float x) { return x == sum; }));
        if (step % 10 != 0) continue;
        std::fill(outside.begin(), outside.end(), static_cast<float>(rank + step));
        ASSERT_TRUE(communicator.AllReduceSum(outside).ok());
        ASSERT_TRUE(std::all_of(outside.begin(), outside.end(), [&](float x) { return x == sum; }));
        outside[199'999] = static_cast<float>(rank);
        const int root = step / 10 % size;
        ASSERT_TRUE(communicator.Broadcast(std::as_writable_bytes(std::span(outside)), root).ok());
        ASSERT_EQ(outside[199'999], static_cast<float>(root));
        ASSERT_TRUE(communicator.Barrier().ok());
      }
    });
  }
}

TEST(ShmCommunicatorTest, EveryWaitingRankLearnsWhichPeerDied) {
  ShmThreads threads(3);
  const auto alive = [](int rank) { return rank != 1; };
  auto first = threads.Make(0, std::chrono::seconds(20), alive);
  auto last = threads.Make(2, std::chrono::seconds(20), alive);
  SpawnThreads(2, [&](int thread) {
    const auto status = (thread == 0 ? first : last)->Barrier();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
    EXPECT_EQ(std::string(status.message()), "collective: the process of rank 1 has died");
  });
}

// The rank has set `arrived`, but is not counted in `arrivals`.
TEST(ShmCommunicatorTest, ARankThatDiesWhileItArrivesIsDetectedBeforeTheTimeout) {
  ShmThreads threads(2);
  threads.barrier().ranks[1].arrived = 1;
  const auto start = std::chrono::steady_clock::now();
  const auto status =
      threads.Make(0, std::chrono::seconds(60), [](int rank) { return rank != 1; })->Barrier();
  EXPECT_EQ(std::string(status.message()), "collective: the process of rank 1 has died");
  EXPECT_LT(std::chrono::steady_clock::now() - start, testing::TimeLimit(std::chrono::seconds(20)));
}

TEST(ShmCommunicatorTest, ALatePeerIsNamed) {
  ShmThreads threads(2);
  const auto status = threads.Make(0, std::chrono::milliseconds(50))->Barrier();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(std::string(status.message()), "collective: rank 1 did not arrive within 50 ms");
}

TEST(ShmCommunicatorTest, DifferentCollectivesAreNamedOnBothSides) {
  ShmThreads threads(2);
  auto first = threads.Make(0), second = threads.Make(1);
  SpawnThreads(2, [&](int rank) {
    const auto status = rank == 0 ? first->Barrier() : second->AllReduceSum(threads.gradients(1));
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_NE(std::string(status.message()).find("AllReduceSum of 5000 at 0"), std::string::npos)
        << status;
  });
}

TEST(ShmCommunicatorTest, CallsOnABrokenGroupKeepTheLastAnnouncements) {
  ShmThreads threads(2);
  auto first = threads.Make(0), second = threads.Make(1);
  SpawnThreads(2, [&](int rank) { ASSERT_TRUE((rank == 0 ? first : second)->Barrier().ok()); });
  const auto announced = threads.barrier().ranks[0].announced;
  first->Abort();
  for (int i = 0; i < 4; ++i) EXPECT_FALSE(first->AllReduceSum(threads.gradients(0)).ok());
  EXPECT_EQ(threads.barrier().ranks[0].announced, announced);
}

TEST(ShmCommunicatorTest, AStopTokenAborts) {
  ShmThreads threads(2);
  std::stop_source source;
  ShmView view;
  view.size = 2;
  view.barrier = &threads.barrier();
  view.alive = [](int) { return true; };
  ShmCommunicator communicator(view, std::chrono::seconds(20), source.get_token());
  std::jthread stopper([&] { source.request_stop(); });
  EXPECT_EQ(communicator.Barrier().code(), absl::StatusCode::kCancelled);
}

TEST(ShmCommunicatorTest, CountersMayWrapAround) {
  ShmThreads threads(2);
  // The state after 2^31 - 2 barriers: `word` counts modulo 2^31, `arrivals` modulo 2^32.
  constexpr std::uint32_t kDone = 0x7ffffffe;
  threads.barrier().word = kDone << 1;
  threads.barrier().arrivals = kDone * 2;
  auto first = threads.Make(0), second = threads.Make(1);
  SpawnThreads(2, [&](int rank) {
    for (int i = 0; i < 6; ++i) ASSERT_TRUE((rank == 0 ? first : second)->Barrier().ok());
  });
  EXPECT_EQ(threads.barrier().word, 4u << 1);
}

}  // namespace
}  // namespace lockstep::train
