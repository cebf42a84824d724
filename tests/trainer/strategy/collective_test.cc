#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstddef>
#include <fstream>
#include <functional>
#include <latch>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/in_memory_store.h"
#include "tests/support/spawn_ranks.h"
#include "tests/support/strangers_store.h"
#include "tests/support/time_limit.h"
#include "trainer/check/device_array.h"
#include "trainer/comm/root_memory.h"
#include "trainer/strategy/strategy.h"

namespace lockstep::train {
namespace {

using namespace std::chrono_literals;
using ::testing::Each;
using ::testing::Gt;

constexpr std::size_t kFloats = 1000;

// The source address of the connections that this thread makes; null: the kernel chooses it.
thread_local const char* comes_from = nullptr;

Membership TwoRanks(std::uint64_t generation, int rank) {
  Membership membership;
  membership.generation = generation;
  membership.rank = rank;
  membership.members.resize(2);
  return membership;
}

struct Rank {
  explicit Rank(bool allow_shm = true, CollectiveOptions options = {})
      : buffer(*GradientBuffer::Create(kFloats)) {
    options.bind_address = "127.0.0.1";
    options.allow_shm = allow_shm;
    options.layer_starts = {0, 500};
    strategy = MakeCollectiveStrategy(*buffer, std::move(options));
  }
  std::unique_ptr<GradientBuffer> buffer;
  std::unique_ptr<Strategy> strategy;
};

// One training step; the sum of rank + 1 over both ranks.
absl::Status Step(Rank& self, int rank) {
  std::fill_n(self.buffer->data(), kFloats, static_cast<float>(rank + 1));
  self.strategy->GradientsReady(500);
  self.strategy->GradientsReady(0);
  return self.strategy->FinishGradients();
}

TEST(CollectiveStrategyTest, NcclThatARankLacksIsAnErrorForGood) {
  InMemoryStore store;
  SpawnThreads(2, [&](int rank) {
    Rank self(/*allow_shm=*/true, {.device_road = DeviceRoad::kNccl});
    EXPECT_EQ(self.strategy->Connect(TwoRanks(1, rank), store),
              absl::FailedPreconditionError(
                  "spec.strategy.communication: found NCCL, but rank 0 does not compute on a GPU; "
                  "Auto sums through the hosts then"));
  });
}

TEST(CollectiveStrategyTest, BucketsGrowWithTheRanksOfARing) {
  const auto buffer = *GradientBuffer::Create(6400, /*reserves=*/false);
  CollectiveOptions options{.bucket_floats = 64};
  for (std::int64_t start = 0; start < 6400; start += 64) options.layer_starts.push_back(start);
  for (const auto& [ring, count] :
       {std::pair{1, 100}, {2, 100}, {16, 100}, {32, 50}, {64, 25}, {256, 7}, {1600, 1}}) {
    const auto buckets = BucketsOf(*buffer, options, ring);
    EXPECT_EQ(std::ssize(buckets), count) << ring;
    EXPECT_EQ(buckets.back().begin, 0) << ring;
  }
}

TEST(CollectiveStrategyTest, SumsGradientsInEveryGenerationAndOverEitherRoad) {
  for (const bool allow_shm : {true, false}) {
    std::array<InMemoryStore, 2> stores;
    std::barrier done(2);  // who has its sums must not close the connection while a peer reads
    SpawnThreads(2, [&](int rank) {
      Rank self(allow_shm);
      for (std::uint64_t generation = 1; generation <= 2; ++generation) {
        absl::Status stepped =
            self.strategy->Connect(TwoRanks(generation, rank), stores[generation - 1]);
        if (stepped.ok()) {
          EXPECT_EQ(self.strategy->CommunicatorName(), allow_shm ? "shm" : "gloo");
          stepped = Step(self, rank);
        }
        EXPECT_TRUE(stepped.ok()) << stepped;
        done.arrive_and_wait();
        EXPECT_EQ(self.buffer->data()[0], 3.0F);
        EXPECT_EQ(self.buffer->data()[kFloats - 1], 3.0F);
      }
    });
  }
}

// The shared memories that are mapped here.
std::size_t SharedMemories() {
  std::set<std::string> inodes;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    std::istringstream words(line);
    std::string range, access, offset, device, inode, path;
    words >> range >> access >> offset >> device >> inode >> path;
    if (path.starts_with("/memfd:")) inodes.insert(inode);
  }
  return inodes.size();
}

TEST(CollectiveStrategyTest, WhoHasDisconnectedHoldsNoMemoryOfAPeerThatIsGone) {
  RootMemory memory(/*is_root=*/false);
  std::byte* const block = memory.Allocate(kFloats);
  Rank survivor(/*allow_shm=*/true, {.root_memory = &memory});
  const std::size_t own = SharedMemories();
  {
    InMemoryStore store;
    RootMemory root(/*is_root=*/true);
    root.Allocate(kFloats);
    Rank lost(/*allow_shm=*/true, {.root_memory = &root});
    SpawnThreads(2, [&](int rank) {
      Rank& self = rank == 0 ? lost : survivor;
      ASSERT_TRUE(self.strategy->Connect(TwoRanks(1, rank), store).ok());
      ASSERT_EQ(self.strategy->CommunicatorName(), "shm");
      EXPECT_TRUE(Step(self, rank).ok());
    });
    ASSERT_TRUE(memory.is_shared());
  }
  EXPECT_GT(SharedMemories(), own);
  survivor.strategy->Disconnect();
  EXPECT_EQ(SharedMemories(), own);
  EXPECT_FALSE(memory.is_shared());
  EXPECT_EQ(block[0], std::byte{});
  memory.Free(block, kFloats);
}

TEST(CollectiveStrategyTest, RankZeroReplacesTheFirstSumsOverEitherRoad) {
  for (const bool allow_shm : {true, false}) {
    InMemoryStore store;
    std::barrier done(2);
    SpawnThreads(2, [&](int rank) {
      Rank self(allow_shm);
      EXPECT_TRUE(self.strategy->Connect(TwoRanks(1, rank), store).ok());
      for (int step = 0; step < 3; ++step) {
        EXPECT_TRUE(Step(self, rank).ok());
        if (rank == 0) std::fill_n(self.buffer->data(), 700, 10.0F);
        EXPECT_TRUE(self.strategy->BroadcastShares(std::vector<FlatRange>{{0, 700}}).ok());
        EXPECT_EQ(self.buffer->data()[0], 10.0F);
        EXPECT_EQ(self.buffer->data()[699], 10.0F);
        EXPECT_EQ(self.buffer->data()[700], 3.0F);
      }
      done.arrive_and_wait();
    });
  }
}

TEST(CollectiveStrategyTest, AGenerationThatHasEndedIsNotJoined) {
  std::array<InMemoryStore, 2> stores;
  std::barrier done(2);
  SpawnThreads(2, [&](int rank) {
    Rank self;
    if (rank == 0) self.strategy->Abort(1);  // before Connect: the rendezvous was faster
    const auto first = self.strategy->Connect(TwoRanks(1, rank), stores[0]);
    if (rank == 0) {
      EXPECT_EQ(first.code(), absl::StatusCode::kCancelled) << first;
    }
    self.strategy->Abort(1);
    EXPECT_TRUE(self.strategy->Connect(TwoRanks(2, rank), stores[1]).ok());
    self.strategy->Abort(1);  // late news of the generation before changes nothing
    EXPECT_TRUE(Step(self, rank).ok());
    done.arrive_and_wait();
  });
}

TEST(CollectiveStrategyTest, AbortWakesAWaitForAPeerThatDoesNothing) {
  for (const bool allow_shm : {true, false}) {
    InMemoryStore store;
    std::atomic<bool> ended{false};
    std::barrier connected(2);
    SpawnThreads(2, [&](int rank) {
      Rank self(allow_shm);
      const auto joined = self.strategy->Connect(TwoRanks(1, rank), store);
      connected.arrive_and_wait();  // else rank 1 may be closing what rank 0 still opens
      ASSERT_TRUE(joined.ok()) << joined;
      if (rank == 1) {
        while (!ended) std::this_thread::yield();
        return;
      }
      const std::jthread rendezvous([&] { self.strategy->Abort(1); });
      const auto start = std::chrono::steady_clock::now();
      const auto status = Step(self, rank);
      ended = true;
      EXPECT_EQ(status.code(), absl::StatusCode::kCancelled) << status;
      EXPECT_LT(std::chrono::steady_clock::now() - start,
                testing::TimeLimit(std::chrono::seconds(5)));
    });
  }
}

// Rank 1 is later than rank 0 waits in the first generation, and takes 300 ms longer in each one
// after it. Calls step(generation, rank, be_late) in each until both ranks have done a step, and
// returns which that was for each; 0 for a rank that has done none in 20 generations.
std::array<int, 2> GenerationsOfSteps(
    const std::function<absl::Status(int generation, int rank,
                                     const std::function<void()>& be_late)>& step) {
  std::array<int, 2> ended_in{};
  std::barrier generation_over(2);
  std::latch failed(1);  // rank 0's first step
  SpawnThreads(2, [&](int rank) {
    int& ended = ended_in.at(static_cast<std::size_t>(rank));
    for (int generation = 1; generation <= 20; ++generation) {
      const absl::Status stepped = step(generation, rank, [&, generation] {
        if (rank == 1 && generation == 1) failed.wait();
        if (rank == 1 && generation > 1) std::this_thread::sleep_for(300ms);
      });
      if (rank == 0 && generation == 1) failed.count_down();
      if (stepped.ok() && ended == 0) ended = generation;
      generation_over.arrive_and_wait();
      if (std::ranges::count(ended_in, 0) == 0) break;
    }
  });
  return ended_in;
}

TEST(CollectiveStrategyTest, ALastingDifferenceInSpeedDoesNotEndEveryGeneration) {
  for (const bool allow_shm : {true, false}) {
    std::array<InMemoryStore, 20> stores;
    std::vector<Rank> ranks;
    for (int rank = 0; rank < 2; ++rank)
      ranks.emplace_back(allow_shm, CollectiveOptions{.least_timeout = 150ms});
    const auto ended_in = GenerationsOfSteps([&](int generation, int rank, const auto& be_late) {
      Rank& self = ranks.at(static_cast<std::size_t>(rank));
      const absl::Status connected =
          self.strategy->Connect(TwoRanks(static_cast<std::uint64_t>(generation), rank),
                                 stores.at(static_cast<std::size_t>(generation - 1)));
      be_late();
      return connected.ok() ? Step(self, rank) : connected;
    });
    EXPECT_THAT(ended_in, Each(Gt(1)));
  }
}

// A rank whose gradients lie on a device with a queue.
class DeviceRank {
 public:
  explicit DeviceRank(Duration least_timeout)
      : gradients_(*backend_, std::vector<float>(kFloats)),
        is_summed_(*backend_, {'\0'}),
        transfer_(backend_->MakeStream()),
        strategy_(MakeCollectiveStrategy(
            *buffer_,
            {.bind_address = "127.0.0.1", .layer_starts = {0, 500}, .least_timeout = least_timeout},
            DeviceSums{.memory = gradients_.data(),
                       .is_summed = reinterpret_cast<bool*>(is_summed_.data()),
                       .compute = &backend_->stream(),
                       .transfer = transfer_.get()})) {}

