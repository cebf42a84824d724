#include "operator/local/gpu_shares.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/support/temp_directory.h"

namespace lockstep::local {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(GpuSharesTest, PodsHaveGpusOfTheirOwnWhileThereAreEnough) {
  GpuShares shares({"0", "1", "2"});
  EXPECT_THAT(shares.Take("a", 1), ElementsAre("0"));
  EXPECT_THAT(shares.Take("b", 2), ElementsAre("1", "2"));
  EXPECT_THAT(shares.Take("a", 1), ElementsAre("0")) << "the same as before";
  EXPECT_THAT(shares.Take("c", 1), ElementsAre("0")) << "each has one owner: the first is shared";
}

TEST(GpuSharesTest, WhatIsGivenBackIsTakenAgain) {
  GpuShares shares({"0", "1"});
  shares.Take("a", 1);
  shares.Take("b", 1);
  shares.GiveBack("b");
  EXPECT_THAT(shares.Take("c", 1), ElementsAre("1"));
}

TEST(GpuSharesTest, NobodyGetsMoreThanThereAre) {
  GpuShares shares({"GPU-5d"});
  EXPECT_THAT(shares.Take("a", 8), ElementsAre("GPU-5d"));
  EXPECT_THAT(GpuShares({}).Take("a", 8), IsEmpty());
}

TEST(PermittedGpusTest, AreThoseOfTheVariable) {
  EXPECT_THAT(PermittedGpus("3,GPU-5d"), ElementsAre("3", "GPU-5d"));
  EXPECT_THAT(PermittedGpus("0,-1,1"), ElementsAre("0"));
  EXPECT_THAT(PermittedGpus(""), IsEmpty());
  EXPECT_THAT(PermittedGpus("NoDevFiles"), IsEmpty());
}

TEST(PermittedGpusTest, ElseAllThatTheDriverHas) {
  const TempDirectory driver;
  std::filesystem::create_directory(driver.At("0000:01:00.0"));
  std::filesystem::create_directory(driver.At("0000:02:00.0"));
  EXPECT_THAT(PermittedGpus(nullptr, driver.path()), ElementsAre("0", "1"));
  EXPECT_THAT(PermittedGpus(nullptr, driver.At("none")), IsEmpty());
}

}  // namespace
}  // namespace lockstep::local
