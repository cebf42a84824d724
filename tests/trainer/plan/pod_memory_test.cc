#include "trainer/plan/pod_memory.h"

#include <gtest/gtest.h>

#include <string>

namespace lockstep::train {
namespace {

// Replicas and supervisors whose program is 10 bytes.
ReplicaMemory ReplicaOf(std::size_t bytes) {
  return {.process = 10, .activations = bytes - 10};
}

PodContents ContentsOf(std::vector<ReplicaMemory> replicas) {
  return {.replicas = std::move(replicas),
          .other = ReplicaOf(100),
          .servers = {},
          .evaluators = {},
          .supervisor = 15,
          .program = 10};
}

Identity GroupOf(int chiefs, int workers, int processes) {
  Identity identity;
  identity.cluster.chief.assign(static_cast<std::size_t>(chiefs), "a:1");
  identity.cluster.worker.assign(static_cast<std::size_t>(workers), "b:1");
  identity.processes_per_pod = processes;
  return identity;
}

TEST(PodMemoryTest, ProcessesOfAPodShareTheirProgram) {
  const PlannedMemory memory = MemoryOfPods(GroupOf(0, 2, 3), ContentsOf({ReplicaOf(120)}), {});
  ASSERT_EQ(memory.pods.size(), 1u);
  EXPECT_EQ(memory.pods[0].count, 2);
  EXPECT_EQ(memory.pods[0].bytes, 15u + 110 + 90 + 90);
  EXPECT_EQ(memory.job, memory.pods[0].bytes + 15 + 3 * 90);
  EXPECT_EQ(memory.replica.total(), 120u);
}

TEST(PodMemoryTest, EachRoleHasItsOwnPods) {
  PodContents contents = ContentsOf({ReplicaOf(120)});
  contents.servers = {50, 40};
  contents.evaluators = {ReplicaOf(80)};
  const PlannedMemory memory = MemoryOfPods(GroupOf(1, 2, 1), contents,
                                            {{api::Role::kChief, 125}, {api::Role::kWorker, 105}});
  ASSERT_EQ(memory.pods.size(), 4u);
  EXPECT_EQ(memory.pods[0].role, api::Role::kChief);
  EXPECT_EQ(memory.pods[0].bytes, 125u);
  EXPECT_EQ(memory.pods[1].role, api::Role::kWorker);
  EXPECT_EQ(memory.pods[1].bytes, 105u);
  EXPECT_EQ(memory.pods[1].all, 210u);
  EXPECT_EQ(memory.pods[2].role, api::Role::kParameterServer);
  EXPECT_EQ(memory.pods[2].bytes, 55u) << "the larger of the two";
  EXPECT_EQ(memory.pods[3].role, api::Role::kEvaluator);
  EXPECT_EQ(memory.pods[3].bytes, 85u);
  EXPECT_EQ(memory.WithoutLimit(), 55u + 45 + 85);
  EXPECT_TRUE(memory.Fits(185));
  EXPECT_FALSE(memory.Fits(184));
}

TEST(PodMemoryTest, ALimitIsThatOfTheLargestPodOfTheRole) {
  const auto fits = [](std::uint64_t chief, std::uint64_t worker) {
    return MemoryOfPods(GroupOf(1, 2, 1), ContentsOf({ReplicaOf(120)}),
                        {{api::Role::kChief, chief}, {api::Role::kWorker, worker}})
        .Fits(0);
  };
  EXPECT_TRUE(fits(125, 105));
  EXPECT_FALSE(fits(124, 105));
  EXPECT_FALSE(fits(125, 104));
}

TEST(PodMemoryTest, MoreBytesThanANumberHoldsDoNotFit) {
  constexpr std::size_t kLarge = std::size_t{1} << 61;
  PodContents contents = ContentsOf({ReplicaOf(kLarge)});
  contents.other = ReplicaOf(kLarge);
  for (const Identity& identity : {GroupOf(0, 8, 1), GroupOf(0, 1, 8), GroupOf(1, 7, 1)}) {
    const PlannedMemory memory = MemoryOfPods(identity, contents, {});
    EXPECT_GE(memory.job, kLarge);
    EXPECT_FALSE(memory.Fits(std::uint64_t{1} << 60));
    EXPECT_EQ(memory.WithoutLimit(), memory.job);
  }
}

TEST(PodMemoryTest, EveryVariantCounts) {
  Identity identity = GroupOf(0, 2, 2);
  identity.strategy.type = api::StrategyType::kIndependent;
  const PlannedMemory memory = MemoryOfPods(
      identity, ContentsOf({ReplicaOf(100), ReplicaOf(110), ReplicaOf(200), ReplicaOf(50)}), {});
  EXPECT_EQ(memory.replica.total(), 200u);
  EXPECT_EQ(memory.pods.at(0).bytes, 15u + 190 + 40);
  EXPECT_EQ(memory.job, 2u * 15 + 90 + 100 + 190 + 40);
}

}  // namespace
}  // namespace lockstep::train
