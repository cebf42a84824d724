// Ranks as processes, killed in the middle of their work.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <ostream>
#include <string>
#include <thread>

#include "tests/support/shared_memory.h"
#include "tests/support/spawn_ranks.h"
#include "tests/support/time_limit.h"
#include "trainer/comm/gradient_buffer.h"
#include "trainer/comm/make_communicator.h"

namespace lockstep::train {
namespace {

constexpr std::size_t kSummed = 200'003;
constexpr int kMaxRanks = 5;
constexpr char kLoss[] = "a rank is lost";

// What the ranks tell the test.
struct Report {
  std::atomic<int> steps{0};
  std::atomic<int> failure_code{-1};
  std::atomic<std::int64_t> failed_at_ns{0};
  std::array<char, 256> failure{};
  std::atomic<bool> sums_right{true};
  std::atomic<bool> regrouped{false};
  std::atomic<int> segments_before{-1}, segments_after{-1};
};
using Reports = std::array<Report, kMaxRanks>;

std::int64_t NowNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// Shared segments (memfds) that this process has mapped or keeps open. They have no names in any
// file system: whoever holds the last one holds the memory.
int SharedSegments() {
  int count = 0;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find("/memfd:lockstep") != std::string::npos) ++count;
  }
  std::error_code error;
  for (const auto& fd : std::filesystem::directory_iterator("/proc/self/fd")) {
    const std::string target = std::filesystem::read_symlink(fd.path(), error).string();
    if (target.find("/memfd:lockstep") != std::string::npos) ++count;
  }
  return count;
}

struct FaultCase {
  std::string kind;
  int ranks = 2, victim = 1;
};
void PrintTo(const FaultCase& c, std::ostream* out) {
  *out << c.kind << c.ranks << "_" << c.victim;
}

class FaultTest : public ::testing::TestWithParam<FaultCase> {
 protected:
  absl::StatusOr<std::unique_ptr<Communicator>> Make(int rank, int size, KeyValueStore& store,
                                                     GradientBuffer& buffer) {
    CommunicatorOptions options;
    options.rank = rank;
    options.size = size;
    options.bind_address = "127.0.0.1";
    options.allow_shm = GetParam().kind == "shm";
    return MakeCommunicator(options, store, buffer);
  }

  // All-reduces until `steps` are done or the group fails. The sum of step s is that of s + rank.
  static absl::Status Train(Communicator& communicator, GradientBuffer& buffer, int steps,
                            Report& report) {
    for (int step = 0; step < steps; ++step) {
      const std::span<float> data(buffer.data(), buffer.size());
      std::fill(data.begin(), data.end(), static_cast<float>(step % 1000 + communicator.rank()));
      if (auto status = communicator.AllReduceSum(data); !status.ok()) return status;
      const int n = communicator.size();
      const auto expected = static_cast<float>(step % 1000 * n + n * (n - 1) / 2);
      if (data.front() != expected || data.back() != expected) report.sums_right = false;
      ++report.steps;
    }
    return absl::OkStatus();
  }

  // What the rendezvous does in a running job: it learns of the loss and calls Abort(). Gloo needs
  // it where the connection broke with a message half sent (see communicator.h).
  static std::jthread AbortWhenTold(Communicator& communicator, KeyValueStore& store) {
    return std::jthread([&communicator, &store] {
      if (store.Get(kLoss, std::chrono::seconds(60)).ok()) communicator.Abort();
    });
  }

  // The first generation runs until it fails; the survivors then form the second.
  int RunRank(int rank, KeyValueStore& first, KeyValueStore& second, Report& report) {
    const auto& c = GetParam();
    auto buffer = GradientBuffer::Create(kSummed);
    if (!buffer.ok()) return 2;
    report.segments_before = SharedSegments();
    {
      auto communicator = Make(rank, c.ranks, first, **buffer);
      if (!communicator.ok() || (*communicator)->Name() != c.kind) return 3;
      std::jthread rendezvous;
      if (c.kind == "gloo" && rank != c.victim) rendezvous = AbortWhenTold(**communicator, first);
      const auto status = Train(**communicator, **buffer, 1'000'000, report);
      report.failed_at_ns = NowNs();
      std::string(status.message()).copy(report.failure.data(), report.failure.size() - 1);
      report.failure_code = static_cast<int>(status.code());
    }
    report.segments_after = SharedSegments();
    auto communicator = Make(rank - (rank > c.victim ? 1 : 0), c.ranks - 1, second, **buffer);
    if (!communicator.ok()) return 4;
    if (c.ranks > 2 && (*communicator)->Name() != c.kind) return 5;
    if (!Train(**communicator, **buffer, 20, report).ok()) return 6;
    report.regrouped = true;
    return 0;
  }
};

TEST_P(FaultTest, KillingARankFailsTheOthersAtOnceAndTheyRegroup) {
  const auto& c = GetParam();
  Shared<Reports> reports;
  ForkedStore first, second;
  ForkedRanks ranks(c.ranks, [&](int rank) {
    return RunRank(rank, first, second, (*reports).at(static_cast<std::size_t>(rank)));
  });
  const Report& victim = reports->at(static_cast<std::size_t>(c.victim));
  const auto give_up = std::chrono::steady_clock::now() + testing::Slowed(std::chrono::seconds(60));
  while (victim.steps < 200 && std::chrono::steady_clock::now() < give_up)
    std::this_thread::yield();
  ASSERT_GE(victim.steps, 200) << "the group did not get going";
  const std::int64_t killed_at = NowNs();
  ranks.Signal(c.victim, SIGKILL);
  ASSERT_TRUE(first.Set(kLoss, "told").ok());
  for (int rank = 0; rank < c.ranks; ++rank) {
    const Report& report = reports->at(static_cast<std::size_t>(rank));
    if (rank == c.victim) {
      EXPECT_EQ(ranks.Wait(rank), 128 + SIGKILL);
      continue;
    }
    EXPECT_EQ(ranks.Wait(rank, testing::Slowed(std::chrono::seconds(60))), 0)
        << "rank " << rank << ": " << report.failure.data();
    EXPECT_TRUE(report.sums_right);
    EXPECT_TRUE(report.regrouped);
    EXPECT_GT(report.segments_before, 0);
    EXPECT_EQ(report.segments_after, report.segments_before) << "memory of the ended group is kept";
    const auto failure = static_cast<absl::StatusCode>(report.failure_code.load());
    EXPECT_TRUE(failure == absl::StatusCode::kUnavailable ||
                (c.kind == "gloo" && failure == absl::StatusCode::kCancelled))
        << report.failure.data();
    EXPECT_LT(std::chrono::nanoseconds(report.failed_at_ns - killed_at),
              testing::TimeLimit(std::chrono::seconds(10)))  // the timeout is 30 s
        << "rank " << rank << ": " << report.failure.data();
    if (c.kind == "shm") {
      EXPECT_STREQ(report.failure.data(),
                   fmt::format("collective: the process of rank {} has died", c.victim).c_str());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, FaultTest,
                         ::testing::Values(FaultCase{"shm", 2, 0}, FaultCase{"shm", 2, 1},
                                           FaultCase{"shm", 3, 1}, FaultCase{"shm", 5, 4},
                                           FaultCase{"gloo", 2, 0}, FaultCase{"gloo", 2, 1},
                                           FaultCase{"gloo", 3, 1}, FaultCase{"gloo", 5, 2}),
                         [](const auto& named) {
                           return named.param.kind + std::to_string(named.param.ranks) + "Kills" +
                                  std::to_string(named.param.victim);
                         });

}  // namespace
}  // namespace lockstep::train
