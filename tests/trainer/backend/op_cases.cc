#include "tests/trainer/backend/op_cases.h"

#include <utility>

namespace lockstep::train {
namespace {

OpCase ConvCase(std::string name, Shape x, Conv2dSpec spec) {
  return {std::move(name), std::move(x), [spec](Backend& backend, const TensorDesc& desc) mutable {
            spec.x = desc;
            return backend.MakeConv2d(spec);
          }};
}
OpCase DenseCase(std::string name, Shape x, DenseSpec spec) {
  return {std::move(name), std::move(x), [spec](Backend& backend, const TensorDesc& desc) mutable {
            spec.x = desc;
            return backend.MakeDense(spec);
          }};
}
OpCase PoolCase(std::string name, Shape x, Pool2dSpec spec) {
  return {std::move(name), std::move(x), [spec](Backend& backend, const TensorDesc& desc) mutable {
            spec.x = desc;
            return backend.MakePool2d(spec);
          }};
}
OpCase BatchNormCase(std::string name, Shape x, std::int64_t valid) {
  return {std::move(name),
          std::move(x),
          [](Backend& backend, const TensorDesc& desc) {
            return backend.MakeBatchNorm({.x = desc, .momentum = 0.9f});
          },
          {.training = true, .valid = valid}};
}

}  // namespace

std::vector<OpCase> ConvCases() {
  const Activation relu = Activation::kRelu;
  return {
      ConvCase("ConvSame5x5OneChannel", {4, 1, 14, 14},
               {.filters = 32, .kernel_h = 5, .kernel_w = 5, .padding = Padding::kSame}),
      ConvCase("ConvSame5x5Relu", {3, 32, 7, 7},
               {.filters = 64,
                .kernel_h = 5,
                .kernel_w = 5,
                .padding = Padding::kSame,
                .activation = relu}),
      // Wide and large enough for Winograd's method on the CPU.
      ConvCase("ConvWinograd3x3Relu", {16, 32, 16, 16},
               {.filters = 32,
                .kernel_h = 3,
                .kernel_w = 3,
                .padding = Padding::kSame,
                .activation = relu}),
      ConvCase("ConvWinograd3x3WithoutBias", {32, 32, 22, 22},
               {.filters = 32, .kernel_h = 3, .kernel_w = 3, .bias = false}),
      ConvCase("ConvWinograd5x5", {8, 32, 20, 20},
               {.filters = 64, .kernel_h = 5, .kernel_w = 5, .padding = Padding::kSame}),
      ConvCase("ConvValid3x3", {2, 3, 9, 8}, {.filters = 5, .kernel_h = 3, .kernel_w = 3}),
      ConvCase("ConvValidUneven", {2, 4, 9, 11},
               {.filters = 7, .kernel_h = 2, .kernel_w = 4, .stride_h = 2, .stride_w = 3}),
      ConvCase("ConvSameStrideTwo", {2, 3, 10, 7},
               {.filters = 6,
                .kernel_h = 3,
                .kernel_w = 4,
                .stride_h = 2,
                .stride_w = 2,
                .padding = Padding::kSame,
                .activation = relu}),
      ConvCase("ConvSameStrideOverKernel", {2, 3, 10, 10},
               {.filters = 4,
                .kernel_h = 1,
                .kernel_w = 2,
                .stride_h = 3,
                .stride_w = 3,
                .padding = Padding::kSame}),
      ConvCase("ConvWithoutBias", {2, 8, 6, 6},
               {.filters = 16, .kernel_h = 1, .kernel_w = 1, .bias = false, .activation = relu}),
      ConvCase("ConvFourChannelsWideKernel", {3, 4, 9, 20},
               {.filters = 16, .kernel_h = 2, .kernel_w = 9, .padding = Padding::kSame}),
      ConvCase("ConvThreeChannelsStrideTwo", {3, 3, 17, 15},
               {.filters = 32, .kernel_h = 7, .kernel_w = 7, .stride_h = 2, .stride_w = 2}),
      ConvCase("ConvOneChannelManyPixels", {2, 1, 80, 60},
               {.filters = 24, .kernel_h = 3, .kernel_w = 6, .padding = Padding::kSame}),
      ConvCase("ConvOneChannelWithoutBias", {3, 1, 8, 8},
               {.filters = 48, .kernel_h = 4, .kernel_w = 1, .bias = false}),
      // So little work that copies cost more than a plain loop would.
      ConvCase("ConvOneRowStrideOverKernel", {1, 2, 1, 3},
               {.filters = 1,
                .kernel_h = 1,
                .kernel_w = 1,
                .stride_h = 3,
                .stride_w = 3,
                .padding = Padding::kSame}),
      ConvCase("ConvOneFilterTallStride", {3, 3, 3, 4},
               {.filters = 1, .kernel_h = 1, .kernel_w = 4, .stride_h = 4, .stride_w = 2}),
      ConvCase("ConvOnePixelOut", {5, 2, 3, 3}, {.filters = 3, .kernel_h = 3, .kernel_w = 3}),
  };
}

std::vector<OpCase> OtherCases() {
  const Activation relu = Activation::kRelu;
  const PoolKind average = PoolKind::kAverage;
  return {
      DenseCase("Dense", {6, 37}, {.units = 10}),
      DenseCase("DenseRelu", {128, 50}, {.units = 33, .activation = relu}),
      DenseCase("DenseOnImage", {3, 20, 5, 4}, {.units = 9, .activation = relu}),
      // Many rows, few units: less to copy of the weight than of x.
      DenseCase("DenseOnImageManyRows", {64, 20, 5, 4}, {.units = 3}),
      DenseCase("DenseOnImageWithoutInputGradient", {64, 20, 5, 4},
                {.units = 3, .bias = false, .activation = relu}),
      DenseCase("DenseWithoutBias", {1, 8}, {.units = 1, .bias = false}),
      PoolCase("MaxPool", {2, 32, 8, 6}, {}),
      PoolCase("MaxPoolRelu", {2, 32, 9, 7}, {.activation = relu}),
      PoolCase("MaxPoolOverlapping", {2, 5, 9, 8},
               {.window_h = 3, .window_w = 2, .stride_h = 1, .stride_w = 1}),
      PoolCase("MaxPoolSame", {2, 3, 7, 5},
               {.window_h = 3, .window_w = 3, .padding = Padding::kSame, .activation = relu}),
      PoolCase("AveragePool", {2, 16, 9, 6}, {.kind = average}),
      PoolCase("AveragePoolSame", {2, 3, 7, 5},
               {.kind = average, .window_h = 3, .window_w = 3, .padding = Padding::kSame}),
      {"GlobalAveragePool",
       {3, 20, 5, 4},
       [](Backend& backend, const TensorDesc& x) { return backend.MakeGlobalAveragePool2d(x); }},
      {"Relu",
       {3, 20, 5, 4},
       [](Backend& backend, const TensorDesc& x) { return backend.MakeRelu(x); }},
      {"ReluMatrix",
       {3, 37},
       [](Backend& backend, const TensorDesc& x) { return backend.MakeRelu(x); }},
      {"Dropout",
       {5, 3, 5, 7},
       [](Backend& backend, const TensorDesc& x) {
         return backend.MakeDropout({.x = x, .rate = 0.3f, .layer = 4});
       },
       {.training = true, .step = 7, .seed = 11, .first_position = 1000}},
      BatchNormCase("BatchNormImage", {6, 20, 5, 4}, 0),
      BatchNormCase("BatchNormMatrix", {9, 37}, 0),
      BatchNormCase("BatchNormWithPaddingRows", {6, 20, 5, 4}, 4),
  };
}

}  // namespace lockstep::train
