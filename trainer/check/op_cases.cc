#include "trainer/check/op_cases.h"

#include <fmt/format.h>

#include <utility>

#include "trainer/backend/activation_names.h"

namespace lockstep::train {
namespace {

OpCase BatchNormCase(std::string name, Shape x, std::int64_t valid, bool relu = false) {
  return {std::move(name),
          std::move(x),
          [relu](const TensorDesc& desc) -> OpSpec {
            return BatchNormSpec{.x = desc, .momentum = 0.9f, .relu = relu};
          },
          {.training = true, .valid = valid}};
}

std::vector<OpCase> ActivationCases() {
  std::vector<OpCase> cases;
  for (const NamedActivation& entry : kActivations) {
    for (const Shape& shape : {Shape{3, 20, 5, 4}, Shape{3, 37}}) {
      cases.push_back(
          {fmt::format("Activation_{}_{}", entry.name, shape.rank() == 4 ? "image" : "matrix"),
           shape, [activation = entry.activation](const TensorDesc& x) -> OpSpec {
             return ActivationSpec{.x = x, .activation = activation};
           }});
    }
  }
  cases.push_back({"LeakyRelu_steep", {3, 20, 5, 4}, [](const TensorDesc& x) -> OpSpec {
                     return ActivationSpec{
                         .x = x, .activation = Activation::kLeakyRelu, .slope = 1.5f};
                   }});
  return cases;
}

// Rows of less than a register, with a tail, and of more than is summed as floats at once; images
// of blocks that the channels fill and that they do not, and of one pixel.
std::vector<OpCase> LayerNormCases() {
  return {
      CaseOf<LayerNormSpec>("LayerNormOfTwo", {5, 2}, {}),
      CaseOf<LayerNormSpec>("LayerNormMatrix", {9, 37}, {}),
      CaseOf<LayerNormSpec>("LayerNormWideMatrix", {3, 5003}, {}),
      CaseOf<LayerNormSpec>("LayerNormWithoutBeta", {9, 128}, {.epsilon = 0.1f, .center = false}),
      CaseOf<LayerNormSpec>("LayerNormWithoutGamma", {6, 20, 5, 4}, {.scale = false}),
      CaseOf<LayerNormSpec>("LayerNormWithoutParameters", {6, 20},
                            {.center = false, .scale = false}),
      CaseOf<LayerNormSpec>("LayerNormImage", {3, 32, 9, 7}, {}),
      CaseOf<LayerNormSpec>("LayerNormImageWithTail", {3, 20, 5, 4}, {}),
      CaseOf<LayerNormSpec>("LayerNormPixel", {6, 20, 1, 1}, {}),
      CaseOf<LayerNormSpec>("LayerNormTwoChannels", {4, 2, 3, 2}, {})};
}

std::vector<OpCase> DenseCases() {
  return {
      CaseOf<DenseSpec>("Dense", {6, 37}, {.units = 10}),
      CaseOf<DenseSpec>("DenseRelu", {128, 50}, {.units = 33, .relu = true}),
      CaseOf<DenseSpec>("DenseOnImage", {3, 20, 5, 4}, {.units = 9, .relu = true}),
      // Many rows, few units: less to copy of the weight than of x.
      CaseOf<DenseSpec>("DenseOnImageManyRows", {64, 20, 5, 4}, {.units = 3}),
      CaseOf<DenseSpec>("DenseOnImageWithoutInputGradient", {64, 20, 5, 4},
                        {.units = 3, .bias = false, .relu = true}),
      CaseOf<DenseSpec>("DenseWithoutBias", {1, 8}, {.units = 1, .bias = false}),
  };
}

std::vector<OpCase> PoolCases() {
  const PoolKind average = PoolKind::kAverage;
  return {
      CaseOf<Pool2dSpec>("MaxPool", {2, 32, 8, 6}, {}),
      CaseOf<Pool2dSpec>("MaxPoolRelu", {2, 32, 9, 7}, {.relu = true}),
      CaseOf<Pool2dSpec>("MaxPoolOverlapping", {2, 5, 9, 8},
                         {.window_h = 3, .window_w = 2, .stride_h = 1, .stride_w = 1}),
      CaseOf<Pool2dSpec>("MaxPoolSame", {2, 3, 7, 5},
                         {.window_h = 3, .window_w = 3, .padding = Padding::kSame, .relu = true}),
      // So many elements that the index of one needs more than 8 and more than 16 bits.
      CaseOf<Pool2dSpec>("MaxPool300Elements", {2, 16, 20, 32}, {.window_h = 15, .window_w = 20}),
      CaseOf<Pool2dSpec>(
          "MaxPool153600Elements", {1, 6, 301, 512},
          {.window_h = 300, .window_w = 512, .stride_h = 1, .stride_w = 1, .relu = true}),
      CaseOf<Pool2dSpec>("AveragePool", {2, 16, 9, 6}, {.kind = average}),
      CaseOf<Pool2dSpec>(
          "AveragePoolSame", {2, 3, 7, 5},
          {.kind = average, .window_h = 3, .window_w = 3, .padding = Padding::kSame}),
      CaseOf<Pool2dSpec>("MaxPoolWithZeros", {2, 20, 9, 8},
                         {.window_h = 3,
                          .window_w = 3,
                          .stride_h = 2,
                          .stride_w = 2,
                          .relu = true,
                          .zeros = {1, 1, 2, 0}}),
  };
}

// Has x's rows, area and type, and is dense.
TensorDesc WithChannels(std::int64_t channels, const TensorDesc& x) {
  std::vector<std::int64_t> dims = x.shape.dims();
  dims[1] = channels;
  return {.shape = Shape(dims), .dtype = x.dtype};
}

// Cases of several inputs.
std::vector<OpCase> JoiningCases() {
  return {
      {"Add", {3, 20, 5, 4}, [](const TensorDesc& x) -> OpSpec { return AddSpec{.x = {x, x}}; }},
      {"AddReluOfThreeInTwoOrders",
       {3, 20, 5, 4},
       [](const TensorDesc& x) -> OpSpec {
         return AddSpec{.x = {x, {.shape = x.shape, .dtype = x.dtype}, x}, .relu = true};
       }},
      {"AddOfMatrices",
       {3, 37},
       [](const TensorDesc& x) -> OpSpec { return AddSpec{.x = {x, x}}; }},
      // In blocks of 8 and 16: with channels that fill them, and that do not.
      {"ConcatenateBlocks",
       {3, 32, 5, 4},
       [](const TensorDesc& x) -> OpSpec { return ConcatenateSpec{.x = {x, x}}; }},
      {"ConcatenateInTwoOrders",
       {3, 20, 5, 4},
       [](const TensorDesc& x) -> OpSpec {
         return ConcatenateSpec{.x = {x, WithChannels(7, x), x}};
       }},
      {"ConcatenateMatrices",
       {3, 37},
       [](const TensorDesc& x) -> OpSpec { return ConcatenateSpec{.x = {x, WithChannels(4, x)}}; }},
  };
}

std::vector<OpCase> OneInputCases() {
  return {
      {"GlobalAveragePool",
       {3, 20, 5, 4},
       [](const TensorDesc& x) -> OpSpec { return GlobalAveragePool2dSpec{.x = x}; }},
      {"Dropout",
       {5, 3, 5, 7},
       [](const TensorDesc& x) -> OpSpec { return DropoutSpec{.x = x, .rate = 0.3f, .layer = 4}; },
       {.training = true, .step = 7, .seed = 11, .first_position = 1000}},
      {"ZeroPadding",
       {3, 20, 5, 4},
       [](const TensorDesc& x) -> OpSpec {
         return ZeroPadding2dSpec{.x = x, .edges = {1, 2, 3, 0}};
       }},
      {"Flatten", {3, 20, 5, 4}, [](const TensorDesc& x) -> OpSpec { return FlattenSpec{.x = x}; }},
  };
}

std::vector<OpCase> BatchNormCases() {
  return {
      BatchNormCase("BatchNormImage", {6, 20, 5, 4}, 0),
      BatchNormCase("BatchNormMatrix", {9, 37}, 0),
      BatchNormCase("BatchNormWithPaddingRows", {6, 20, 5, 4}, 4),
      BatchNormCase("BatchNormRelu", {6, 40, 5, 4}, 4, /*relu=*/true),
      BatchNormCase("BatchNormReluMatrix", {9, 37}, 7, /*relu=*/true),
      // So many pixels that their sums are divided.
      BatchNormCase("BatchNormManyPixels", {9, 40, 32, 24}, 7),
  };
}

}  // namespace

std::vector<OpCase> SmallCases() {
  return Together({ConvCases(), DenseCases(), PoolCases(), JoiningCases(), OneInputCases(),
                   BatchNormCases(), LayerNormCases(), ActivationCases()});
}

std::vector<OpCase> Together(const std::vector<std::vector<OpCase>>& lists) {
  std::vector<OpCase> all;
  for (const std::vector<OpCase>& list : lists) all.insert(all.end(), list.begin(), list.end());
  return all;
}

}  // namespace lockstep::train
