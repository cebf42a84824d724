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

int AcceleratorsWith(const Json& limits) {
  return AcceleratorsOf({{"name", "pytorch"}, {"resources", {{"limits", limits}}}});
}

// As torch.accelerator.device_count() does.
TEST(GpusTest, AcceleratorsAreThoseOfAllVendorsThatPyTorchFinds) {
  EXPECT_EQ(AcceleratorsWith({{"amd.com/gpu", 8}}), 8);
  EXPECT_EQ(AcceleratorsWith({{"amd.com/spx_nps1", 1}, {"amd.com/cpx_nps4", "2"}}), 3);
  EXPECT_EQ(AcceleratorsWith({{"gpu.intel.com/i915", "4"}, {"gpu.intel.com/i915_monitoring", 1}}),
            4);
  EXPECT_EQ(AcceleratorsWith({{"gpu.intel.com/xe", 2}}), 2);
  EXPECT_EQ(AcceleratorsWith({{"habana.ai/gaudi", 8}}), 8);
  EXPECT_EQ(AcceleratorsWith({{"amd.com/gpu", 200}, {"amd.com/cpx_nps1", 200}}), kMostGpus);
  EXPECT_EQ(AcceleratorsWith({{"nvidia.com/gpu", 4}, {"nvidia.com/gpu.shared", 1}}), 4);
  EXPECT_EQ(AcceleratorsWith({{"nvidia.com/mig-1g.10gb", 2}}), 1);
  EXPECT_EQ(AcceleratorsWith({{"rdma/hca", 8}, {"vpc.amazonaws.com/efa", 4}, {"cpu", 96}}), 0);
}

// It decides on the image with CUDA.
TEST(GpusTest, OnlyThoseOfNvidiaAreGpusOfTheBundledTrainer) {
  EXPECT_EQ(GpusWith({{"amd.com/gpu", 8}, {"gpu.intel.com/xe", 8}, {"habana.ai/gaudi", 8}}), 0);
}

}  // namespace
}  // namespace lockstep::api
