// The graphs of the convolutions, by NVIDIA's real cuDNN, which plans for a GPU that is not there
// if it is told the GPU's properties.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "trainer/backend/cuda/convolution.h"
#include "trainer/backend/cuda/device/dnn_graph.h"

namespace lockstep::train::cuda {
namespace {

constexpr std::string_view kH100 =
    R"({"deviceVer": 900, "driverVer": 13000, "cudaDeviceId": 0,
        "maxGridSize": [2147483647, 65535, 65535], "maxBlockSize": [1024, 1024, 64],
        "regsPerBlock": 65536, "multiProcessorCount": 132, "smCountOrigin": 0, "warpSize": 32,
        "maxSharedMemoryPerBlock": 49152, "maxSharedMemoryPerBlockOptin": 232448,
        "oversizedSharedMemoryPerBlock": 0, "reservedSharedMemoryPerBlock": 1024,
        "maxRegistersPerSM": 65536, "maxCtasPerSM": 32, "maxThreadsPerBlock": 1024,
        "maxThreadsPerSM": 2048, "pciDeviceId": 0, "isTccDriver": 0, "supportCoopLaunch": 1,
        "smClockRateKHz": 1980000, "memClockRateKHz": 2619000, "l2CacheSize": 52428800,
        "totalGlobalMem": 85000000000, "deviceName": "NVIDIA H100 80GB HBM3"})";

// What cuDNN is told instead of a handle.
constexpr auto kDeviceProperties = static_cast<DnnDescriptorType>(38);
constexpr auto kPropertiesAsJson = static_cast<DnnAttribute>(2702);
constexpr auto kPropertiesOfHeuristic = static_cast<DnnAttribute>(204);
constexpr auto kPropertiesOfPlan = static_cast<DnnAttribute>(407);
constexpr auto kChar = static_cast<DnnType>(24);

class CudnnPlansTest : public ::testing::Test {
 protected:
  CudnnPlansTest() {
    ::setenv("LOCKSTEP_CUDA_PATH", LOCKSTEP_CUDA_LIBRARIES, /*overwrite=*/1);
    library_ = std::make_unique<DnnLibrary>();
    properties_ = std::make_unique<DnnDescriptor>(*library_, kDeviceProperties);
    properties_->Set(kPropertiesAsJson, kChar, static_cast<std::int64_t>(kH100.size()),
                     kH100.data());
    properties_->Finalize();
  }

  // Whether a heuristic ranks an engine that serves.
  bool HasPlan(ConvolutionPass pass, const ConvolutionShape& shape, Factors factors) {
    const std::vector<DnnDescriptor> parts = ConvolutionParts(*library_, pass, shape);
    DnnDescriptor graph(*library_, DnnDescriptorType::kOperationGraph);
    graph.Set(DnnAttribute::kGraphOperations, parts.back());
    graph.Finalize();
    for (const int heuristic : {kDnnHeuristicA, kDnnHeuristicFallback}) {
      if (HasPlan(graph, heuristic, factors)) return true;
    }
    return false;
  }

 private:
  bool HasPlan(const DnnDescriptor& graph, int heuristic, Factors factors) {
    DnnDescriptor ranking(*library_, DnnDescriptorType::kEngineHeuristic);
    ranking.Set(DnnAttribute::kEngineHeuristicGraph, graph);
    ranking.Set(DnnAttribute::kEngineHeuristicMode, DnnType::kHeuristicMode, heuristic);
    ranking.Set(kPropertiesOfHeuristic, *properties_);
    ranking.Finalize();
    const std::int64_t count =
        ranking.Get(DnnAttribute::kEngineHeuristicResults, DnnType::kDescriptor, 0, nullptr);
    std::vector<DnnDescriptor> configs;
    std::vector<DnnDescriptorHandle> handles;
    for (std::int64_t i = 0; i < count; ++i) {
      handles.push_back(configs.emplace_back(*library_, DnnDescriptorType::kEngineConfig).handle());
    }
    ranking.Get(DnnAttribute::kEngineHeuristicResults, DnnType::kDescriptor, count, handles.data());
    for (const DnnDescriptor& config : configs) {
      if (Serves(config, factors)) return true;
    }
    return false;
  }

