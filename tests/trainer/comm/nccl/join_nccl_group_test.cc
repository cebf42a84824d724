#include "trainer/comm/nccl/join_nccl_group.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/local_group.h"
#include "tests/support/spawn_ranks.h"
#include "tests/trainer/comm/nccl/gpu_rank.h"
#include "trainer/comm/make_stream_communicator.h"

namespace lockstep::train {
namespace {

const std::vector<GradientReducer::Bucket> kRanges = {{1, 2}, {0, 1}};

// Each rank's back end, by the rank's number.
std::unique_ptr<Backend> OnGpu(int gpu) {
  return MakeBackend({.name = "cuda", .device = gpu});
}

// What a rank needs to sum.
struct Sums {
  explicit Sums(std::unique_ptr<Backend> of)
      : backend(std::move(of)),
        memory(*backend, {1, 2}),
        is_summed(*backend, {'\1'}),
        transfer(backend->MakeStream()) {}
  std::optional<DeviceSums> sums() const {
    return DeviceSums{.memory = memory.data(),
                      .is_summed = reinterpret_cast<bool*>(is_summed.data()),
                      .compute = &backend->stream(),
                      .transfer = transfer.get()};
  }
  const std::unique_ptr<Backend> backend;
  DeviceArray<float> memory;
  DeviceArray<char> is_summed;
  const std::unique_ptr<Stream> transfer;
  std::vector<float> staging = std::vector<float>(2);
};

// How a group of two sums; `gpus` says on which GPU each computes, -1 for the CPU.
struct Road {
  absl::Status status;
  std::string name;  // "none": the rank has no device memory
};
std::vector<Road> RoadsOf(const std::vector<int>& gpus, DeviceRoad road) {
  const auto group = MakeLocalGroup(2);
  std::vector<Road> roads(2);
  SpawnThreads(2, [&](int rank) {
    const auto index = static_cast<std::size_t>(rank);
    const Sums own(gpus[index] < 0 ? MakeBackend({.name = "reference"}) : OnGpu(gpus[index]));
    std::vector<float> staging(2);
    const auto made =
        MakeStreamCommunicator({.road = road}, *group[index],
                               gpus[index] < 0 ? std::nullopt : own.sums(), kRanges, staging);
    roads[index] = {.status = made.status(),
                    .name = !made.ok() || *made == nullptr ? "none" : (*made)->Name()};
  });
  return roads;
}

TEST(JoinNcclGroupTest, RanksOnGpusOfTheirOwnUseIt) {
  for (const DeviceRoad road : {DeviceRoad::kNcclIfPossible, DeviceRoad::kNccl}) {
    for (const Road& own : RoadsOf({0, 1}, road)) {
      EXPECT_TRUE(own.status.ok()) << own.status;
      EXPECT_EQ(own.name, "nccl");
    }
  }
}

TEST(JoinNcclGroupTest, NobodyUsesItIfItIsNotWanted) {
  for (const Road& own : RoadsOf({0, 1}, DeviceRoad::kHost)) EXPECT_EQ(own.name, "staged");
}

TEST(JoinNcclGroupTest, RanksThatShareAGpuSumThroughTheHost) {
  for (const Road& own : RoadsOf({1, 1}, DeviceRoad::kNcclIfPossible)) {
    EXPECT_TRUE(own.status.ok()) << own.status;
    EXPECT_EQ(own.name, "staged");
  }
  for (const Road& own : RoadsOf({1, 1}, DeviceRoad::kNccl)) {
    EXPECT_EQ(own.status,
              absl::FailedPreconditionError(
                  "spec.strategy.communication: found NCCL, but ranks 0 and 1 share a GPU, and "
                  "NCCL needs one for each rank; Auto sums through the hosts then"));
  }
}

TEST(JoinNcclGroupTest, OneRankOnACpuIsEnoughThatNobodyUsesIt) {
  const std::vector<Road> roads = RoadsOf({0, -1}, DeviceRoad::kNcclIfPossible);
  EXPECT_EQ(roads[0].name, "staged");
  EXPECT_EQ(roads[1].name, "none");
  EXPECT_TRUE(roads[0].status.ok() && roads[1].status.ok());
  for (const Road& own : RoadsOf({0, -1}, DeviceRoad::kNccl)) {
    EXPECT_EQ(own.status,
              absl::FailedPreconditionError(
                  "spec.strategy.communication: found NCCL, but rank 1 does not compute on a GPU; "
                  "Auto sums through the hosts then"));
  }
}

TEST(JoinNcclGroupTest, WhereItDoesNotConnectTheHostIsTheWayOut) {
  ::setenv("NCCL_SOCKET_IFNAME", "nowhere", /*overwrite=*/1);
  for (const Road& own : RoadsOf({0, 1}, DeviceRoad::kNcclIfPossible)) {
    EXPECT_TRUE(own.status.ok()) << own.status;
    EXPECT_EQ(own.name, "staged");
  }
  for (const Road& own : RoadsOf({0, 1}, DeviceRoad::kNccl)) {
    EXPECT_EQ(own.status,
              absl::UnavailableError(
                  "spec.strategy.communication: found NCCL, but rank 0 cannot connect; its own log "
                  "says why; Auto sums through the hosts then"));
  }
  ::unsetenv("NCCL_SOCKET_IFNAME");
}

TEST(JoinNcclGroupTest, AGroupThatFailsWhileItIsFormedReportsThat) {
  const auto group = MakeLocalGroup(2);
  group[1]->Abort();
  const Sums own(OnGpu(0));
  const auto verdict = JoinNcclGroup({}, *group[0], own.sums(), kRanges);
  EXPECT_EQ(verdict.status().code(), absl::StatusCode::kUnavailable) << verdict.status();
}

}  // namespace
}  // namespace lockstep::train
