#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "tests/support/local_rendezvous.h"
#include "trainer/strategy/stage_groups.h"

namespace lockstep::train {
namespace {

constexpr auto kLeastTimeout = std::chrono::milliseconds(200);
constexpr auto kLate = std::chrono::seconds(1);

TEST(StagePlaceTest, NeighbouringRanksAreAPipeline) {
  EXPECT_EQ(PlaceOf(0, 3, 6), (StagePlace{.stage = 0, .stages = 3, .pipeline = 0, .pipelines = 2}));
  EXPECT_EQ(PlaceOf(5, 3, 6), (StagePlace{.stage = 2, .stages = 3, .pipeline = 1, .pipelines = 2}));
}

// One of two ranks, each a stage.
class PipelineTest : public ::testing::TestWithParam<bool> {
 protected:
  // One generation. Returns what became of a message from stage 0 to stage 1, which stage 0 sends
  // late.
  static absl::Status Exchange(Strategy& strategy, Rendezvous& rendezvous, int rank) {
    const auto membership = rendezvous.Join(0, "");
    EXPECT_TRUE(membership.ok()) << membership.status();
    const absl::Status connected = strategy.Connect(*membership, rendezvous.store());
    EXPECT_TRUE(connected.ok()) << connected;
    StageGroups& groups = *strategy.stages();
    StageLink& link = rank == 0 ? *groups.to_next() : *groups.from_previous();
    if (rank == 0) std::this_thread::sleep_for(kLate);
    link.Expect(1);
    absl::Status passed = link.Next().status();
    if (passed.ok()) link.Done();
    float one = 1;
    if (passed.ok()) passed = strategy.Sum({&one, 1});
    strategy.StepEnded(passed);
    strategy.Disconnect();
    return passed;
  }
};

// As for sums: else a lasting difference in speed would end every generation.
TEST_P(PipelineTest, ALinkWaitsLongerAfterATimeout) {
  constexpr int kGenerations = 8;  // the timeout reaches 25 s
  LocalRendezvousHub hub(2);
  int succeeded = 0;
  const auto run = [&](int rank) {
    const auto client = hub.Client(rank);
    const auto buffer = *GradientBuffer::Create(64);
    StageTraffic traffic;
    (rank == 0 ? traffic.to_next : traffic.from_previous) = {.bytes = 256, .slots = 2};
    (rank == 0 ? traffic.from_next : traffic.to_previous) = {.bytes = 128, .slots = 2};
    const auto strategy = *MakePipelineStrategy(2, traffic, *buffer,
                                                {.bind_address = "127.0.0.1",
                                                 .allow_shm = GetParam(),
                                                 .layer_starts = {0},
                                                 .least_timeout = kLeastTimeout},
                                                std::nullopt);
    client->OnGenerationEnd(
        [&](std::uint64_t generation, const std::string&) { strategy->Abort(generation); });
    for (int i = 0; i < kGenerations; ++i) {
      const absl::Status passed = Exchange(*strategy, *client, rank);
      if (rank == 1 && passed.ok()) ++succeeded;
    }
  };
  std::thread other(run, 0);
  run(1);
  other.join();
  EXPECT_GT(succeeded, 0);
}

INSTANTIATE_TEST_SUITE_P(Communicators, PipelineTest, ::testing::Bool(),
                         [](const auto& shm) { return shm.param ? "shm" : "gloo"; });

}  // namespace
}  // namespace lockstep::train
