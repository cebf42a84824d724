// What the ops make of the answers of cuDNN and cuBLASLt, on the simulated device.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "base/check.h"
#include "tests/support/cuda_sim/use_simulator.h"
#include "trainer/backend/backend.h"

namespace lockstep::train {
namespace {

std::string Refusal(const std::function<void()>& make) {
  try {
    make();
  } catch (const DeviceError& error) {
    return error.what();
  }
  return "nothing was refused";
}

class CudaLibrariesTest : public testing::Test {
 protected:
  std::unique_ptr<Backend> backend_ = MakeBackend({.name = "cuda"});
};

// The simulator's mode A ranks first an engine that rounds to TF32, one that gives other bits each
// time, and one that makes no plan; there is no mode B.
TEST_F(CudaLibrariesTest, TheEngineIsOneThatKeepsPrecisionAndBitsAndMakesAPlan) {
  const auto conv = backend_->MakeOp(
      Conv2dSpec{.x = {.shape = {2, 3, 8, 8}}, .filters = 4, .kernel_h = 3, .kernel_w = 3});
  std::vector<std::string> choices;
  for (const OpChoice& choice : conv->Choices()) {
    choices.push_back(choice.pass + ": " + choice.implementation + ", " + choice.layout);
  }
  EXPECT_EQ(choices, (std::vector<std::string>{"forward: cudnn:engine 0, nchw > nhwc",
                                               "backward data: cudnn:engine 0, nchw > nhwc",
                                               "backward weights: cudnn:engine 0, nchw > nhwc"}));
}

TEST_F(CudaLibrariesTest, AConvolutionThatCudnnHasNoEngineForIsRefused) {
  EXPECT_EQ(Refusal([&] {
              backend_->MakeOp(Conv2dSpec{.x = {.shape = {1, 1, 65536, 65536}},
                                          .filters = 1,
                                          .kernel_h = 3,
                                          .kernel_w = 5,
                                          .padding = Padding::kSame});
            }),
            "back end cuda: cuDNN has no engine for the forward pass of a convolution of "
            "1,1,65536,65536 by 1 filters of 3x5, strides 1x1, zeros 1+1 and 2+2 in float32 on "
            "simulated; its last refusal: there is no mode B");
}

TEST_F(CudaLibrariesTest, AProductThatCublasLtHasNoAlgorithmForIsRefused) {
  EXPECT_EQ(Refusal([&] {
              backend_->MakeOp(DenseSpec{.x = {.shape = {3, std::int64_t{1} << 32}}, .units = 2});
            }),
            "back end cuda: cuBLASLt has no algorithm for 3x4294967296 times 4294967296x2 "
            "(transposed) in float32 on simulated");
}

TEST_F(CudaLibrariesTest, ADenseLayerWithoutUnitsIsInvalid) {
  EXPECT_THROW(backend_->MakeOp(DenseSpec{.x = {.shape = {3, 4}}, .units = 0}), CheckFailure);
}

}  // namespace
}  // namespace lockstep::train
