// What the ops make of the answers of cuDNN and cuBLASLt, on the simulated device.
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "base/check.h"
#include "tests/support/cuda_sim/use_simulator.h"
#include "trainer/backend/backend.h"
#include "trainer/check/run_op.h"

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

class CudaLibrariesTest : public ::testing::Test {
 protected:
  std::unique_ptr<Backend> backend_ = MakeBackend({.name = "cuda"});
};

std::vector<std::string> ChoicesOf(Backend& backend, const Conv2dSpec& spec) {
  std::vector<std::string> choices;
  for (const OpChoice& choice : backend.MakeOp(spec)->Choices()) {
    choices.push_back(choice.pass + ": " + choice.implementation + ", " + choice.layout);
  }
  return choices;
}

Conv2dSpec ConvOf(DType type, std::int64_t kernel, bool input_gradient = true) {
  return {.x = {.shape = {2, 3, 8, 8}, .dtype = type},
          .filters = 8,
          .kernel_h = kernel,
          .kernel_w = kernel,
          .input_gradient = input_gradient};
}

// The simulator's mode A ranks first an engine that gives other bits each time, one that makes no
// plan, one that needs a terabyte to work in, and one for tensor cores; there is no mode B.
TEST_F(CudaLibrariesTest, TheEngineIsOneThatKeepsPrecisionAndBitsAndMakesAPlan) {
  EXPECT_EQ(ChoicesOf(*backend_, ConvOf(DType::kFloat32, 3)),
            (std::vector<std::string>{"forward: cudnn:engine 0, nchw > nhwc",
                                      "backward data: cudnn:engine 0, nchw > nhwc",
                                      "backward weights: cudnn:engine 0, nchw > nhwc"}));
}

TEST_F(CudaLibrariesTest, WhereEveryEngineNeedsMuchMemoryItIsTheOneThatNeedsLeast) {
  ::setenv("CUDA_SIM_WORKSPACE", "1000000000", /*overwrite=*/1);
  const auto op = backend_->MakeOp(ConvOf(DType::kFloat32, 3));
  ::unsetenv("CUDA_SIM_WORKSPACE");
  EXPECT_EQ(op->Choices()[0].implementation, "cudnn:engine 0");
  EXPECT_GT(op->ScratchBytes(), 1'000'000'000u);
  EXPECT_LT(op->ScratchBytes(), 1'001'000'000u);
}

// With 24 filters, what the scratch memory has before it ends between two multiples of 256.
TEST_F(CudaLibrariesTest, AnEngineGetsItsMemoryAlignedWhateverIsBeforeIt) {
  for (const std::int64_t filters : {8, 24}) {
    Conv2dSpec spec = ConvOf(DType::kFloat32, 3);
    spec.filters = filters;
    const auto op = backend_->MakeOp(spec);
    const std::vector<float> x(2 * 3 * 8 * 8, 1), w(static_cast<std::size_t>(filters) * 27, 1);
    const std::vector<float> dy(static_cast<std::size_t>(filters) * 2 * 6 * 6, 1);
    const OpOutputs found = RunOp(
        *backend_, *op, {.x = x, .dy = dy, .parameters = {w, std::vector<float>(w.size() / 27)}},
        {.training = true, .valid = 2});
    EXPECT_EQ(found.y, std::vector<float>(dy.size(), 27));
  }
}

TEST_F(CudaLibrariesTest, TensorCoresAreForTypesThatTheyTakeAsTheyAreAndForTf32) {
  const std::vector<std::string> for_tensor_cores = {
      "forward: cudnn:engine 1, nchw > nhwc", "backward data: cudnn:engine 1, nchw > nhwc",
      "backward weights: cudnn:engine 1, nchw > nhwc"};
  EXPECT_EQ(ChoicesOf(*backend_, ConvOf(DType::kBFloat16, 3)), for_tensor_cores);
  EXPECT_EQ(ChoicesOf(*backend_, ConvOf(DType::kFloat16, 3)), for_tensor_cores);
  const auto rounding = MakeBackend({.name = "cuda", .rounds_to_tf32 = true});
  EXPECT_EQ(ChoicesOf(*rounding, ConvOf(DType::kFloat32, 3)), for_tensor_cores);
}

// 1 + 2^-12 is 1 in TF32.
TEST_F(CudaLibrariesTest, ProductsRoundTheirFactorsToTf32OnlyIfTheyMay) {
  for (const bool rounds : {false, true}) {
    const auto backend = MakeBackend({.name = "cuda", .rounds_to_tf32 = rounds});
    const auto op = backend->MakeOp(DenseSpec{.x = {.shape = {1, 1}}, .units = 1, .bias = false});
    const float weight = 1 + 0x1p-12f;
    const OpOutputs found = RunOp(*backend, *op, {.x = {1}, .dy = {1}, .parameters = {{weight}}},
                                  {.training = true, .valid = 1});
    EXPECT_EQ(found.y, std::vector{rounds ? 1 : weight});
    EXPECT_EQ(found.dx, std::vector{rounds ? 1 : weight});
  }
}

TEST_F(CudaLibrariesTest, APointwiseConvolutionIsAProduct) {
  EXPECT_EQ(ChoicesOf(*backend_, ConvOf(DType::kFloat32, 1)),
            (std::vector<std::string>{"forward: cublaslt, nchw > nhwc",
                                      "backward data: cublaslt, nchw > nhwc",
                                      "backward weights: cublaslt, nchw > nhwc"}));
}

TEST_F(CudaLibrariesTest, AFirstLayerOfFewChannelsIsAProductOfPatches) {
  EXPECT_EQ(
      ChoicesOf(*backend_, ConvOf(DType::kBFloat16, 3, /*input_gradient=*/false)),
      (std::vector<std::string>{"forward: lockstep:patches + cublaslt, nchw > nhwc",
                                "backward weights: lockstep:patches + cublaslt, nchw > nhwc"}));
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
