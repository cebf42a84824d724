// What every communicator promises, checked on each of them with ranks as threads.
#include "trainer/comm/communicator.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <numeric>
#include <ostream>
#include <string>
#include <vector>

#include "tests/support/in_memory_store.h"
#include "tests/support/local_group.h"
#include "tests/support/spawn_ranks.h"
#include "tests/support/time_limit.h"
#include "trainer/comm/gradient_buffer.h"
#include "trainer/comm/make_communicator.h"

namespace lockstep::train {
namespace {

constexpr std::size_t kFloats = 300'001;

struct Case {
  std::string kind;
  int ranks = 1;
};
void PrintTo(const Case& c, std::ostream* out) {
  *out << c.kind << c.ranks;
}

// Different on every rank, and such that the order of addition shows in the last bits.
float Value(int rank, std::size_t i) {
  return 1.0f / static_cast<float>(3 + rank * 7 + static_cast<int>(i % 1013));
}

float SumInRankOrder(int ranks, std::size_t i) {
  float sum = Value(0, i);
  for (int rank = 1; rank < ranks; ++rank) sum += Value(rank, i);
  return sum;
}

class CommunicatorTest : public ::testing::TestWithParam<Case> {
 protected:
  struct Rank {
    Communicator& communicator;
    std::span<float> gradients;
  };

  // Runs `body` on all ranks of a new group.
  void OnAllRanks(const std::function<void(Rank)>& body,
                  Duration timeout = std::chrono::seconds(20)) {
    InMemoryStore store;
    std::vector<std::unique_ptr<Communicator>> local;
    if (GetParam().kind == "local") local = MakeLocalGroup(size(), timeout);
    SpawnThreads(size(), [&](int rank) {
      auto buffer = GradientBuffer::Create(kFloats);
      ASSERT_TRUE(buffer.ok()) << buffer.status();
      CommunicatorOptions options;
      options.rank = rank;
      options.size = size();
      options.bind_address = "127.0.0.1";
      options.timeout = timeout;
      options.allow_shm = GetParam().kind == "shm";
      std::unique_ptr<Communicator> communicator;
      if (local.empty()) {
        auto made = MakeCommunicator(options, store, **buffer);
        ASSERT_TRUE(made.ok()) << made.status();
        communicator = *std::move(made);
        EXPECT_EQ(communicator->Name(), size() == 1 ? "single" : GetParam().kind);
      } else {
        communicator = std::move(local[static_cast<std::size_t>(rank)]);
      }
      EXPECT_EQ(communicator->rank(), rank);
      EXPECT_EQ(communicator->size(), size());
      ASSERT_TRUE(communicator->Barrier().ok());  // all are connected
      body({*communicator, {(*buffer)->data(), (*buffer)->size()}});
    });
  }

  int size() const { return GetParam().ranks; }
};

TEST_P(CommunicatorTest, SumsAreTheSameBitsOnAllRanks) {
  for (const bool inside : {true, false}) {
    for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{37}, kFloats}) {
      std::vector<std::vector<float>> sums(static_cast<std::size_t>(size()));
      OnAllRanks([&](Rank rank) {
        const int r = rank.communicator.rank();
        std::vector<float> outside(count);
        const std::span<float> data = inside ? rank.gradients.last(count) : std::span(outside);
        for (std::size_t i = 0; i < count; ++i) data[i] = Value(r, i);
        const auto status = rank.communicator.AllReduceSum(data);
        EXPECT_TRUE(status.ok()) << status;
        sums[static_cast<std::size_t>(r)].assign(data.begin(), data.end());
        EXPECT_TRUE(rank.communicator.Barrier().ok());  // a sum of nothing waits for nobody
      });
      for (const auto& sum : sums) EXPECT_EQ(sum, sums[0]) << count << " floats";
      for (std::size_t i = 0; i < count; ++i) {
        const float expected = SumInRankOrder(size(), i);
        if (GetParam().kind == "gloo")
          ASSERT_FLOAT_EQ(sums[0][i], expected) << "at " << i << " of " << count;
        else
          ASSERT_EQ(sums[0][i], expected) << "at " << i << " of " << count;
      }
    }
  }
}

