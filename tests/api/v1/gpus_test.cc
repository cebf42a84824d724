#include "api/v1/gpus.h"

#include <gtest/gtest.h>

namespace lockstep::api {
namespace {

int GpusWith(const Json& limits) {
  return GpusOf({{"name", "trainer"}, {"resources", {{"limits", limits}}}});
}

TEST(GpusTest, AreTheLimitAsANumberOrAsText) {
  EXPECT_EQ(GpusWith({{"nvidia.com/gpu", 8}}), 8);
  EXPECT_EQ(GpusWith({{"nvidia.com/gpu", "2"}}), 2);
  EXPECT_EQ(GpusWith({{"nvidia.com/gpu", 1'000'000}}), kMostGpus);
  EXPECT_EQ(GpusWith({{"nvidia.com/gpu", -1}}), 0);
  EXPECT_EQ(GpusWith({{"cpu", 4}}), 0);
  EXPECT_EQ(GpusOf({{"name", "trainer"}}), 0);
  EXPECT_EQ(GpusWith("none"), 0);
}

// Their pods have the device, so they must not train on the CPU.
TEST(GpusTest, PartsOfGpusAreOneHoweverManyThereAre) {
  EXPECT_EQ(GpusWith({{"nvidia.com/mig-1g.10gb", 1}}), 1);
  EXPECT_EQ(GpusWith({{"nvidia.com/mig-3g.40gb", "2"}, {"cpu", 4}}), 1);
  EXPECT_EQ(GpusWith({{"nvidia.com/gpu.shared", 3}}), 1);
  EXPECT_EQ(GpusWith({{"nvidia.com/mig-1g.10gb", 0}, {"nvidia.com/gpu", 0}}), 0);
  EXPECT_EQ(GpusWith({{"nvidia.com/gpu", 4}, {"nvidia.com/gpu.shared", 1}}), 4);
}

}  // namespace
}  // namespace lockstep::api
