#include "trainer/core/cpu_quota.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "tests/support/temp_directory.h"

namespace lockstep::train {
namespace {

struct CpuQuotaTest : ::testing::Test {
  TempDirectory root;
  void WriteVersion1(const std::string& quota) const {
    std::filesystem::create_directory(root.At("cpu"));
    WriteTextFile(root.At("cpu/cpu.cfs_quota_us"), quota + "\n");
    WriteTextFile(root.At("cpu/cpu.cfs_period_us"), "100000\n");
  }
};

TEST_F(CpuQuotaTest, IsReadFromVersion2) {
  WriteTextFile(root.At("cpu.max"), "150000 100000\n");
  EXPECT_EQ(CpuQuota(root.path()), 1.5);
}

TEST_F(CpuQuotaTest, IsReadFromVersion1) {
  WriteVersion1("250000");
  EXPECT_EQ(CpuQuota(root.path()), 2.5);
}

TEST_F(CpuQuotaTest, NoLimitIsNothing) {
  EXPECT_EQ(CpuQuota(root.path()), std::nullopt);
  WriteVersion1("-1");
  EXPECT_EQ(CpuQuota(root.path()), std::nullopt);
  WriteTextFile(root.At("cpu.max"), "max 100000\n");
  EXPECT_EQ(CpuQuota(root.path()), std::nullopt);
}

}  // namespace
}  // namespace lockstep::train