TEST_P(CommunicatorTest, BroadcastsGoFromAnyRootToAll) {
  OnAllRanks([&](Rank rank) {
    for (int root = 0; root < size(); ++root) {
      for (const std::size_t bytes : {0u, 1u, 300'000u, 1'200'007u}) {
        std::vector<std::byte> data(bytes, static_cast<std::byte>(rank.communicator.rank() + 1));
        if (rank.communicator.rank() == root)
          for (std::size_t i = 0; i < bytes; ++i) data[i] = static_cast<std::byte>(i % 251);
        const auto status = rank.communicator.Broadcast(data, root);
        ASSERT_TRUE(status.ok()) << status;
        for (std::size_t i = 0; i < bytes; ++i)
          ASSERT_EQ(data[i], static_cast<std::byte>(i % 251)) << "root " << root << " at " << i;
      }
    }
  });
}

// The roots change at once, and each rank overwrites what it has just sent or received.
TEST_P(CommunicatorTest, BroadcastsOfGradientsGoFromAnyRootToAll) {
  OnAllRanks([&](Rank rank) {
    for (int round = 0; round < 20; ++round) {
      const int root = round % size();
      const auto value = [round](int sender, std::size_t i) {
        return static_cast<float>(100 * round + sender) + Value(0, i);
      };
      const int own = rank.communicator.rank();
      for (std::size_t i = 0; i < kFloats; ++i) rank.gradients[i] = value(own, i);
      const auto part = rank.gradients.subspan(1000, 200'000);
      const auto status = rank.communicator.Broadcast(std::as_writable_bytes(part), root);
      ASSERT_TRUE(status.ok()) << status;
      for (std::size_t i = 0; i < kFloats; ++i) {
        const bool is_sent = i >= 1000 && i < 201'000;
        ASSERT_EQ(rank.gradients[i], value(is_sent ? root : own, i)) << "round " << round;
      }
    }
  });
}

TEST_P(CommunicatorTest, ManyCollectivesInARowStayInStep) {
  OnAllRanks([&](Rank rank) {
    const int steps = GetParam().kind == "gloo" ? 40 : 300;  // Gloo takes milliseconds for each
    for (int step = 0; step < steps; ++step) {
      const auto data = rank.gradients.subspan(static_cast<std::size_t>(step), 64);
      std::fill(data.begin(), data.end(), static_cast<float>(step + rank.communicator.rank()));
      ASSERT_TRUE(rank.communicator.AllReduceSum(data).ok());
      const int expected = step * size() + size() * (size() - 1) / 2;
      ASSERT_EQ(data[63], static_cast<float>(expected)) << "step " << step;
      int word = rank.communicator.rank() == 0 ? step : -1;
      ASSERT_TRUE(rank.communicator.Broadcast(std::as_writable_bytes(std::span(&word, 1)), 0).ok());
      ASSERT_EQ(word, step);
    }
  });
}

TEST_P(CommunicatorTest, NobodyPassesABarrierBeforeAllHaveCome) {
  std::atomic<int> come{0};
  OnAllRanks([&](Rank rank) {
    for (int round = 1; round <= 20; ++round) {
      ++come;
      ASSERT_TRUE(rank.communicator.Barrier().ok());
      ASSERT_GE(come.load(), round * size());
    }
  });
}

TEST_P(CommunicatorTest, AbortWakesItsOwnRankWithCancelledAndTheOthersFail) {
  OnAllRanks([&](Rank rank) {
    if (rank.communicator.rank() == 0) {
      // Rank 0 never calls what the others wait in.
      rank.communicator.Abort();
      rank.communicator.Abort();
      EXPECT_EQ(rank.communicator.Barrier().code(), absl::StatusCode::kCancelled);
      EXPECT_EQ(rank.communicator.AllReduceSum(rank.gradients).code(),
                absl::StatusCode::kCancelled);
    } else {
      const auto start = std::chrono::steady_clock::now();
      EXPECT_EQ(rank.communicator.AllReduceSum(rank.gradients).code(),
                absl::StatusCode::kUnavailable);
      EXPECT_LT(std::chrono::steady_clock::now() - start,
                testing::TimeLimit(std::chrono::seconds(15)));  // the timeout is 20 s
      EXPECT_FALSE(rank.communicator.Barrier().ok());
    }
  });
}

// Groups that wait for someone.
class SeveralRanksTest : public CommunicatorTest {};
// Communicators that see what the other ranks call.
class SeeingTest : public CommunicatorTest {};

TEST_P(SeveralRanksTest, AbortFromAnotherThreadEndsAWait) {
  std::atomic<bool> ended{false};
  OnAllRanks([&](Rank rank) {
    if (rank.communicator.rank() == 0) {
      // In the group, but not in the sum, until rank 1 has been woken.
      while (!ended.load() && !HasFailure()) std::this_thread::yield();
      return;
    }
    const bool aborts = rank.communicator.rank() == 1;
    std::jthread aborter;
    if (aborts) aborter = std::jthread([&] { rank.communicator.Abort(); });
    const auto start = std::chrono::steady_clock::now();
    EXPECT_EQ(rank.communicator.AllReduceSum(rank.gradients).code(),
              aborts ? absl::StatusCode::kCancelled : absl::StatusCode::kUnavailable);
    EXPECT_LT(std::chrono::steady_clock::now() - start,
              testing::TimeLimit(std::chrono::seconds(15)));  // the timeout is 20 s
    if (aborts) ended = true;
  });
}

TEST_P(SeveralRanksTest, ARankThatLeavesFailsTheOthers) {
  OnAllRanks([&](Rank rank) {
    if (rank.communicator.rank() == size() - 1) return;
    EXPECT_EQ(rank.communicator.Barrier().code(), absl::StatusCode::kUnavailable);
  });
}

TEST_P(SeveralRanksTest, ALateRankIsUnavailable) {
  std::atomic<int> ended{0};
  OnAllRanks(
      [&](Rank rank) {
        if (rank.communicator.rank() == 0) {
          while (ended.load() < size() - 1 && !HasFailure()) std::this_thread::yield();
          return;
        }
        const auto status = rank.communicator.Barrier();
        EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
        ++ended;
      },
      std::chrono::seconds(2));  // all have met within it, too
}

TEST_P(SeeingTest, DifferentSizesAreRefusedByAll) {
  OnAllRanks([&](Rank rank) {
    const bool odd = rank.communicator.rank() == 0;
    const auto status = rank.communicator.AllReduceSum(rank.gradients.first(odd ? 99 : 100));
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
    EXPECT_FALSE(rank.communicator.Barrier().ok());
  });
}

std::vector<Case> Cases(std::vector<std::string> kinds, std::vector<int> sizes) {
  std::vector<Case> cases;
  for (const auto& kind : kinds)
    for (const int ranks : sizes) cases.push_back({kind, ranks});
  return cases;
}

std::string CaseName(const ::testing::TestParamInfo<Case>& named) {
  return named.param.kind + std::to_string(named.param.ranks);
}

INSTANTIATE_TEST_SUITE_P(Kinds, CommunicatorTest,
                         ::testing::ValuesIn(Cases({"local", "shm", "gloo"}, {1, 2, 3, 4, 5})),
                         CaseName);
INSTANTIATE_TEST_SUITE_P(Kinds, SeveralRanksTest,
                         ::testing::ValuesIn(Cases({"local", "shm", "gloo"}, {2, 3, 5})), CaseName);
INSTANTIATE_TEST_SUITE_P(Kinds, SeeingTest, ::testing::ValuesIn(Cases({"local", "shm"}, {2, 3, 5})),
                         CaseName);

}  // namespace
}  // namespace lockstep::train