  Strategy& strategy() { return *strategy_; }
  absl::Status Step() {
    gradients_.Set(std::vector<float>(kFloats, 1.0F));
    strategy_->GradientsReady(500);
    strategy_->GradientsReady(0);
    strategy_->FinishGradients().IgnoreError();  // it may not be known yet
    backend_->Synchronize();
    const absl::Status summed = strategy_->SumStatus();
    EXPECT_EQ(is_summed_.Values()[0] != 0, summed.ok()) << summed;
    strategy_->StepEnded(summed);
    return summed;
  }

 private:
  const std::unique_ptr<GradientBuffer> buffer_ = *GradientBuffer::Create(kFloats);
  const std::unique_ptr<Backend> backend_ = MakeBackend({.name = "async-reference"});
  DeviceArray<float> gradients_;
  DeviceArray<char> is_summed_;
  const std::unique_ptr<Stream> transfer_;
  const std::unique_ptr<Strategy> strategy_;
};

// As above, with sums whose failure is known only once the step has ended.
TEST(CollectiveStrategyTest, ALastingDifferenceInSpeedOfDevicesDoesNotEndEveryGeneration) {
  std::array<InMemoryStore, 20> stores;
  std::array<DeviceRank, 2> ranks{DeviceRank(100ms), DeviceRank(100ms)};
  const auto ended_in = GenerationsOfSteps([&](int generation, int rank, const auto& be_late) {
    DeviceRank& self = ranks.at(static_cast<std::size_t>(rank));
    const absl::Status connected =
        self.strategy().Connect(TwoRanks(static_cast<std::uint64_t>(generation), rank),
                                stores.at(static_cast<std::size_t>(generation - 1)));
    be_late();
    if (!connected.ok()) return connected;
    return self.Step();
  });
  EXPECT_THAT(ended_in, Each(Gt(1)));
}

TEST(CollectiveStrategyTest, ARankWithoutTheJobsTokenGetsNoTensor) {
  struct Case {
    std::array<std::string, 2> secrets;
    bool joins;
  };
  for (const Case& c : {Case{{"the job's own token", "the job's own token"}, true},
                        Case{{"the job's own token", "somebody else's token"}, false}}) {
    InMemoryStore store;
    std::barrier done(2);
    SpawnThreads(2, [&](int rank) {
      const auto at = static_cast<std::size_t>(rank);
      Rank self(/*allow_shm=*/false, {.token = api::JobToken(c.secrets.at(at))});
      const absl::Status status = self.strategy->Connect(TwoRanks(1, rank), store);
      EXPECT_EQ(status.ok(), c.joins) << status;
      if (c.joins) {
        EXPECT_TRUE(Step(self, rank).ok());
        EXPECT_EQ(self.buffer->data()[0], 3.0F);
      }
      done.arrive_and_wait();
    });
  }
}

TEST(CollectiveStrategyTest, WhoHasNoMembersAddressReachesNoRank) {
  InMemoryStore store;
  StrangersStore strangers(store, 2);
  SpawnThreads(2, [&](int rank) {
    Rank self(/*allow_shm=*/false);
    Membership membership = TwoRanks(1, rank);
    for (Member& member : membership.members) member.address = "192.0.2.7";
    const absl::Status status = self.strategy->Connect(membership, strangers);
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_TRUE(Step(self, rank).ok());
    EXPECT_EQ(self.buffer->data()[0], 3.0F);
  });
  EXPECT_EQ(strangers.visits, 2U);
}

TEST(CollectiveStrategyTest, MembersThatComeFromOtherAddressesConnectOnceTheirsAreNotTrusted) {
  constexpr std::size_t kMost = 5;  // on a busy machine a rank may be late for a generation
  std::array<InMemoryStore, kMost> stores;
  std::array<bool, 2> trusts = {true, true}, connected{};
  std::barrier all(2);
  SpawnThreads(2, [&](int rank) {
    comes_from = "127.0.0.2";
    Rank self(/*allow_shm=*/false, {.connect_timeout = lockstep::testing::Slowed(200ms),
                                    .address_patience = Duration::zero()});
    const auto own = static_cast<std::size_t>(rank);
    std::size_t generation = 0;
    bool done = false;
    while (!done && generation < kMost) {
      ++generation;
      Membership membership = TwoRanks(generation, rank);
      for (std::size_t i = 0; i < 2; ++i)
        membership.members[i].address = trusts.at(i) ? "192.0.2.7" : "";
      all.arrive_and_wait();
      const absl::Status status = self.strategy->Connect(membership, stores.at(generation - 1));
      connected.at(own) = status.ok();
      trusts.at(own) = self.strategy->TrustsAddresses();
      EXPECT_FALSE(generation == 1 && status.ok()) << "192.0.2.7 is not where it came from";
      all.arrive_and_wait();
      done = connected[0] && connected[1];
    }
  });
  EXPECT_TRUE(connected[0] && connected[1]);
}

TEST(CollectiveStrategyTest, AStopWakesWhoConnectsToAPeerThatDoesNotCome) {
  for (const bool allow_shm : {true, false}) {
    InMemoryStore store;
    std::atomic<bool> stop{false};
    Rank self(allow_shm, {.stop_requested = [&] { return stop.load(); }});
    const std::jthread stopper([&] { stop = true; });
    const auto start = std::chrono::steady_clock::now();
    const absl::Status status = self.strategy->Connect(TwoRanks(1, 0), store);
    EXPECT_EQ(status.code(), absl::StatusCode::kCancelled) << status;
    EXPECT_LT(std::chrono::steady_clock::now() - start,
              testing::TimeLimit(std::chrono::seconds(5)));
  }
}

}  // namespace
}  // namespace lockstep::train

// Replaces the C library's connect() for this program and Gloo.
extern "C" __attribute__((visibility("default"))) int connect(int socket, const sockaddr* address,
                                                              socklen_t length) {
  if (lockstep::train::comes_from != nullptr && address->sa_family == AF_INET) {
    sockaddr_in source{};
    source.sin_family = AF_INET;
    ::inet_pton(AF_INET, lockstep::train::comes_from, &source.sin_addr);
    ::bind(socket, reinterpret_cast<const sockaddr*>(&source), sizeof source);
  }
  return static_cast<int>(::syscall(SYS_connect, socket, address, length));
}
