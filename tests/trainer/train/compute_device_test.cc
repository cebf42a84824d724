#include "trainer/train/compute_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/cuda_sim/use_simulator.h"
#include "trainer/backend/cuda/fatbin.h"

namespace lockstep::train {
namespace {

Identity WithGpus(int gpus, int local_rank) {
  Identity identity;
  identity.gpus = gpus;
  identity.processes_per_pod = 4;
  identity.local_rank = local_rank;
  return identity;
}

TEST(ComputeDeviceTest, APodWithoutGpusComputesOnTheCpu) {
  const BackendOptions device = DeviceOf(WithGpus(0, 3), 5);
  EXPECT_EQ(device.name, "cpu");
  EXPECT_EQ(device.threads, 5);
}

TEST(ComputeDeviceTest, ProcessesTakeTheGpusOfTheirPodInTurns) {
  for (const auto& [gpus, local_rank, expected] :
       {std::tuple{4, 3, 3}, {2, 3, 1}, {8, 3, 3}, {1, 0, 0}}) {
    const BackendOptions device = DeviceOf(WithGpus(gpus, local_rank), 1);
    EXPECT_EQ(device.name, "cuda");
    EXPECT_EQ(device.device, expected) << gpus << " GPUs, process " << local_rank;
  }
}

TEST(ComputeDeviceTest, WorkersOfParameterServersComputeOnTheCpuAndTheirEvaluatorDoesNot) {
  Identity identity = WithGpus(1, 0);
  identity.strategy.type = api::StrategyType::kParameterServer;
  EXPECT_EQ(DeviceOf(identity, 1).name, "cpu");
  identity.role = api::Role::kEvaluator;
  EXPECT_EQ(DeviceOf(identity, 1).name, "cuda");
}

TEST(ComputeDeviceTest, TheDeviceThatIsThereIsOpened) {
  const auto device = OpenDevice({.name = "cuda"}, true);
  ASSERT_TRUE(device.ok()) << device.status();
  EXPECT_EQ((*device)->Name(), "cuda");
}

TEST(ComputeDeviceTest, ADeviceThatIsNotThereIsBadConfigurationOnlyForABuildThatHasKernels) {
  const auto device = OpenDevice({.name = "cuda", .device = 64}, true);
  if (cuda::HasKernels()) {
    EXPECT_EQ(device.status(),
              absl::InvalidArgumentError("back end cuda: found 3 GPUs, expected one of number 64"));
    return;
  }
  // As the image for CPUs, in which a job that asks for GPUs has always trained.
  ASSERT_TRUE(device.ok()) << device.status();
  EXPECT_EQ((*device)->Name(), "cpu");
  EXPECT_EQ(OpenDevice({.name = "cuda", .device = 64}, false).status().code(),
            absl::StatusCode::kInvalidArgument)
      << "what asks for the device alone is told that it is not there";
}

}  // namespace
}  // namespace lockstep::train
