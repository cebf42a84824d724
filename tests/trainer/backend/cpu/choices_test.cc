// What ops choose on this processor; CTest repeats it as processors without AVX-512 and without
// AVX.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tests/trainer/backend/expect_close.h"
#include "trainer/backend/cpu/device/cost.h"
#include "trainer/backend/cpu/device/device.h"
#include "trainer/backend/cpu/device/memory_desc.h"
#include "trainer/backend/cpu/matrix_product.h"
#include "trainer/check/op_cases.h"
#include "trainer/check/run_op.h"

namespace lockstep::train {
namespace {

void ExpectFastChoices(const Op& op, const std::string& what) {
  ASSERT_FALSE(op.Choices().empty()) << what;
  for (const OpChoice& choice : op.Choices()) {
    EXPECT_FALSE(cpu::IsReference(choice.implementation))
        << what << ", " << choice.pass << ": " << choice.implementation << " on " << choice.layout;
  }
}

// The products of a wide matrix, a tall one, and one of one row.
TEST(MuonChoicesTest, NoProductIsAPlainLoop) {
  const cpu::Device device(2);
  for (const MatrixRange& matrix :
       {MatrixRange{.rows = 10, .columns = 1152}, MatrixRange{.rows = 512, .columns = 64},
        MatrixRange{.rows = 1, .columns = 30}}) {
    for (const MuonProduct of : kMuonProducts) {
      const cpu::MatrixProduct product(device, ShapeOf(matrix, of));
      EXPECT_FALSE(cpu::IsReference(product.implementation()))
          << matrix.rows << " x " << matrix.columns << ": " << product.implementation();
    }
  }
}

class ChoicesTest : public ::testing::TestWithParam<OpCase> {
 protected:
  std::unique_ptr<Backend> backend_ = MakeBackend({.name = "cpu", .threads = 2});
};

TEST_P(ChoicesTest, NoOpIsAPlainLoop) {
  const OpCase& op_case = GetParam();
  ExpectFastChoices(*op_case.Make(*backend_, {.shape = op_case.x}), op_case.name);
}

// After a convolution the input comes in an order of the back end's own.
TEST_P(ChoicesTest, NoOpIsAPlainLoopAfterAConvolution) {
  const OpCase& op_case = GetParam();
  if (op_case.x.rank() != 4) return;  // matrices have one order
  const Shape before{op_case.x[0], 24, op_case.x[2], op_case.x[3]};
  const auto conv = backend_->MakeOp(Conv2dSpec{.x = {.shape = before},
                                                .filters = op_case.x[1],
                                                .kernel_h = 3,
                                                .kernel_w = 3,
                                                .padding = Padding::kSame});
  ExpectFastChoices(*conv, "the convolution before " + op_case.name);
  ExpectFastChoices(*op_case.Make(*backend_, conv->output()), op_case.name);
}

TEST_P(ChoicesTest, WinogradsCasesAreWinograds) {
  const OpCase& op_case = GetParam();
  if (op_case.name.find("Winograd") == std::string::npos) return;
  const auto op = op_case.Make(*backend_, {.shape = op_case.x});
  ASSERT_EQ(op->Choices().size(), 3u);
  for (const OpChoice& choice : op->Choices()) {
    EXPECT_THAT(choice.implementation, ::testing::StartsWith("lockstep:winograd:")) << choice.pass;
  }
}

// No clock decides: a run that is resumed goes on with the same implementations.
TEST_P(ChoicesTest, EqualOpsAreMadeAlike) {
  const OpCase& op_case = GetParam();
  const auto describe = [&] {
    std::string text;
    for (const OpChoice& choice : op_case.Make(*backend_, {.shape = op_case.x})->Choices()) {
      text += choice.pass + " " + choice.implementation + " " + choice.layout + "; ";
    }
    return text;
  };
  EXPECT_EQ(describe(), describe());
}

INSTANTIATE_TEST_SUITE_P(Ops, ChoicesTest, ::testing::ValuesIn(SmallCases()),
                         [](const auto& op_case) { return op_case.param.name; });

// oneDNN's matrix products over patches refuse these, each pass in other orders: no single order of
// x and y has all three.
TEST(PassesTest, EachTakesTheOrdersInWhichItIsFast) {
  const auto backend = MakeBackend({.name = "cpu", .threads = 2});
  struct Case {
    Shape x;
    std::int64_t filters, kernel_h, kernel_w;
  };
  for (const Case& c : std::vector<Case>{
           {{1, 20, 28, 4}, 1, 11, 2}, {{1, 16, 33, 7}, 8, 7, 7}, {{2, 8, 28, 28}, 2, 7, 7}}) {
    const auto conv = backend->MakeOp(Conv2dSpec{.x = {.shape = c.x},
                                                 .filters = c.filters,
                                                 .kernel_h = c.kernel_h,
                                                 .kernel_w = c.kernel_w,
                                                 .padding = Padding::kSame});
    ExpectFastChoices(*conv, c.x.ToString());
    const auto reference = MakeBackend({.name = "reference"});
    const auto expected = reference->MakeOp(Conv2dSpec{.x = {.shape = c.x},
                                                       .filters = c.filters,
                                                       .kernel_h = c.kernel_h,
                                                       .kernel_w = c.kernel_w,
                                                       .padding = Padding::kSame});
    const OpInputs inputs = RandomInputs(*expected, 1);
    const StepSettings step{.training = true, .valid = c.x[0]};
    const OpOutputs found = RunOp(*backend, *conv, inputs, step);
    const OpOutputs oracle = RunOp(*reference, *expected, inputs, step);
    ExpectClose(found.y, oracle.y, "y");
    ExpectClose(found.dx, oracle.dx, "dx");
    ExpectClose(found.gradients[0], oracle.gradients[0], "weight gradient");
  }
}

// Takes "given > x > y", or "x > y", or "x".
bool IsOfBlocks(const std::string& layouts) {
  const std::size_t y = layouts.rfind(" > ");
  const std::size_t given = y == layouts.npos ? layouts.npos : layouts.rfind(" > ", y - 1);
  return layouts.substr(given == layouts.npos ? 0 : given + 3).starts_with("nChw");
}

// Kernels of one pixel write beyond their memory then: not always where it shows.
void ExpectNoKernelOfOnePixel(const Op& conv, const std::string& what) {
  for (const OpChoice& choice : conv.Choices()) {
    if (choice.pass != "backward weights" || IsOfBlocks(choice.layout)) continue;
    EXPECT_EQ(choice.implementation.find("1x1"), std::string::npos)
        << what << ": " << choice.implementation << " on " << choice.layout;
  }
}

TEST(PassesTest, NoKernelOfOnePixelWithAStrideHasTheWeightGradientOfFewChannels) {
  const auto backend = MakeBackend({.name = "cpu", .threads = 3});
  const auto isa = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
  const auto avx512 = static_cast<unsigned>(dnnl::cpu_isa::avx512_core);
  const std::int64_t block = (isa & avx512) == avx512 ? 16 : 8;
  for (const DType type : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    for (const std::int64_t channels : {1, 4, 7, 8, 12, 15}) {
      if (channels >= block) continue;
      for (const std::int64_t filters : {8, 36, 64}) {
        const auto conv =
            backend->MakeOp(Conv2dSpec{.x = NativeDesc(*backend, {16, channels, 32, 32}, type),
                                       .filters = filters,
                                       .kernel_h = 1,
                                       .kernel_w = 1,
                                       .stride_h = 2,
                                       .stride_w = 2});
        const std::string what = std::to_string(channels) + " to " + std::to_string(filters);
        ExpectFastChoices(*conv, what);
        ExpectNoKernelOfOnePixel(*conv, what);
      }
    }
  }
}

// Without a gradient for x nothing but the weight's gradient speaks against the forward pass'
// choice.
TEST(PassesTest, TheWeightGradientCounts) {
  const auto backend = MakeBackend({.name = "cpu", .threads = 2});
  const auto conv = backend->MakeOp(Conv2dSpec{.x = {.shape = {8, 16, 20, 20}},
                                               .filters = 32,
                                               .kernel_h = 3,
                                               .kernel_w = 3,
                                               .input_gradient = false});
  ExpectFastChoices(*conv, "a convolution without a gradient for x");
}

// Where most of the time of core-cnn goes.
TEST(PassesTest, WideConvolutionsAreWinogradsOnEveryProcessor) {
  const auto backend = MakeBackend({.name = "cpu", .threads = 2});
  for (const std::int64_t kernel : {3, 5}) {
    const auto conv = backend->MakeOp(Conv2dSpec{.x = {.shape = {128, 32, 14, 14}},
                                                 .filters = 64,
                                                 .kernel_h = kernel,
                                                 .kernel_w = kernel,
                                                 .padding = Padding::kSame});
    ASSERT_EQ(conv->Choices().size(), 3u);
    for (const OpChoice& choice : conv->Choices()) {
      EXPECT_THAT(choice.implementation, ::testing::StartsWith("lockstep:winograd:"))
          << kernel << ", " << choice.pass;
    }
  }
}

TEST(FlatteningTest, WhateverIsLessToCopyIsCopied) {
  const auto backend = MakeBackend({.name = "cpu", .threads = 2});
  const auto layout = [&](std::int64_t rows, std::int64_t units) {
    const Shape shape{rows, 32, 6, 6};
    const TensorDesc x = cpu::TensorOf(
        shape, {shape.dims(), dnnl::memory::data_type::f32, dnnl::memory::format_tag::nhwc});
    return backend->MakeOp(DenseSpec{.x = x, .units = units})->Choices()[0].layout;
  };
  EXPECT_THAT(layout(2, 64), ::testing::EndsWith("x copied"));
  EXPECT_THAT(layout(64, 2), ::testing::EndsWith("weight copied"));
}

// The convolutions of residual networks, in small batches.
TEST(ResidualNetworkTest, NoConvolutionIsAPlainLoop) {
  const auto backend = MakeBackend({.name = "cpu", .threads = 2});
  struct Case {
    Shape x;
    std::int64_t filters, kernel, stride;
  };
  for (const Case& c : std::vector<Case>{{{2, 3, 224, 224}, 64, 7, 2},
                                         {{2, 64, 56, 56}, 64, 1, 1},
                                         {{2, 64, 56, 56}, 64, 3, 1},
                                         {{2, 256, 56, 56}, 512, 1, 2},
                                         {{2, 128, 56, 56}, 128, 3, 2},
                                         {{2, 512, 7, 7}, 2048, 1, 1}}) {
    const auto conv = backend->MakeOp(Conv2dSpec{.x = {.shape = c.x},
                                                 .filters = c.filters,
                                                 .kernel_h = c.kernel,
                                                 .kernel_w = c.kernel,
                                                 .stride_h = c.stride,
                                                 .stride_w = c.stride,
                                                 .padding = Padding::kSame});
    ExpectFastChoices(*conv, c.x.ToString());
  }
}

}  // namespace
}  // namespace lockstep::train
