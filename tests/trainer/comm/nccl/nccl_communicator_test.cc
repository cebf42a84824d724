#include "trainer/comm/nccl/nccl_communicator.h"
#include "tests/support/local_group.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <barrier>
#include <chrono>
#include <future>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/shared_memory.h"
#include "tests/support/spawn_ranks.h"
#include "tests/trainer/comm/nccl/gpu_rank.h"

namespace lockstep::train {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kFloats = 1000;
constexpr std::int64_t kCount = kFloats;

const nccl::Api& TheApi() {
  return **nccl::OpenNccl();
}
nccl::UniqueId MakeId() {
  nccl::UniqueId id = {};
  EXPECT_EQ(TheApi().GetUniqueId(&id), nccl::kSuccess);
  return id;
}
NcclCommunicator::Options Place(const nccl::UniqueId& id, int rank, int size = 2) {
  return {.rank = rank, .size = size, .id = id};
}
std::vector<float> Fill(float value) {
  return std::vector<float>(kFloats, value);
}
void EnqueueSum(StreamCommunicator& communicator, GpuRank& rank) {
  communicator.EnqueueAllReduceSum(rank.memory.data(), kCount, DType::kFloat32, *rank.stream);
  communicator.EnqueueStatus(rank.ok_word(), *rank.stream);
}

// Calls body(communicator, rank's GPU, rank) in a thread for each rank. The ranks agree whether
// sums count.
template <typename Body>
void OnGpus(int size, const Body& body) {
  const nccl::UniqueId id = MakeId();
  const std::vector<std::unique_ptr<Communicator>> hosts = MakeLocalGroup(size);
  SpawnThreads(size, [&](int rank) {
    GpuRank gpu(rank, Fill(static_cast<float>(rank + 1)));
    auto communicator = NcclCommunicator::Create(TheApi(), Place(id, rank, size), *gpu.stream);
    ASSERT_TRUE(communicator.ok()) << communicator.status();
    (*communicator)->AgreeOver(*hosts[static_cast<std::size_t>(rank)]);
    body(**communicator, gpu, rank);
    (*communicator)->Abort();
    gpu.stream->Record()->Wait();
  });
}

TEST(NcclCommunicatorTest, SumsOverAllGpus) {
  OnGpus(3, [](NcclCommunicator& communicator, GpuRank& gpu, int rank) {
    EXPECT_EQ(communicator.Name(), "nccl");
    for (int step = 0; step < 20; ++step) {
      gpu.Set(Fill(static_cast<float>(10 * step + rank)));
      EnqueueSum(communicator, gpu);
      EXPECT_EQ(gpu.Values(), Fill(static_cast<float>(30 * step + 3)));
      EXPECT_TRUE(gpu.IsOk());
    }
    EXPECT_TRUE(communicator.status().ok());
  });
}

TEST(NcclCommunicatorTest, BroadcastsFromAnyRank) {
  OnGpus(3, [](NcclCommunicator& communicator, GpuRank& gpu, int) {
    communicator.EnqueueBroadcast(gpu.memory.data(), kCount, DType::kFloat32, 2, *gpu.stream);
    EXPECT_EQ(gpu.Values(), Fill(3));
  });
}

// What is queued behind a sum must find it there.
TEST(NcclCommunicatorTest, ASumIsOnItsStreamWhenTheCallReturns) {
  OnGpus(2, [](NcclCommunicator& communicator, GpuRank& gpu, int) {
    std::vector<float> sums(kFloats);
    communicator.EnqueueAllReduceSum(gpu.memory.data(), kCount, DType::kFloat32, *gpu.stream);
    gpu.stream->Download(gpu.memory.data(), sums.data(), kFloats * sizeof(float));
    gpu.stream->Record()->Wait();
    EXPECT_EQ(sums, Fill(3));
  });
}

// The second rank takes part in a first sum and then no more.
TEST(NcclCommunicatorTest, AnAbortEndsASumThatWaitsAndItDoesNotCount) {
  std::barrier summed(2);
  std::promise<void> aborted;
  OnGpus(2, [&](NcclCommunicator& communicator, GpuRank& gpu, int rank) {
    EnqueueSum(communicator, gpu);
    EXPECT_TRUE(gpu.IsOk());
    summed.arrive_and_wait();
    if (rank == 1) return aborted.get_future().wait();
    EnqueueSum(communicator, gpu);
    EXPECT_TRUE(communicator.status().ok());
    communicator.Abort();
    EXPECT_FALSE(gpu.IsOk());
    EXPECT_EQ(communicator.status().code(), absl::StatusCode::kCancelled);
    EnqueueSum(communicator, gpu);
    EXPECT_FALSE(gpu.IsOk()) << "nor do later ones";
    aborted.set_value();
  });
}

// Sums that are there do not count either once a failure is known: whoever aborts does not know
// which of them NCCL has made give up.
TEST(NcclCommunicatorTest, AHalfReducedBufferIsNeverDeclaredSummed) {
  for (int round = 0; round < 30; ++round) {
    std::barrier start(2);
    OnGpus(2, [&](NcclCommunicator& communicator, GpuRank& gpu, int rank) {
      gpu.Set(Fill(50));  // what a peer finds of a rank that gives up
      EnqueueSum(communicator, gpu);
      (void)gpu.IsOk();
      gpu.Set(Fill(static_cast<float>(rank + 1)));
      start.arrive_and_wait();
      std::jthread abort([&] {
        if (rank == 1) std::this_thread::sleep_for(std::chrono::microseconds(20 * round));
        if (rank == 1) communicator.Abort();
      });
      EnqueueSum(communicator, gpu);
      std::jthread later([&] {  // as the rendezvous tells the other rank
        std::this_thread::sleep_for(20ms);
        communicator.Abort();
      });
      if (gpu.IsOk()) {
        EXPECT_EQ(gpu.Values(), Fill(3));
      }
    });
  }
}

TEST(NcclCommunicatorTest, ASumThatEndsWithWhatAnAbortedPeerHasLeftDoesNotCount) {
  std::barrier aborted(2);
  OnGpus(2, [&](NcclCommunicator& communicator, GpuRank& gpu, int rank) {
    gpu.Set(Fill(50));
    EnqueueSum(communicator, gpu);
    EXPECT_TRUE(gpu.IsOk());
    gpu.Set(Fill(static_cast<float>(rank + 1)));
    if (rank == 0) aborted.arrive_and_wait();
    EnqueueSum(communicator, gpu);
    if (rank == 1) communicator.Abort();
    EXPECT_FALSE(gpu.IsOk());
    if (rank == 1) aborted.arrive_and_wait();
  });
}

TEST(NcclCommunicatorTest, AStopRequestEndsTheWaitForRanksThatDoNotConnect) {
  std::stop_source source;
  GpuRank gpu(0, Fill(1));
  NcclCommunicator::Options options = Place(MakeId(), 0);
  options.cancel = source.get_token();
  const std::jthread stop([&] {
    std::this_thread::sleep_for(20ms);
    source.request_stop();
  });
  const auto communicator = NcclCommunicator::Create(TheApi(), options, *gpu.stream);
  EXPECT_EQ(communicator.status().code(), absl::StatusCode::kCancelled);
}

TEST(NcclCommunicatorTest, ARankThatDoesNotConnectIsNotAwaitedForLong) {
  GpuRank gpu(0, Fill(1));
  NcclCommunicator::Options options = Place(MakeId(), 0);
  options.connect_timeout = 50ms;
  const auto communicator = NcclCommunicator::Create(TheApi(), options, *gpu.stream);
  EXPECT_EQ(communicator.status(),
            absl::UnavailableError("nccl: ncclCommInitRankConfig was not done within 0.05 s: a "
                                   "rank is lost or late"));
}

TEST(NcclCommunicatorTest, ARankThatJoinsTwiceIsNotTakenForItsPeer) {
  GpuRank gpu(0, Fill(1));
  NcclCommunicator::Options options = Place(MakeId(), 0);
  options.connect_timeout = 50ms;
  for (int time = 0; time < 2; ++time) {
    EXPECT_EQ(NcclCommunicator::Create(TheApi(), options, *gpu.stream).status().code(),
              absl::StatusCode::kUnavailable)
        << time;
  }
}

TEST(NcclCommunicatorTest, ASumThatAPeerDoesNotJoinFailsAfterTheTimeout) {
  const nccl::UniqueId id = MakeId();
  std::barrier summed(2), failed(2);
  SpawnThreads(2, [&](int rank) {
    GpuRank gpu(rank, Fill(1));
    NcclCommunicator::Options options = Place(id, rank);
    if (rank == 0) options.timeout = 2s;  // in which rank 1 comes, too
    const auto communicator = *NcclCommunicator::Create(TheApi(), options, *gpu.stream);
    EnqueueSum(*communicator, gpu);
    EXPECT_TRUE(gpu.IsOk());
    summed.arrive_and_wait();
    if (rank == 0) {
      std::this_thread::sleep_for(2100ms);
      EXPECT_TRUE(communicator->status().ok()) << "nothing waits";
      EnqueueSum(*communicator, gpu);
      EXPECT_FALSE(gpu.IsOk());
      EXPECT_EQ(communicator->status(),
                absl::UnavailableError("nccl: a collective did not end within 2 s: a rank is "
                                       "lost or late"));
    }
    failed.arrive_and_wait();
  });
}

// Ranks as processes, one of which is killed between two sums.
TEST(NcclCommunicatorTest, AKilledRankLeavesTheOthersWaitingUntilTheyAbort) {
  struct Report {
    nccl::UniqueId id;
    std::atomic<bool> has_id, waits, was_ok, was_right;
  };
  const Shared<Report> report;
  ForkedRanks ranks(2, [&](int rank) {
    if (rank == 0) {
      report->id = MakeId();
      report->has_id = true;
    }
    while (!report->has_id) std::this_thread::yield();
    GpuRank gpu(rank, Fill(static_cast<float>(rank + 1)));
    const auto communicator =
        *NcclCommunicator::Create(TheApi(), Place(report->id, rank), *gpu.stream);
    EnqueueSum(*communicator, gpu);
    const bool is_right = gpu.IsOk() && gpu.Values() == Fill(3);
    if (rank == 1) ::raise(SIGKILL);
    report->was_right = is_right;
    std::jthread abort([&] {
      std::this_thread::sleep_for(200ms);
      report->waits = communicator->status().ok();
      communicator->Abort();
    });
    EnqueueSum(*communicator, gpu);
    report->was_ok = gpu.IsOk();
    return 0;
  });
  EXPECT_EQ(ranks.Wait(1), 128 + SIGKILL);
  EXPECT_EQ(ranks.Wait(0), 0);
  EXPECT_TRUE(report->was_right);
  EXPECT_TRUE(report->waits);
  EXPECT_FALSE(report->was_ok);
}

}  // namespace
}  // namespace lockstep::train
