#include "trainer/backend/cpu/few_channel_gradient.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "tests/trainer/backend/expect_close.h"
#include "trainer/backend/cpu/device/memory_desc.h"
#include "trainer/check/run_op.h"

namespace lockstep::train::cpu {
namespace {

using dnnl::memory;

// The gradients that `reference` gives and those of FewChannelGradient on y in `order`. False if
// there is no kernel for that order on this processor.
bool CompareGradients(const Conv2dSpec& spec, memory::format_tag order, int threads) {
  const auto reference = MakeBackend({.name = "reference"});
  const auto op = reference->MakeOp(spec);
  const OpInputs inputs = RandomInputs(*op, 7);
  const Device device(threads);
  const Shape y = op->output().shape;
  const TensorDesc y_desc = TensorOf(y, {y.dims(), memory::data_type::f32, order});
  if (!FewChannelGradient::Supports(device, ViewOf(spec.x), ViewOf(y_desc))) return false;

  const auto cpu = MakeBackend({.name = "cpu", .threads = threads});
  std::vector<float> dy(y_desc.bytes() / sizeof(float));
  cpu->FromDense(inputs.dy.data(), y_desc, dy.data());
  const FewChannelGradient gradient(device, spec, ViewOf(y_desc));
  std::vector<float> scratch(gradient.ScratchBytes() / sizeof(float), NAN);
  std::vector<float> weight(inputs.parameters[0].size(), NAN),
      bias(inputs.parameters[1].size(), NAN);
  gradient.Run(inputs.x.data(), dy.data(), weight.data(), bias.data(), scratch.data());

  const OpOutputs expected =
      RunOp(*reference, *op, inputs, {.training = true, .valid = spec.x.shape[0]});
  ExpectClose(weight, expected.gradients[0], "weight");
  ExpectClose(bias, expected.gradients[1], "bias");
  return true;
}

TEST(FewChannelGradientTest, MatchesReferenceInEveryOrderThatItSupports) {
  const std::vector<Conv2dSpec> specs = {
      {.x = {.shape = {5, 1, 9, 11}}, .filters = 32, .kernel_h = 5, .kernel_w = 5},
      {.x = {.shape = {3, 3, 12, 10}},
       .filters = 16,
       .kernel_h = 7,
       .kernel_w = 7,
       .stride_h = 2,
       .stride_w = 2,
       .padding = Padding::kSame},
      {.x = {.shape = {2, 4, 6, 24}},
       .filters = 48,
       .kernel_h = 1,
       .kernel_w = 17,
       .stride_w = 3,
       .padding = Padding::kSame},
      {.x = {.shape = {2, 2, 70, 70}}, .filters = 64, .kernel_h = 2, .kernel_w = 3},
      {.x = {.shape = {1, 1, 4, 4}}, .filters = 16, .kernel_h = 4, .kernel_w = 4},
  };
  int compared = 0;
  for (const Conv2dSpec& spec : specs) {
    for (const auto order :
         {memory::format_tag::nhwc, memory::format_tag::nChw8c, memory::format_tag::nChw16c}) {
      for (const int threads : {1, 2, 3}) {
        SCOPED_TRACE(spec.x.shape.ToString());
        compared += CompareGradients(spec, order, threads) ? 1 : 0;
      }
    }
  }
  EXPECT_GE(compared, static_cast<int>(3 * specs.size())) << "channels last is always supported";
}

TEST(FewChannelGradientTest, FiltersThatFillNoBlockAreLeftOut) {
  // 20 filters in blocks of 8 or 16: the last block's padding has no gradient to write.
  Conv2dSpec spec{.x = {.shape = {3, 1, 8, 8}}, .filters = 20, .kernel_h = 3, .kernel_w = 3};
  for (const auto order : {memory::format_tag::nChw8c, memory::format_tag::nChw16c}) {
    CompareGradients(spec, order, 2);
  }
}

TEST(FewChannelGradientTest, ManyChannelsAreLeftToOneDnn) {
  const Device device(1);
  const ImageView y = ViewOf(
      TensorOf({2, 16, 4, 4}, {{2, 16, 4, 4}, memory::data_type::f32, memory::format_tag::nhwc}));
  EXPECT_TRUE(FewChannelGradient::Supports(device, ViewOf({.shape = {2, 4, 6, 6}}), y));
  EXPECT_FALSE(FewChannelGradient::Supports(device, ViewOf({.shape = {2, 5, 6, 6}}), y));
  EXPECT_FALSE(FewChannelGradient::Supports(device, ViewOf({.shape = {2, 4, 6, 6}}),
                                            ViewOf({.shape = {2, 16, 4, 4}})));
}

}  // namespace
}  // namespace lockstep::train::cpu
