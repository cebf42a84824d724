#include "trainer/comm/make_communicator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <future>
#include <latch>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "base/check.h"
#include "tests/support/in_memory_store.h"
#include "tests/support/spawn_ranks.h"
#include "tests/support/strangers_store.h"
#include "tests/support/time_limit.h"
#include "trainer/comm/gloo/gloo_communicator.h"

namespace lockstep::train {
namespace {

using namespace std::chrono_literals;

// As on a machine without room for shared memory.
class PrivateBuffer final : public GradientBuffer {
 public:
  float* data() override { return data_.data(); }
  std::size_t size() const override { return data_.size(); }
  std::string name() const override { return ""; }
  absl::Status Reserve() override { return absl::OkStatus(); }
  void WillBeShared() override {}
  absl::Status Renew() override { return absl::OkStatus(); }
  SharedSegment* segment() override { return nullptr; }

 private:
  std::vector<float> data_ = std::vector<float>(100);
};

std::unique_ptr<GradientBuffer> SharedBuffer(std::size_t floats = 100) {
  return *GradientBuffer::Create(floats);
}

CommunicatorOptions Options(int rank, int size) {
  CommunicatorOptions options;
  options.rank = rank;
  options.size = size;
  options.bind_address = "127.0.0.1";
  return options;
}

// Makes a group of as many ranks as there are buffers; all must choose `expected`, and it must
// work.
void ExpectChoice(std::vector<std::unique_ptr<GradientBuffer>> buffers, const std::string& expected,
                  int without_shm = -1) {
  InMemoryStore store;
  const auto size = static_cast<int>(buffers.size());
  SpawnThreads(size, [&](int rank) {
    auto options = Options(rank, size);
    options.allow_shm = rank != without_shm;
    auto& buffer = *buffers[static_cast<std::size_t>(rank)];
    const auto made = MakeCommunicator(options, store, buffer);
    ASSERT_TRUE(made.ok()) << made.status();
    EXPECT_EQ((*made)->Name(), expected);
    buffer.data()[0] = 1;
    EXPECT_TRUE((*made)->AllReduceSum({buffer.data(), 1}).ok());
    EXPECT_EQ(buffer.data()[0], static_cast<float>(size));
  });
}

// Makes one communicator per rank with make(rank). All live until the last rank has its own: a rank
// that leaves earlier closes connections which its peers still make.
void MakeAll(int size,
             const std::function<absl::StatusOr<std::unique_ptr<Communicator>>(int rank)>& make) {
  std::latch all_made(size);
  SpawnThreads(size, [&](int rank) {
    const auto made = make(rank);
    all_made.arrive_and_wait();
    EXPECT_TRUE(made.ok()) << made.status();
  });
}

template <typename... Buffers>
std::vector<std::unique_ptr<GradientBuffer>> List(Buffers... buffers) {
  std::vector<std::unique_ptr<GradientBuffer>> list;
  (list.push_back(std::move(buffers)), ...);
  return list;
}

TEST(MakeCommunicatorTest, RanksReadOfEachOtherWhatTheyNeedOnce) {
  InMemoryStore store;
  constexpr int kRanks = 32;
  MakeAll(kRanks, [&](int rank) { return MakeGlooCommunicator(Options(rank, kRanks), store); });
  // The host's name, and of the addresses of each the one for it.
  EXPECT_LE(store.calls(), 2u * kRanks);
  EXPECT_LE(store.bytes_read(), kRanks * kRanks * (64u + 36u));
}

// Gloo takes up to 10 ms for each connection that it closes. In a recovery, all survivors wait for
// it.
TEST(MakeCommunicatorTest, ConnectionsAreClosedTogether) {
  constexpr int kRanks = 48;
  InMemoryStore store;
  std::vector<std::unique_ptr<Communicator>> group(kRanks);
  SpawnThreads(kRanks, [&](int rank) {
    auto made = MakeGlooCommunicator(Options(rank, kRanks), store);
    ASSERT_TRUE(made.ok()) << made.status();
    group[static_cast<std::size_t>(rank)] = *std::move(made);
  });
  Duration least = Duration::max();  // the others may have been interrupted
  for (int rank = 0; rank < 5; ++rank) {
    const auto start = std::chrono::steady_clock::now();
    group[static_cast<std::size_t>(rank)].reset();
    least = std::min(least, std::chrono::steady_clock::now() - start);
  }
  EXPECT_LT(least, lockstep::testing::TimeLimit(100ms));
}

// A rank that has its result leaves while a slower one still receives.
TEST(MakeCommunicatorTest, ARankThatLeavesTakesNothingFromASlowerOne) {
  for (int round = 0; round < 40; ++round) {
    InMemoryStore store;
    std::latch connected(2);
    SpawnThreads(2, [&](int rank) {
      auto made = MakeGlooCommunicator(Options(rank, 2), store);
      LOCKSTEP_CHECK(made.ok(), "rank {}: {}", rank, made.status().ToString());
      connected.arrive_and_wait();
      std::vector<std::byte> data(3 << 20);
      const absl::Status sent = (*made)->Broadcast(data, 0);
      EXPECT_TRUE(sent.ok()) << "round " << round << ", rank " << rank << ": " << sent;
      made->reset();
    });
    if (HasFailure()) break;
  }
}

// Such as the one number that many pods wait for in each step. The ring has another order.
TEST(MakeCommunicatorTest, FewNumbersOverSocketsAreAddedInRankOrder) {
  for (const int ranks : {2, 3, 6, 7, 12, 16, 30}) {
    const auto value = [](int rank, std::size_t i) {
      return 1.0F / static_cast<float>(static_cast<std::size_t>(rank) + 3 + i);
    };
    InMemoryStore store;
    SpawnThreads(ranks, [&](int rank) {
      const auto made = MakeGlooCommunicator(Options(rank, ranks), store);
      ASSERT_TRUE(made.ok()) << made.status();
      for (const std::size_t count : {1u, 2u, 5u, 63u, 546u, 1u}) {
        std::vector<float> data(count), expected(count);
        for (std::size_t i = 0; i < count; ++i) {
          data[i] = value(rank, i);
          for (int other = 0; other < ranks; ++other) expected[i] += value(other, i);
        }
        ASSERT_TRUE((*made)->AllReduceSum(data).ok());
        EXPECT_EQ(data, expected) << count << " numbers of rank " << rank << " of " << ranks;
      }
      ASSERT_TRUE((*made)->Barrier().ok());
    });
  }
}

TEST(MakeCommunicatorTest, APeerMayBeLaterForFewNumbersThanForItsConnection) {
  for (const bool is_in_time : {true, false}) {
    InMemoryStore store;
    std::latch failed(1);  // the sum of rank 0, which rank 1 waits for unless it is in time
    SpawnThreads(2, [&](int rank) {
      CommunicatorOptions options = Options(rank, 2);
      options.connect_timeout = is_in_time ? 2s : 20s;
      options.timeout = is_in_time ? Duration(60s) : Duration(100ms);
      const auto made = MakeGlooCommunicator(options, store);
      LOCKSTEP_CHECK(made.ok(), "rank {}: {}", rank, made.status().ToString());
      if (rank == 1 && is_in_time) std::this_thread::sleep_for(2500ms);
      if (rank == 1 && !is_in_time) failed.wait();
      std::vector<float> one = {1};
      const auto start = std::chrono::steady_clock::now();
      const absl::Status summed = (*made)->AllReduceSum(one);
      EXPECT_EQ(summed.ok(), is_in_time) << summed;
      EXPECT_LT(std::chrono::steady_clock::now() - start, testing::TimeLimit(15s));
      if (rank == 0) failed.count_down();
    });
  }
}

// Whether the last group had one rank or more, only shared memory must be renewed for the next one.
TEST(MakeCommunicatorTest, MemoryThatNoPeerSharedIsKept) {
  const auto first = SharedBuffer(), second = SharedBuffer();
  const std::string name = first->name();
  for (int generation = 0; generation < 3; ++generation) {
    InMemoryStore store;
    MakeAll(2, [&](int rank) {
      CommunicatorOptions options = Options(rank, 2);
      options.allow_shm = rank == 0;
      return MakeCommunicator(options, store, rank == 0 ? *first : *second);
    });
    EXPECT_EQ(first->name(), name);
    ASSERT_TRUE(MakeCommunicator(Options(0, 1), store, *first).ok());
    EXPECT_EQ(first->name(), name);
  }
}

TEST(MakeCommunicatorTest, OneRankIsSingle) {
  ExpectChoice(List(SharedBuffer()), "single");
}

TEST(MakeCommunicatorTest, APeerOfAnEarlierGenerationCannotWriteToASurvivorThatIsAlone) {
  const auto survivor = SharedBuffer(), stalled = SharedBuffer();
  const std::string shared = survivor->name();
  {
    InMemoryStore store;
    SpawnThreads(2, [&](int rank) {
      const auto made = MakeCommunicator(Options(rank, 2), store, rank == 0 ? *survivor : *stalled);
      ASSERT_TRUE(made.ok()) << made.status();
      EXPECT_EQ((*made)->Name(), "shm");
    });
  }
  ASSERT_EQ(survivor->name(), shared);
  InMemoryStore store;
  ASSERT_TRUE(MakeCommunicator(Options(0, 1), store, *survivor).ok());
  EXPECT_NE(survivor->name(), shared);
}

TEST(MakeCommunicatorTest, RanksOfOneHostShareMemory) {
  ExpectChoice(List(SharedBuffer(), SharedBuffer(), SharedBuffer()), "shm");
}

TEST(MakeCommunicatorTest, OneRankThatMayNotShareMakesAllUseSockets) {
  ExpectChoice(List(SharedBuffer(), SharedBuffer(), SharedBuffer()), "gloo", 0);
  ExpectChoice(List(SharedBuffer(), SharedBuffer(), SharedBuffer()), "gloo", 2);
}

TEST(MakeCommunicatorTest, OneRankInPrivateMemoryMakesAllUseSockets) {
  ExpectChoice(List(SharedBuffer(), std::make_unique<PrivateBuffer>()), "gloo");
}

TEST(MakeCommunicatorTest, BuffersOfDifferentSizesAreNotShared) {
  ExpectChoice(List(SharedBuffer(100), SharedBuffer(101)), "gloo");
}

TEST(MakeCommunicatorTest, APeerThatNeverComesEndsInDeadlineExceeded) {
  InMemoryStore store;
  auto options = Options(0, 2);
  options.connect_timeout = std::chrono::milliseconds(50);
  const auto buffer = SharedBuffer();
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(MakeCommunicator(options, store, *buffer).status().code(),
            absl::StatusCode::kDeadlineExceeded);
  EXPECT_LT(std::chrono::steady_clock::now() - start,
            lockstep::testing::TimeLimit(std::chrono::seconds(5)))
      << "it waits for something else";
}

TEST(MakeCommunicatorTest, AGenerationThatEndsMeanwhileIsCancelled) {
  for (const bool votes_are_in : {false, true}) {
    InMemoryStore store;
    // Up to its vote the peer is there; its sockets never are.
    if (votes_are_in) {
      ASSERT_TRUE(store.Set("shm/offer/1", "elsewhere none none 100").ok());
      ASSERT_TRUE(store.Set("shm/vote/1", "no").ok());
    }
    const auto buffer = SharedBuffer();
    auto made = std::async(std::launch::async, [&] {
      return MakeCommunicator(Options(0, 2), store, *buffer).status();
    });
    store.End();
    EXPECT_EQ(made.get().code(), absl::StatusCode::kCancelled);
  }
}

// Publishes its part of the connection, then waits for `release` instead of connecting.
class StallingStore final : public KeyValueStore {
 public:
  explicit StallingStore(KeyValueStore& store) : store_(store) {}
  absl::Status Set(const std::string& key, const std::string& value) override {
    const auto status = store_.Set(key, value);
    if (key == "gloo/1") {
      stalled.set_value();
      release.get_future().wait();
    }
    return status;
  }
  absl::StatusOr<std::vector<std::string>> GetAll(const std::vector<std::string>& keys,
                                                  const GetOptions& options) override {
    return store_.GetAll(keys, options);
  }
  std::promise<void> stalled, release;