  bool Serves(const DnnDescriptor& config, Factors factors) {
    const DnnDescriptor engine(*library_, DnnDescriptorType::kEngine);
    DnnDescriptorHandle handle = engine.handle();
    config.Get(DnnAttribute::kEngineConfigEngine, DnnType::kDescriptor, 1, &handle);
    if (!KeepsPrecisionAndBits(engine, factors)) return false;
    DnnDescriptor plan(*library_, DnnDescriptorType::kExecutionPlan);
    plan.Set(DnnAttribute::kPlanEngineConfig, config);
    plan.Set(kPropertiesOfPlan, *properties_);
    std::string refusal;
    return plan.TryFinalize(refusal);
  }

  std::unique_ptr<DnnLibrary> library_;
  std::unique_ptr<DnnDescriptor> properties_;
};

TEST_F(CudnnPlansTest, EveryPassHasAnEngineThatKeepsPrecisionAndBits) {
  const Padding same = Padding::kSame, valid = Padding::kValid;
  const std::vector<ConvolutionShape> shapes = {
      // The first layer of the model core-cnn, and one of CIFAR-10's.
      {128, 1, 32, PlaceWindow(28, 5, 1, same), PlaceWindow(28, 5, 1, same)},
      {128, 3, 16, PlaceWindow(32, 3, 1, same), PlaceWindow(32, 3, 1, same)},
      // ResNet-50 has these: the first layer, with zeros before and after; 1x1; unequal strides.
      {32, 3, 64, PlaceWindow(224, 7, 2, valid, 3, 3), PlaceWindow(224, 7, 2, valid, 3, 3)},
      {32, 64, 256, PlaceWindow(56, 1, 1, valid), PlaceWindow(56, 1, 1, valid)},
      {32, 64, 128, PlaceWindow(56, 3, 2, same), PlaceWindow(56, 3, 2, same)},
      // Odd sizes, one pixel, strides over the kernel.
      {3, 5, 7, PlaceWindow(9, 3, 1, valid), PlaceWindow(8, 2, 1, valid)},
      {5, 2, 3, PlaceWindow(3, 3, 1, valid), PlaceWindow(3, 3, 1, valid)},
      {1, 2, 3, PlaceWindow(1, 1, 2, valid), PlaceWindow(3, 1, 2, valid)},
  };
  for (const ConvolutionShape& shape : shapes) {
    for (const ConvolutionPass pass : {ConvolutionPass::kForward, ConvolutionPass::kBackwardData,
                                       ConvolutionPass::kBackwardWeights}) {
      EXPECT_TRUE(HasPlan(pass, shape, Factors::kKept))
          << "pass " << static_cast<int>(pass) << " of a " << shape.ToString();
    }
  }
}

// With channels as Conv2d pads them.
TEST_F(CudnnPlansTest, EveryPassHasAnEngineForTensorCores) {
  const Padding same = Padding::kSame, valid = Padding::kValid;
  for (const DType type : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    const std::vector<ConvolutionShape> shapes = {
        {32, 8, 64, PlaceWindow(224, 7, 2, valid, 3, 3), PlaceWindow(224, 7, 2, valid, 3, 3), type},
        {32, 64, 64, PlaceWindow(56, 3, 1, same), PlaceWindow(56, 3, 1, same), type},
        {32, 256, 512, PlaceWindow(56, 1, 2, valid), PlaceWindow(56, 1, 2, valid), type},
        {3, 8, 7, PlaceWindow(9, 3, 1, valid), PlaceWindow(8, 2, 1, valid), type},
        {1, 8, 3, PlaceWindow(1, 1, 2, valid), PlaceWindow(3, 1, 2, valid), type},
    };
    for (const ConvolutionShape& shape : shapes) {
      for (const ConvolutionPass pass : {ConvolutionPass::kForward, ConvolutionPass::kBackwardData,
                                         ConvolutionPass::kBackwardWeights}) {
        EXPECT_TRUE(HasPlan(pass, shape, Factors::kForTensorCores))
            << "pass " << static_cast<int>(pass) << " of a " << shape.ToString();
      }
    }
  }
}

}  // namespace
}  // namespace lockstep::train::cuda
