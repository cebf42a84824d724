#include "trainer/strategy/parameter_server/parameter_server.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/trainer/identity/identities.h"

namespace lockstep::train {
namespace {

using ::testing::HasSubstr;

TEST(ServerGroupHashTest, TellsTrainersOfOtherProtocolsJobsAndStrategiesApart) {
  Identity first = lockstep::testing::Worker(0, {"a:1", "b:1"});
  first.cluster.ps = {"c:1"};
  const std::string hash = ServerGroupHash(first);
  EXPECT_THAT(hash, HasSubstr(fmt::format("protocol={} ", kProtocol)));
  Identity other = first;
  other.job_uid = "another";
  EXPECT_NE(ServerGroupHash(other), hash);
  other = first;
  other.cluster.ps.emplace_back("d:1");
  EXPECT_NE(ServerGroupHash(other), hash);
  other = first;
  other.strategy.parameter_server.emplace().mode = api::ParameterServerMode::kSync;
  EXPECT_NE(ServerGroupHash(other), hash);
}

TEST(ServerGroupHashTest, WorkersMayComeAndGo) {
  EXPECT_EQ(ServerGroupHash(lockstep::testing::Worker(0, {"a:1", "b:1"})),
            ServerGroupHash(lockstep::testing::Worker(2, {"a:1", "b:1", "c:1"})));
}

}  // namespace
}  // namespace lockstep::train