 private:
  KeyValueStore& store_;
};

TEST(MakeCommunicatorTest, AStopTokenEndsTheWaitForAConnection) {
  InMemoryStore store;
  StallingStore stalling(store);
  std::stop_source source;
  const auto first_buffer = SharedBuffer(), second_buffer = SharedBuffer();
  auto first_options = Options(0, 2), second_options = Options(1, 2);
  first_options.allow_shm = false;
  first_options.cancel = source.get_token();
  // The lower one of two addresses listens: rank 0 waits for a connection that does not come.
  second_options.bind_address = "127.0.0.2";
  auto second = std::async(std::launch::async, [&] {
    return MakeCommunicator(second_options, stalling, *second_buffer).status();
  });
  auto first = std::async(std::launch::async, [&] {
    return MakeCommunicator(first_options, store, *first_buffer).status();
  });
  stalling.stalled.get_future().wait();
  source.request_stop();
  EXPECT_EQ(first.get().code(), absl::StatusCode::kCancelled);
  stalling.release.set_value();
  EXPECT_FALSE(second.get().ok());
}

// Answers with the ranks' addresses when it is told to. Rank 1 fails as soon as it has said its
// own.
class LateStore final : public KeyValueStore {
 public:
  absl::Status Set(const std::string& key, const std::string& value) override {
    const auto status = store_.Set(key, value);
    return key == "gloo/1" ? absl::UnavailableError("rank 1 is gone") : status;
  }
  absl::StatusOr<std::vector<std::string>> GetAll(const std::vector<std::string>& keys,
                                                  const GetOptions& options) override {
    GetOptions patient = options;
    patient.timeout = std::chrono::minutes(1);
    auto values = store_.GetAll(keys, patient);
    if (keys.front() == "gloo/0") {
      asked.set_value();
      release.get_future().wait();
    }
    return values;
  }
  std::promise<void> asked, release;

