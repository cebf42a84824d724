#include "api/v1/strategy_traits.h"

#include <gtest/gtest.h>

#include <set>

#include "api/v1/enum_names.h"

namespace lockstep::api {
namespace {

TEST(StrategyTraitsTest, ReplicasOfNoStrategyMayDependOnEachOther) {
  TrainingJobSpec spec;
  EXPECT_TRUE(TraitsOf(spec).uses_collectives);
  EXPECT_EQ(TraitsOf(spec).restart_scope, RestartScope::kGang);
  spec.strategy.emplace().type = StrategyType::kIndependent;
  EXPECT_TRUE(TraitsOf(spec).trains_alone);
}

TEST(StrategyTraitsTest, TheirSettingsAreFieldsOfTheStrategyAndOfOneOnly) {
  StrategySpec strategy;
  strategy.parameter_server.emplace();
  strategy.central_storage.emplace();
  const Json fields = StrategySpecToJson(strategy);
  std::set<std::string_view> seen;
  for (const auto& [type, name] : kEnumNames<StrategyType>) {
    const std::string_view settings = TraitsOf(type).settings;
    if (settings.empty()) continue;
    EXPECT_TRUE(fields.contains(settings)) << name;
    EXPECT_TRUE(seen.insert(settings).second) << name;
  }
  EXPECT_EQ(seen.size(), 2U);
}

TEST(StrategyTraitsTest, ProcessesThatNeedEachOtherRestartTogether) {
  for (const auto& [type, name] : kEnumNames<StrategyType>) {
    const StrategyTraits traits = TraitsOf(type);
    EXPECT_EQ(traits.restart_scope == RestartScope::kGang, traits.uses_collectives) << name;
    EXPECT_TRUE(traits.uses_collectives || !traits.first_process_updates) << name;
  }
}

TEST(StrategyTraitsTest, ABatchIsDividedAmongProcessesOrPipelines) {
  StrategySpec strategy;
  const auto parts = [&strategy](StrategyType type, std::int64_t processes, int stages) {
    strategy.type = type;
    strategy.stages = stages;
    return BatchParts(strategy, processes);
  };
  EXPECT_EQ(parts(StrategyType::kMirrored, 8, 1), 8);
  EXPECT_EQ(parts(StrategyType::kMirrored, 8, 4), 2);
  EXPECT_EQ(parts(StrategyType::kMultiWorkerMirrored, 8, 8), 1);
  EXPECT_EQ(parts(StrategyType::kMultiWorkerMirrored, 2, 4), 1) << "an invalid job's";
  EXPECT_EQ(parts(StrategyType::kCentralStorage, 8, 1), 8);
  EXPECT_EQ(parts(StrategyType::kIndependent, 8, 1), 1);
}

TEST(StrategyTraitsTest, StagesAndShardsAreForProcessesThatSumGradientsAsEquals) {
  for (const auto& [type, name] : kEnumNames<StrategyType>) {
    const StrategyTraits traits = TraitsOf(type);
    const bool are_equals = traits.uses_collectives && !traits.first_process_updates;
    EXPECT_EQ(traits.may_have_stages, are_equals) << name;
    EXPECT_EQ(traits.may_shard_state, are_equals) << name;
  }
}

}  // namespace
}  // namespace lockstep::api
