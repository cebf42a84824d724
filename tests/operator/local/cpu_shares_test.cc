#include "operator/local/cpu_shares.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "tests/support/temp_directory.h"

namespace lockstep::local {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(CpuSharesTest, TwoPodsOfOneCoreGetDistinctCores) {
  CpuShares shares({4, 7}, 2);
  EXPECT_THAT(shares.Take("a", 1000), ElementsAre(4));
  EXPECT_THAT(shares.Take("b", 1000), ElementsAre(7));
  shares.GiveBack("a");
  EXPECT_THAT(shares.Take("c", 500), ElementsAre(4));
}

TEST(CpuSharesTest, WithoutLimitsPodsShareEvenly) {
  CpuShares shares({0, 1, 2, 3}, 2);
  EXPECT_THAT(shares.Take("a", std::nullopt), ElementsAre(0, 1));
  EXPECT_THAT(shares.Take("b", std::nullopt), ElementsAre(2, 3));
}

TEST(CpuSharesTest, WhoRunsOnAllCoresTakesNone) {
  CpuShares shares({3, 4}, 2);
  EXPECT_THAT(shares.All(), ElementsAre(3, 4));
  EXPECT_THAT(shares.Take("a", std::nullopt), ElementsAre(3));
  EXPECT_THAT(shares.Take("b", std::nullopt), ElementsAre(4));
}

TEST(CpuSharesTest, WhatRunsBeforeAContainerLeavesOtherRunsAlone) {
  const TempDirectory folder;
  auto one = *MachineUse::Open(folder.path()), other = *MachineUse::Open(folder.path());
  CpuShares first({0, 1}, 1, &one), second({0, 1, 2, 3}, 1, &other);
  EXPECT_THAT(first.Take("a", 2000), ElementsAre(0, 1));
  EXPECT_THAT(second.Take("b", 1000), ElementsAre(2));
  EXPECT_THAT(second.Before({2}, 2000), ElementsAre(2, 3));
}

TEST(CpuSharesTest, WhatRunsBeforeAContainerHasItsCores) {
  CpuShares shares({0, 1, 2, 3}, 2);
  const std::vector<int> main = shares.Take("a", 1000);
  EXPECT_THAT(shares.Before(main, 1000), ElementsAre(0));
  EXPECT_THAT(shares.Before(main, 3000), ElementsAre(0, 1, 2)) << "it may use more";
  EXPECT_THAT(shares.Before(main, std::nullopt), ElementsAre(0, 1)) << "an even share";
  EXPECT_THAT(shares.Take("b", 1000), ElementsAre(1)) << "it takes none";
  EXPECT_THAT(shares.Before({}, 2000), ElementsAre(2, 3)) << "the least loaded";
  EXPECT_THAT(CpuShares({}, 1).Before({}, 1000), IsEmpty());
}

TEST(CpuSharesTest, CoresThatAnotherRunUsesComeLast) {
  const TempDirectory folder;
  auto theirs = MachineUse::Open(folder.path()), ours = MachineUse::Open(folder.path());
  ASSERT_TRUE(theirs.ok() && ours.ok()) << theirs.status();
  CpuShares first({0, 1, 2}, 1, &*theirs), second({0, 1, 2}, 1, &*ours);
  EXPECT_THAT(first.Take("a", 2000), ElementsAre(0, 1));
  EXPECT_THAT(second.Take("b", 1000), ElementsAre(2));
  EXPECT_THAT(second.Take("c", 1000), ElementsAre(0)) << "none is free: pods of one run keep apart";
  first.GiveBack("a");
  second.GiveBack("b");
  second.GiveBack("c");
  EXPECT_THAT(second.Take("d", 1000), ElementsAre(0)) << "it is free again";
  EXPECT_THAT(first.Take("e", 2000), ElementsAre(1, 2));
}

// A sum of fractions may not be zero again, and the core would never be free for other runs.
TEST(CpuSharesTest, NothingIsLeftOfAFractionThatIsGivenBack) {
  const TempDirectory folder;
  auto theirs = MachineUse::Open(folder.path()), ours = MachineUse::Open(folder.path());
  ASSERT_TRUE(theirs.ok() && ours.ok()) << theirs.status();
  CpuShares first({0, 1, 2, 3}, 1, &*theirs), second({0, 1, 2, 3}, 1, &*ours);
  for (const char* owner : {"a", "b", "c"}) first.Take(owner, 2200);
  for (const char* owner : {"a", "b", "c"}) first.GiveBack(owner);
  EXPECT_THAT(second.Take("d", 1000), ElementsAre(0));
}

}  // namespace
}  // namespace lockstep::local
