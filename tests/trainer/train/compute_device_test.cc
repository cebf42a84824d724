#include "trainer/train/compute_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include "api/v1/names.h"
#include "tests/support/cuda_sim/use_simulator.h"
#include "tests/support/temp_directory.h"
#include "trainer/backend/cuda/device/device.h"
#include "trainer/backend/cuda/device/fatbin.h"
#include "trainer/train/generations.h"

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

// A folder as /dev is in a container with as many GPUs.
void MakeGpuFiles(const std::filesystem::path& folder, int gpus) {
  std::filesystem::create_directories(folder / "nvidia-caps");
  for (const char* other : {"nvidiactl", "nvidia-uvm", "nvidia", "null"}) {
    std::ofstream(folder / other) << "";
  }
  for (int i = 0; i < gpus; ++i) std::ofstream(folder / ("nvidia" + std::to_string(7 + i))) << "";
}

TEST(ComputeDeviceTest, AsManyGpusMustBeThereAsAPodsProcessesComputeOn) {
  const TempDirectory dev;
  MakeGpuFiles(dev.path(), 8);
  for (const auto& [gpus, expected] : {std::pair{8, 4}, {4, 4}, {2, 2}}) {
    EXPECT_EQ(DeviceOf(WithGpus(gpus, 0), 1, dev.path()).devices, expected)
        << gpus << " GPUs, 4 processes";
  }
  Identity evaluator = WithGpus(8, 0);
  evaluator.role = api::Role::kEvaluator;
  EXPECT_EQ(DeviceOf(evaluator, 1, dev.path()).devices, 1);
}

// Shares of a GPU's time and slices of a GPU, of which the pod has asked for two.
TEST(ComputeDeviceTest, GpusThatTheContainerWasNeverGivenNeedNotBeThere) {
  const TempDirectory dev;
  MakeGpuFiles(dev.path(), 1);
  EXPECT_EQ(DeviceOf(WithGpus(2, 0), 1, dev.path()).devices, 1);
  EXPECT_EQ(DeviceOf(WithGpus(2, 0), 1, dev.At("none")).devices, 0);
  MakeGpuFiles(dev.path(), 2);
  EXPECT_EQ(DeviceOf(WithGpus(2, 0), 1, dev.path()).devices, 2);
  ::setenv("NVIDIA_VISIBLE_DEVICES", "MIG-5d,MIG-5e", /*overwrite=*/1);
  EXPECT_EQ(DeviceOf(WithGpus(2, 0), 1, dev.path()).devices, 1) << "CUDA shows one slice";
  ::unsetenv("NVIDIA_VISIBLE_DEVICES");
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

// Opens the device alone, as a build with kernels does.
std::unique_ptr<Backend> OpenGpu(const BackendOptions& options) {
  const cuda::Device device(options.device, options.rounds_to_tf32, options.devices);
  return MakeBackend({});
}

// The last `gone` of three GPUs are not there any more.
absl::Status Open(int device, int devices, const char* gone) {
  ::setenv("CUDA_SIM_GONE", gone, /*overwrite=*/1);
  const auto opened =
      OpenDevice({.name = "cuda", .device = device, .devices = devices}, true, &OpenGpu);
  ::unsetenv("CUDA_SIM_GONE");
  return opened.status();
}

TEST(ComputeDeviceTest, AGpuThatIsGoneIsLeftToANewPod) {
  EXPECT_EQ(Open(2, 3, "0"), absl::OkStatus());
  for (const char* gone : {"1", "3"}) {
    const absl::Status status = Open(2, 3, gone);
    EXPECT_TRUE(IsDeviceGone(status)) << status;
    EXPECT_EQ(FailWith(status), api::kExitGpuGone);
  }
  EXPECT_EQ(Open(2, 3, "1").message(),
            "back end cuda: found 2 GPUs, expected the 3 of this pod; one has failed, or the "
            "container may not use it any more");
  // There is still a GPU 0. But which of the three has gone is unknown, and so who uses this one.
  EXPECT_TRUE(IsDeviceGone(Open(0, 3, "1")));
}

TEST(ComputeDeviceTest, AGpuThatTheConfigurationHidesIsBadConfiguration) {
  // CUDA_VISIBLE_DEVICES lists three.
  EXPECT_EQ(FailWith(Open(3, 8, "0")), api::kExitBadConfig);
  EXPECT_EQ(Open(2, 8, "0"), absl::OkStatus()) << "what it lists is there";
  EXPECT_TRUE(IsDeviceGone(Open(2, 8, "1"))) << "and now it is not";
  for (const char* none : {"-1", "NoDevFiles", "", "-1,0"}) {
    const std::string listed = std::getenv("CUDA_VISIBLE_DEVICES");
    ::setenv("CUDA_VISIBLE_DEVICES", none, /*overwrite=*/1);
    EXPECT_EQ(FailWith(Open(0, 1, "9")), api::kExitBadConfig) << none;
    ::setenv("CUDA_VISIBLE_DEVICES", listed.c_str(), /*overwrite=*/1);
  }
  // Nobody knows of a pod that was given it.
  EXPECT_EQ(FailWith(Open(2, 0, "1")), api::kExitBadConfig);
}

}  // namespace
}  // namespace lockstep::train
