#include "trainer/backend/cpu/winograd.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "tests/trainer/backend/expect_close.h"
#include "trainer/backend/cpu/device/memory_desc.h"
#include "trainer/check/run_op.h"

namespace lockstep::train::cpu {
namespace {

using Tag = dnnl::memory::format_tag;

TensorDesc Ordered(const Shape& shape, Tag order) {
  return TensorOf(shape, {shape.dims(), dnnl::memory::data_type::f32, order});
}

std::vector<float> InOrder(Backend& backend, const std::vector<float>& dense,
                           const TensorDesc& desc) {
  std::vector<float> values(desc.bytes() / sizeof(float));
  backend.FromDense(dense.data(), desc, values.data());
  return values;
}

std::vector<float> RunPass(Backend& backend, const Winograd& pass, const std::vector<float>& from,
                           const std::vector<float>& weight, const float* bias,
                           const TensorDesc& to) {
  std::vector<float> scratch(pass.ScratchBytes() / sizeof(float), NAN);
  std::vector<float> values(to.bytes() / sizeof(float), NAN);
  pass.Run(from.data(), weight.data(), bias, values.data(), scratch.data());
  std::vector<float> dense(static_cast<std::size_t>(to.shape.elements()));
  backend.ToDense(to, values.data(), dense.data());
  return dense;
}

// Both passes against `reference`, on images in `order`. False if there are no kernels for that
// order on this processor.
bool Compare(const Conv2dSpec& spec, Tag order, int threads) {
  const auto reference = MakeBackend({.name = "reference"});
  const auto op = reference->MakeOp(spec);
  const OpInputs inputs = RandomInputs(*op, 7);
  const Device device(threads);
  const TensorDesc x = Ordered(spec.x.shape, order), y = Ordered(op->output().shape, order);
  if (!Winograd::Supports(device, spec, ViewOf(x), ViewOf(y))) return false;

  const OpOutputs expected =
      RunOp(*reference, *op, inputs, {.training = true, .valid = spec.x.shape[0]});
  const auto cpu = MakeBackend({.name = "cpu", .threads = threads});
  const float* bias = spec.bias ? inputs.parameters[1].data() : nullptr;
  const Winograd forward = Winograd::Forward(device, spec, ViewOf(x), ViewOf(y));
  ExpectClose(RunPass(*cpu, forward, InOrder(*cpu, inputs.x, x), inputs.parameters[0], bias, y),
              expected.y, "y");
  // What remains of dy where y is cut off at 0 is the op's business.
  Conv2dSpec plain = spec;
  plain.relu = false;
  const auto linear = reference->MakeOp(plain);
  const OpOutputs of_linear =
      RunOp(*reference, *linear, inputs, {.training = true, .valid = spec.x.shape[0]});
  const Winograd backward = Winograd::BackwardData(device, spec, ViewOf(y), ViewOf(x));
  ExpectClose(
      RunPass(*cpu, backward, InOrder(*cpu, inputs.dy, y), inputs.parameters[0], nullptr, x),
      of_linear.dx, "dx");
  if (!WinogradGradient::Supports(device, spec, ViewOf(x), ViewOf(y))) return true;
  const WinogradGradient gradient(device, spec, ViewOf(x), ViewOf(y));
  std::vector<float> scratch(gradient.ScratchBytes() / sizeof(float), NAN);
  std::vector<float> weight(inputs.parameters[0].size(), NAN),
      of_bias(static_cast<std::size_t>(spec.filters), NAN);
  gradient.Run(InOrder(*cpu, inputs.x, x).data(), InOrder(*cpu, inputs.dy, y).data(), weight.data(),
               spec.bias ? of_bias.data() : nullptr, scratch.data());
  ExpectClose(weight, of_linear.gradients[0], "weight");
  std::vector<float> again(weight.size(), NAN);
  gradient.Run(InOrder(*cpu, inputs.x, x).data(), InOrder(*cpu, inputs.dy, y).data(), again.data(),
               nullptr, scratch.data());
  EXPECT_EQ(again, weight);
  if (spec.bias) ExpectClose(of_bias, of_linear.gradients[1], "bias");
  return true;
}

TEST(WinogradTest, MatchesReferenceInEveryOrderThatItSupports) {
  const std::vector<Conv2dSpec> specs = {
      {.x = {.shape = {3, 32, 14, 14}},
       .filters = 64,
       .kernel_h = 5,
       .kernel_w = 5,
       .padding = Padding::kSame,
       .relu = true},
      // Tiles that stick out, and more tiles than are transformed at a time.
      {.x = {.shape = {5, 16, 19, 23}},
       .filters = 48,
       .kernel_h = 5,
       .kernel_w = 5,
       .padding = Padding::kSame,
       .bias = false},
      {.x = {.shape = {2, 16, 9, 7}}, .filters = 16, .kernel_h = 5, .kernel_w = 5},
      {.x = {.shape = {1, 16, 6, 6}}, .filters = 32, .kernel_h = 5, .kernel_w = 5},
      {.x = {.shape = {3, 48, 13, 10}},
       .filters = 16,
       .kernel_h = 3,
       .kernel_w = 3,
       .padding = Padding::kSame,
       .relu = true},
      {.x = {.shape = {2, 64, 8, 9}}, .filters = 80, .kernel_h = 3, .kernel_w = 3},
      {.x = {.shape = {2, 16, 4, 5}}, .filters = 16, .kernel_h = 3, .kernel_w = 3},
      {.x = {.shape = {1, 256, 7, 7}},
       .filters = 32,
       .kernel_h = 3,
       .kernel_w = 3,
       .padding = Padding::kSame}};
  int compared = 0;
  for (const Conv2dSpec& spec : specs) {
    for (const Tag order : {Tag::nhwc, Tag::nChw8c, Tag::nChw16c}) {
      for (const int threads : {1, 2, 3}) {
        SCOPED_TRACE(spec.x.shape.ToString());
        compared += Compare(spec, order, threads) ? 1 : 0;
      }
    }
  }
  EXPECT_GE(compared, static_cast<int>(2 * 3 * specs.size())) << "two orders fill every register";
}

TEST(WinogradTest, WhatItCannotDoIsLeftToOneDnn) {
  const Device device(1);
  const auto supports = [&device](Conv2dSpec spec, std::int64_t channels, Tag order = Tag::nhwc) {
    const Shape x{2, channels, 8, 8}, y{2, spec.filters, 8, 8};
    return Winograd::Supports(device, spec, ViewOf(Ordered(x, order)), ViewOf(Ordered(y, order)));
  };
  const Conv2dSpec good{.filters = 16, .kernel_h = 3, .kernel_w = 3};
  EXPECT_TRUE(supports(good, 16));
  EXPECT_FALSE(supports(good, 16, Tag::nchw));
  EXPECT_FALSE(supports(good, 3));
  EXPECT_FALSE(supports(good, 20, Tag::nChw16c)) << "the last block is filled up";
  EXPECT_FALSE(supports({.filters = 18, .kernel_h = 3, .kernel_w = 3}, 16));
  EXPECT_FALSE(supports({.filters = 16, .kernel_h = 3, .kernel_w = 5}, 16));
  EXPECT_FALSE(supports({.filters = 16, .kernel_h = 7, .kernel_w = 7}, 16));
  EXPECT_FALSE(supports({.filters = 16, .kernel_h = 3, .kernel_w = 3, .stride_w = 2}, 16));
}

// Views only: no memory is as large as these images.
TEST(WinogradTest, ScratchIsBoundedHoweverLargeTheWeight) {
  const Device device(2);
  for (const std::int64_t channels : {512, 2048, 3584}) {
    const Conv2dSpec spec{.x = {.shape = {1, channels, 28, 28}},
                          .filters = channels,
                          .kernel_h = 5,
                          .kernel_w = 5,
                          .padding = Padding::kSame};
    const ImageView image = ViewOf(Ordered(spec.x.shape, Tag::nhwc));
    ASSERT_TRUE(Winograd::Supports(device, spec, image, image)) << channels;
    for (const Winograd& pass : {Winograd::Forward(device, spec, image, image),
                                 Winograd::BackwardData(device, spec, image, image)}) {
      EXPECT_LE(pass.WeightBytes(), Winograd::kMostWeightBytes) << channels;
      EXPECT_GT(pass.WeightBytes(), Winograd::kMostWeightBytes / 3) << channels << ": tiny blocks";
      EXPECT_LE(pass.ScratchBytes(), 2 * Winograd::kMostWeightBytes) << channels;
    }
  }
  const Conv2dSpec endless{.filters = 16384, .kernel_h = 3, .kernel_w = 3};
  const ImageView few = ViewOf(Ordered({1, 16, 8, 8}, Tag::nhwc)),
                  many = ViewOf(Ordered({1, 16384, 8, 8}, Tag::nhwc));
  EXPECT_FALSE(Winograd::Supports(device, endless, few, many));
  EXPECT_FALSE(Winograd::Supports(device, endless, many, few));
}

// A weight of three blocks on every instruction set, the last one smaller.
TEST(WinogradTest, AWeightOfSeveralBlocksMatchesReference) {
  const Conv2dSpec spec{.x = {.shape = {1, 448, 6, 5}},
                        .filters = 736,
                        .kernel_h = 3,
                        .kernel_w = 3,
                        .padding = Padding::kSame,
                        .relu = true};
  EXPECT_TRUE(Compare(spec, Tag::nhwc, /*threads=*/2));
}

TEST(WinogradTest, AnImageHasTheSameBitsInEveryBatch) {
  const Conv2dSpec spec{.x = {.shape = {7, 16, 12, 12}},
                        .filters = 32,
                        .kernel_h = 5,
                        .kernel_w = 5,
                        .padding = Padding::kSame};
  const Shape y{7, 32, 12, 12}, one_x{1, 16, 12, 12}, one_y{1, 32, 12, 12};
  const std::vector<float> weight = RandomValues(32 * 16 * 25, 1), x = RandomValues(7 * 2304, 2);
  const auto cpu = MakeBackend({.name = "cpu", .threads = 1});
  const auto run = [&](int threads, const Shape& from, const Shape& to, std::vector<float> values) {
    const Device device(threads);
    const TensorDesc ordered = Ordered(from, Tag::nhwc), result = Ordered(to, Tag::nhwc);
    const Winograd pass = Winograd::Forward(device, spec, ViewOf(ordered), ViewOf(result));
    return RunPass(*cpu, pass, InOrder(*cpu, values, ordered), weight, nullptr, result);
  };
  const std::vector<float> all = run(3, spec.x.shape, y, x);
  EXPECT_EQ(all, run(1, spec.x.shape, y, x));
  const std::vector<float> last = run(2, one_x, one_y, {x.end() - 2304, x.end()});
  EXPECT_EQ(std::vector<float>(all.end() - 4608, all.end()), last);
}

}  // namespace
}  // namespace lockstep::train::cpu
