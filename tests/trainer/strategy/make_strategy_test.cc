#include "trainer/strategy/make_strategy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/trainer/identity/identities.h"

namespace lockstep::train {
namespace {

using ::testing::HasSubstr;
using testing::Worker;

Identity Process(api::StrategyType type, int index, int local_rank) {
  Identity identity = Worker(index, {"127.0.0.1:1", "127.0.0.1:2"});
  identity.strategy.type = type;
  identity.processes_per_pod = 2;
  identity.local_rank = local_rank;
  identity.training.checkpoint.directory = "/checkpoints";
  return identity;
}

TEST(MakeStrategyTest, MemoryIsSharedByAtMost128Processes) {
  Identity identity = Worker(0, {"127.0.0.1:1"});
  identity.strategy.type = api::StrategyType::kCentralStorage;
  for (const auto& [processes, shares] : {std::pair(2, true), {128, true}, {129, false}}) {
    identity.processes_per_pod = processes;
    EXPECT_EQ(AllowsSharedMemory(identity), shares) << processes;
  }
  identity.processes_per_pod = 2;
  identity.strategy.communication = api::Communication::kRing;
  EXPECT_FALSE(AllowsSharedMemory(identity));
}

TEST(MakeStrategyTest, MirroredProcessesTrainOneModelAndTheFirstSavesIt) {
  for (const auto type : {api::StrategyType::kMirrored, api::StrategyType::kMultiWorkerMirrored}) {
    for (const int index : {0, 1}) {
      for (const int local : {0, 1}) {
        const Identity identity = Process(type, index, local);
        const ReplicaDuties duties = DutiesOf(identity).value();
        EXPECT_EQ(identity.World(), 4);
        EXPECT_EQ(duties.saves, index == 0 && local == 0);
        EXPECT_EQ(duties.update_site, UpdateSite::kEveryRank);
        EXPECT_EQ(duties.variant, std::nullopt);
        EXPECT_EQ(duties.training, identity.training);
        EXPECT_EQ(duties.data_seed, identity.training.seed);
      }
    }
  }
}

TEST(MakeStrategyTest, OnlyTheControllerOfCentralStorageUpdatesAndSaves) {
  for (const int local : {0, 1}) {
    Identity identity = Process(api::StrategyType::kCentralStorage, 0, local);
    identity.cluster.worker.resize(1);
    const ReplicaDuties duties = DutiesOf(identity).value();
    EXPECT_EQ(identity.World(), 2);
    EXPECT_EQ(identity.BatchParts(), 2);
    EXPECT_EQ(duties.saves, local == 0);
    EXPECT_EQ(duties.update_site, local == 0 ? UpdateSite::kThisRank : UpdateSite::kRankZero);
  }
  Identity alone = Process(api::StrategyType::kCentralStorage, 0, 0);
  alone.cluster.worker.resize(1);
  alone.processes_per_pod = 1;
  EXPECT_EQ(DutiesOf(alone).value().update_site, UpdateSite::kEveryRank);
}

TEST(MakeStrategyTest, IndependentProcessesEachTrainAndSaveTheirOwn) {
  Identity identity = Process(api::StrategyType::kIndependent, 1, 1);
  identity.training.seed = 3;
  identity.training.variants = api::Json::array({api::Json::object(),
                                                 api::Json::object(),
                                                 api::Json::object(),
                                                 {{"name", "last"}, {"seed", 9}}});
  const ReplicaDuties duties = DutiesOf(identity).value();
  EXPECT_EQ(identity.World(), 1);
  EXPECT_TRUE(duties.saves);
  EXPECT_EQ(duties.variant, 3);
  EXPECT_EQ(duties.training.seed, 9);
  EXPECT_EQ(duties.data_seed, 3);
  EXPECT_EQ(duties.training.checkpoint.directory, "/checkpoints/last");
  EXPECT_FALSE(identity.IsLeader());
  EXPECT_FALSE(Process(api::StrategyType::kIndependent, 0, 0).IsLeader()) << "no group to lead";
}

TEST(MakeStrategyTest, ProcessesThatDifferInTheirSeedHaveTheSameData) {
  const ReplicaDuties first = DutiesOf(Process(api::StrategyType::kIndependent, 0, 0)).value();
  const ReplicaDuties last = DutiesOf(Process(api::StrategyType::kIndependent, 1, 1)).value();
  EXPECT_NE(first.training.seed, last.training.seed);
  EXPECT_EQ(first.data_seed, last.data_seed);
}

TEST(MakeStrategyTest, AProcessWithoutAVariantIsRefused) {
  Identity identity = Process(api::StrategyType::kIndependent, 1, 1);
  identity.training.variants = api::Json::array({api::Json::object()});
  EXPECT_THAT(std::string(DutiesOf(identity).status().message()),
              HasSubstr("training.variants: found 1 variants"));
}

}  // namespace
}  // namespace lockstep::train
