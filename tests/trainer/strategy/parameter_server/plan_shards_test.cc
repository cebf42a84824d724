#include "trainer/strategy/parameter_server/plan_shards.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace lockstep::train {

static void PrintTo(const FlatRange& range, std::ostream* out) {
  *out << "[" << range.begin << "," << range.end << ")";
}

namespace {

using api::ParameterPlacement;

struct ShardCase {
  std::string name;
  std::vector<FlatRange> tensors;
  int shards;
  ParameterPlacement placement;
  std::vector<ShardRanges> plan;
};

class PlanShardsTest : public ::testing::TestWithParam<ShardCase> {};

TEST_P(PlanShardsTest, TheServersGetTheirRanges) {
  EXPECT_EQ(PlanShards(GetParam().tensors, GetParam().shards, GetParam().placement),
            GetParam().plan);
}

constexpr auto kBySize = ParameterPlacement::kBySize;
constexpr auto kRoundRobin = ParameterPlacement::kRoundRobin;

INSTANTIATE_TEST_SUITE_P(
    Placements, PlanShardsTest,
    ::testing::Values(
        ShardCase{"BySizeOneServerHoldsAll", {{0, 20}, {32, 40}}, 1, kBySize, {{{0, 40}}}},
        ShardCase{"BySizeATensorIsCut", {{0, 64}}, 2, kBySize, {{{0, 32}}, {{32, 64}}}},
        ShardCase{"BySizePartsAreEqualToWithinACacheLine",
                  {{0, 100}},
                  3,
                  kBySize,
                  {{{0, 32}}, {{32, 64}}, {{64, 100}}}},
        ShardCase{"BySizeMoreServersThanCacheLines", {{0, 10}}, 3, kBySize, {{}, {}, {{0, 10}}}},
        ShardCase{"BySizeNothingToHold", {}, 2, kBySize, {{}, {}}},
        ShardCase{"RoundRobinTensorsInTurn",
                  {{0, 16}, {16, 48}, {48, 56}},
                  2,
                  kRoundRobin,
                  {{{0, 16}, {48, 56}}, {{16, 48}}}},
        ShardCase{"RoundRobinAGapGoesWithTheTensorBeforeIt",
                  {{0, 10}, {16, 20}, {32, 40}},
                  2,
                  kRoundRobin,
                  {{{0, 16}, {32, 40}}, {{16, 32}}}},
        ShardCase{
            "RoundRobinAGapAtTheStartGoesWithTheFirst", {{16, 20}}, 1, kRoundRobin, {{{0, 20}}}},
        ShardCase{"RoundRobinNeighboursOfOneServerAreOneRange",
                  {{0, 16}, {16, 48}},
                  1,
                  kRoundRobin,
                  {{{0, 48}}}},
        ShardCase{"RoundRobinMoreServersThanTensors", {{0, 16}}, 2, kRoundRobin, {{{0, 16}}, {}}},
        ShardCase{"RoundRobinNothingToHold", {}, 2, kRoundRobin, {{}, {}}}),
    [](const auto& test) { return test.param.name; });

TEST(PlanShardsPropertyTest, EveryFloatIsOnExactlyOneServer) {
  const std::vector<FlatRange> tensors = {{0, 150}, {160, 161}, {176, 7000}, {7008, 7040}};
  for (const auto placement : {kBySize, kRoundRobin}) {
    for (int shards = 1; shards <= 40; ++shards) {
      std::vector<int> holders(7040);
      std::int64_t floats = 0;
      for (const ShardRanges& ranges : PlanShards(tensors, shards, placement)) {
        floats += FloatsOf(ranges);
        for (const FlatRange& range : ranges) {
          for (std::int64_t i = range.begin; i < range.end; ++i) {
            ++holders.at(static_cast<std::size_t>(i));
          }
        }
      }
      EXPECT_THAT(holders, ::testing::Each(1)) << shards << " servers";
      EXPECT_EQ(floats, 7040) << shards << " servers";
    }
  }
}

}  // namespace
}  // namespace lockstep::train