 private:
  InMemoryStore store_;
};

TEST(MakeCommunicatorTest, TheTimeToConnectBeginsWhenTheAddressesAreKnown) {
  LateStore store;
  const auto try_rank = [&store](CommunicatorOptions options) {
    return std::async(std::launch::async,
                      [&store, options] { return MakeGlooCommunicator(options, store).status(); });
  };
  auto waiting = Options(0, 2);
  waiting.connect_timeout = std::chrono::milliseconds(50);
  std::optional<SteadyTime> began;
  waiting.on_connected = [&began](const absl::Status& connected, Duration took) {
    EXPECT_FALSE(connected.ok());
    began = std::chrono::steady_clock::now() - took;
  };
  auto first = try_rank(waiting), second = try_rank(Options(1, 2));
  EXPECT_FALSE(second.get().ok());
  store.asked.get_future().wait();
  const SteadyTime released = std::chrono::steady_clock::now();
  store.release.set_value();
  EXPECT_FALSE(first.get().ok());
  ASSERT_TRUE(began);
  EXPECT_GE(*began, released);
}

TEST(MakeCommunicatorTest, WhatAStrangerSendsReachesNoRank) {
  constexpr int kRanks = 4;
  InMemoryStore store;
  StrangersStore strangers(store, kRanks);
  SpawnThreads(kRanks, [&](int rank) {
    auto options = Options(rank, kRanks);
    options.callers.assign(kRanks, "192.0.2.7");
    auto made = MakeGlooCommunicator(options, strangers);
    ASSERT_TRUE(made.ok()) << made.status();
    std::vector<float> ones(100, 1.0F);
    EXPECT_TRUE((*made)->AllReduceSum(ones).ok());
    EXPECT_EQ(ones[99], static_cast<float>(kRanks));
  });
  EXPECT_EQ(strangers.visits, static_cast<std::size_t>(kRanks * (kRanks - 1)));
}

TEST(MakeCommunicatorTest, AnAddressThatIsNotThisHostsIsNamed) {
  InMemoryStore store;
  auto options = Options(0, 2);
  options.allow_shm = false;
  options.bind_address = "192.0.2.1";  // reserved for documentation
  ASSERT_TRUE(store.Set("shm/offer/1", "elsewhere none none 100").ok());
  ASSERT_TRUE(store.Set("shm/vote/1", "no").ok());
  const auto buffer = SharedBuffer();
  const auto status = MakeCommunicator(options, store, *buffer).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_NE(std::string(status.message()).find("192.0.2.1"), std::string::npos) << status;
}

TEST(MakeCommunicatorTest, AGarbledOfferIsVotedAgainst) {
  InMemoryStore store;
  auto options = Options(0, 2);
  options.connect_timeout = std::chrono::milliseconds(50);
  ASSERT_TRUE(store.Set("shm/offer/1", "garbage").ok());
  ASSERT_TRUE(store.Set("shm/vote/1", "yes").ok());
  const auto buffer = SharedBuffer();
  EXPECT_FALSE(MakeCommunicator(options, store, *buffer).ok());
  const auto vote = store.Get("shm/vote/0", std::chrono::seconds(1));
  ASSERT_TRUE(vote.ok()) << vote.status();
  EXPECT_NE(vote->find("garbage"), std::string::npos) << *vote;
}

}  // namespace
}  // namespace lockstep::train
