#include "trainer/check/op_cases.h"

namespace lockstep::train {
namespace {

// A convolution of a residual network: BatchNorm follows, so it has neither bias nor relu.
Conv2dSpec Residual(std::int64_t filters, std::int64_t kernel, std::int64_t stride) {
  const std::int64_t zeros = kernel / 2;
  return {.filters = filters,
          .kernel_h = kernel,
          .kernel_w = kernel,
          .stride_h = stride,
          .stride_w = stride,
          .bias = false,
          .zeros = {zeros, zeros, zeros, zeros}};
}

}  // namespace

std::vector<OpCase> CoreCnnCases() {
  const Conv2dSpec first{
      .filters = 32, .kernel_h = 5, .kernel_w = 5, .padding = Padding::kSame, .relu = true};
  Conv2dSpec second = first;
  second.filters = 64;
  return {CaseOf<Conv2dSpec>("CoreCnnConv1", {4, 1, 28, 28}, first),
          CaseOf<Pool2dSpec>("CoreCnnPool1", {4, 32, 28, 28}, {}),
          CaseOf<Conv2dSpec>("CoreCnnConv2", {4, 32, 14, 14}, second),
          CaseOf<Pool2dSpec>("CoreCnnPool2", {4, 64, 14, 14}, {}),
          CaseOf<DenseSpec>("CoreCnnDense1", {4, 64, 7, 7}, {.units = 1024, .relu = true}),
          CaseOf<DenseSpec>("CoreCnnDense2", {128, 1024}, {.units = 10})};
}

std::vector<OpCase> ResNetCases() {
  const auto conv = [](const char* name, Shape x, const Conv2dSpec& spec) {
    return CaseOf<Conv2dSpec>(name, std::move(x), spec);
  };
  return {conv("ResNetStem7x7", {1, 3, 224, 224}, Residual(64, 7, 2)),
          conv("ResNetReduce56", {1, 256, 56, 56}, Residual(64, 1, 1)),
          conv("ResNet3x3At56", {1, 64, 56, 56}, Residual(64, 3, 1)),
          conv("ResNetExpand56", {1, 64, 56, 56}, Residual(256, 1, 1)),
          conv("ResNetProject56To28", {1, 256, 56, 56}, Residual(512, 1, 2)),
          conv("ResNet3x3From56To28", {1, 128, 56, 56}, Residual(128, 3, 2)),
          conv("ResNet3x3At28", {1, 128, 28, 28}, Residual(128, 3, 1)),
          conv("ResNetProject28To14", {1, 512, 28, 28}, Residual(1024, 1, 2)),
          conv("ResNet3x3At14", {1, 256, 14, 14}, Residual(256, 3, 1)),
          conv("ResNetReduce14", {2, 1024, 14, 14}, Residual(256, 1, 1)),
          conv("ResNet3x3From14To7", {1, 512, 14, 14}, Residual(512, 3, 2)),
          conv("ResNet3x3At7", {1, 512, 7, 7}, Residual(512, 3, 1)),
          conv("ResNetExpand7", {2, 512, 7, 7}, Residual(2048, 1, 1)),
          CaseOf<BatchNormSpec>("ResNetNorm112", {1, 64, 112, 112}, {}),
          CaseOf<BatchNormSpec>("ResNetNorm56", {2, 256, 56, 56}, {}),
          CaseOf<BatchNormSpec>("ResNetNorm7", {8, 2048, 7, 7}, {}),
          CaseOf<Pool2dSpec>("ResNetPool112", {1, 64, 112, 112},
                             {.window_h = 3, .window_w = 3, .relu = true, .zeros = {1, 1, 1, 1}}),
          {"ResNetAdd56",
           {1, 256, 56, 56},
           [](const TensorDesc& x) -> OpSpec { return AddSpec{.x = {x, x}, .relu = true}; }},
          CaseOf<GlobalAveragePool2dSpec>("ResNetAveragePool", {4, 2048, 7, 7}, {}),
          CaseOf<DenseSpec>("ResNetDense", {8, 2048}, {.units = 1000})};
}

}  // namespace lockstep::train
