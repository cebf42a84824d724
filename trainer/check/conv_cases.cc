#include "trainer/check/op_cases.h"

namespace lockstep::train {
namespace {

std::vector<OpCase> PaddedConvCases() {
  return {
      // As the first of a residual network, and one between its stages.
      CaseOf<Conv2dSpec>("ConvFewChannelsWithZeros", {2, 3, 20, 17},
                         {.filters = 32,
                          .kernel_h = 7,
                          .kernel_w = 7,
                          .stride_h = 2,
                          .stride_w = 2,
                          .bias = false,
                          .zeros = {3, 3, 3, 3}}),
      CaseOf<Conv2dSpec>("ConvWithZeros", {2, 20, 9, 8},
                         {.filters = 16,
                          .kernel_h = 3,
                          .kernel_w = 3,
                          .stride_h = 2,
                          .stride_w = 2,
                          .zeros = {1, 1, 1, 1}}),
      CaseOf<Conv2dSpec>("ConvWithUnequalZeros", {2, 32, 9, 8},
                         {.filters = 16, .kernel_h = 3, .kernel_w = 3, .zeros = {2, 0, 1, 2}}),
      CaseOf<DepthwiseConv2dSpec>("DepthwiseSameStrideTwo", {2, 20, 9, 8},
                                  {.kernel_h = 3,
                                   .kernel_w = 3,
                                   .stride_h = 2,
                                   .stride_w = 2,
                                   .padding = Padding::kSame,
                                   .relu = true}),
      CaseOf<DepthwiseConv2dSpec>("DepthwiseMultiplier", {2, 5, 7, 6},
                                  {.depth_multiplier = 3, .kernel_h = 3, .kernel_w = 2}),
      CaseOf<Conv2dSpec>("ConvSame5x5OneChannel", {4, 1, 14, 14},
                         {.filters = 32, .kernel_h = 5, .kernel_w = 5, .padding = Padding::kSame}),
      CaseOf<Conv2dSpec>(
          "ConvSame5x5Relu", {3, 32, 7, 7},
          {.filters = 64, .kernel_h = 5, .kernel_w = 5, .padding = Padding::kSame, .relu = true}),
  };
}

// Wide and large enough for Winograd's method on the CPU.
std::vector<OpCase> WinogradConvCases() {
  return {
      CaseOf<Conv2dSpec>(
          "ConvWinograd3x3Relu", {16, 32, 16, 16},
          {.filters = 32, .kernel_h = 3, .kernel_w = 3, .padding = Padding::kSame, .relu = true}),
      CaseOf<Conv2dSpec>("ConvWinograd3x3WithoutBias", {32, 32, 22, 22},
                         {.filters = 32, .kernel_h = 3, .kernel_w = 3, .bias = false}),
      CaseOf<Conv2dSpec>("ConvWinograd5x5", {8, 32, 20, 20},
                         {.filters = 64, .kernel_h = 5, .kernel_w = 5, .padding = Padding::kSame}),
  };
}

std::vector<OpCase> UnevenConvCases() {
  return {
      CaseOf<Conv2dSpec>("ConvValid3x3", {2, 3, 9, 8},
                         {.filters = 5, .kernel_h = 3, .kernel_w = 3}),
      CaseOf<Conv2dSpec>(
          "ConvValidUneven", {2, 4, 9, 11},
          {.filters = 7, .kernel_h = 2, .kernel_w = 4, .stride_h = 2, .stride_w = 3}),
      CaseOf<Conv2dSpec>("ConvSameStrideTwo", {2, 3, 10, 7},
                         {.filters = 6,
                          .kernel_h = 3,
                          .kernel_w = 4,
                          .stride_h = 2,
                          .stride_w = 2,
                          .padding = Padding::kSame,
                          .relu = true}),
      CaseOf<Conv2dSpec>("ConvSameStrideOverKernel", {2, 3, 10, 10},
                         {.filters = 4,
                          .kernel_h = 1,
                          .kernel_w = 2,
                          .stride_h = 3,
                          .stride_w = 3,
                          .padding = Padding::kSame}),
      CaseOf<Conv2dSpec>(
          "ConvWithoutBias", {2, 8, 6, 6},
          {.filters = 16, .kernel_h = 1, .kernel_w = 1, .bias = false, .relu = true}),
      CaseOf<Conv2dSpec>("ConvFourChannelsWideKernel", {3, 4, 9, 20},
                         {.filters = 16, .kernel_h = 2, .kernel_w = 9, .padding = Padding::kSame}),
      CaseOf<Conv2dSpec>(
          "ConvThreeChannelsStrideTwo", {3, 3, 17, 15},
          {.filters = 32, .kernel_h = 7, .kernel_w = 7, .stride_h = 2, .stride_w = 2}),
      CaseOf<Conv2dSpec>("ConvOneChannelManyPixels", {2, 1, 80, 60},
                         {.filters = 24, .kernel_h = 3, .kernel_w = 6, .padding = Padding::kSame}),
      CaseOf<Conv2dSpec>("ConvOneChannelWithoutBias", {3, 1, 8, 8},
                         {.filters = 48, .kernel_h = 4, .kernel_w = 1, .bias = false}),
  };
}

std::vector<OpCase> SmallOrTallConvCases() {
  return {
      // So little work that copies cost more than a plain loop would.
      CaseOf<Conv2dSpec>("ConvOneRowStrideOverKernel", {1, 2, 1, 3},
                         {.filters = 1,
                          .kernel_h = 1,
                          .kernel_w = 1,
                          .stride_h = 3,
                          .stride_w = 3,
                          .padding = Padding::kSame}),
      CaseOf<Conv2dSpec>(
          "ConvOneFilterTallStride", {3, 3, 3, 4},
          {.filters = 1, .kernel_h = 1, .kernel_w = 4, .stride_h = 4, .stride_w = 2}),
      // Kernels that are much taller or wider than the image.
      CaseOf<Conv2dSpec>("ConvTallerThanImage", {2, 16, 12, 12},
                         {.filters = 32, .kernel_h = 25, .kernel_w = 3, .padding = Padding::kSame}),
      CaseOf<Conv2dSpec>("ConvTallerThanWideImage", {2, 16, 10, 28},
                         {.filters = 32, .kernel_h = 19, .kernel_w = 3, .padding = Padding::kSame}),
      CaseOf<Conv2dSpec>("ConvWiderThanImage", {2, 16, 12, 12},
                         {.filters = 32, .kernel_h = 3, .kernel_w = 25, .padding = Padding::kSame}),
      CaseOf<Conv2dSpec>("ConvOnePixelOut", {5, 2, 3, 3},
                         {.filters = 3, .kernel_h = 3, .kernel_w = 3}),
  };
}

// With strides, also such that leave most of the image out. oneDNN 3.2 has passes that are wrong
// there: in bfloat16, weight gradients if the image is narrower than the stride, and the forward
// pass of AMX (see SkipBroken); and weight gradients with a kernel of one pixel, if the channels do
// not fill a block.
std::vector<OpCase> SparseConvCases() {
  const auto conv = [](const char* name, Shape x, const Conv2dSpec& spec) {
    return CaseOf<Conv2dSpec>(name, std::move(x), spec);
  };
  return {
      conv("ConvNarrowerThanStrideTwo", {4, 16, 5, 1},
           {.filters = 16,
            .kernel_h = 3,
            .kernel_w = 3,
            .stride_h = 2,
            .stride_w = 2,
            .padding = Padding::kSame}),
      conv("ConvNarrowerThanStrideThree", {4, 16, 5, 2},
           {.filters = 16,
            .kernel_h = 3,
            .kernel_w = 3,
            .stride_h = 3,
            .stride_w = 3,
            .padding = Padding::kSame}),
      conv("ConvOfOnePixelWithZeros", {8, 64, 1, 1},
           {.filters = 32,
            .kernel_h = 3,
            .kernel_w = 3,
            .stride_h = 2,
            .stride_w = 2,
            .zeros = {1, 1, 1, 1}}),
      conv("ConvTwoByTwoStrideTwo48Channels", {2, 48, 4, 18},
           {.filters = 20, .kernel_h = 2, .kernel_w = 2, .stride_h = 2, .stride_w = 2}),
      conv("ConvOneByOneSixChannelsStrideTwo", {8, 6, 32, 32},
           {.filters = 36, .kernel_h = 1, .kernel_w = 1, .stride_h = 2, .stride_w = 2}),
      conv("ConvOneByOneTwelveChannelsStrideTwo", {5, 12, 40, 40},
           {.filters = 64, .kernel_h = 1, .kernel_w = 1, .stride_h = 2, .stride_w = 2}),
  };
}

// Channels that fill vectors and blocks, and that do not; windows that are whole and that are not.
std::vector<OpCase> DepthwiseCases() {
  const auto depthwise = [](const char* name, Shape x, const DepthwiseConv2dSpec& spec) {
    return CaseOf<DepthwiseConv2dSpec>(name, std::move(x), spec);
  };
  return {
      depthwise("DepthwiseSame3x3", {3, 32, 9, 12},
                {.kernel_h = 3, .kernel_w = 3, .padding = Padding::kSame}),
      depthwise("DepthwiseValidStrideTwoRelu", {2, 20, 11, 9},
                {.kernel_h = 3, .kernel_w = 3, .stride_h = 2, .stride_w = 2, .relu = true}),
      depthwise("DepthwiseStrideTwoWithZeros", {2, 16, 8, 8},
                {.kernel_h = 3,
                 .kernel_w = 3,
                 .stride_h = 2,
                 .stride_w = 2,
                 .bias = false,
                 .zeros = {0, 1, 0, 1}}),
      depthwise("DepthwiseSame5x4", {2, 24, 7, 10},
                {.kernel_h = 5, .kernel_w = 4, .padding = Padding::kSame, .relu = true}),
      depthwise(
          "DepthwiseStrideOverKernel", {2, 8, 10, 10},
          {.kernel_h = 1, .kernel_w = 2, .stride_h = 3, .stride_w = 3, .padding = Padding::kSame}),
      depthwise("DepthwiseWiderThanImage", {2, 16, 5, 4},
                {.kernel_h = 3, .kernel_w = 9, .padding = Padding::kSame}),
      depthwise("DepthwiseOnePixelOut", {3, 32, 7, 7}, {.kernel_h = 7, .kernel_w = 7}),
      depthwise("DepthwiseOnePixelOutOfPadded", {3, 16, 2, 2},
                {.kernel_h = 3,
                 .kernel_w = 3,
                 .stride_h = 2,
                 .stride_w = 2,
                 .padding = Padding::kSame,
                 .relu = true}),
      depthwise("DepthwiseThreeChannels", {3, 3, 9, 8},
                {.kernel_h = 3, .kernel_w = 3, .padding = Padding::kSame, .relu = true}),
      depthwise("DepthwiseTwoForEachChannel", {2, 20, 7, 6},
                {.depth_multiplier = 2, .kernel_h = 3, .kernel_w = 2, .padding = Padding::kSame}),
      depthwise("DepthwiseThreeOfOneChannel", {3, 1, 8, 9},
                {.depth_multiplier = 3,
                 .kernel_h = 3,
                 .kernel_w = 3,
                 .stride_h = 2,
                 .stride_w = 1,
                 .bias = false,
                 .relu = true}),
      depthwise("DepthwiseManyPixels", {3, 40, 40, 33},
                {.kernel_h = 3, .kernel_w = 3, .padding = Padding::kSame, .bias = false}),
  };
}

}  // namespace

std::vector<OpCase> ConvCases() {
  return Together({PaddedConvCases(), WinogradConvCases(), UnevenConvCases(),
                   SmallOrTallConvCases(), SparseConvCases(), DepthwiseCases()});
}

}  // namespace lockstep::train
