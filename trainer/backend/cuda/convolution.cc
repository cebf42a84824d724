#include "trainer/backend/cuda/convolution.h"

#include <fmt/format.h>

#include <array>
#include <utility>

namespace lockstep::train::cuda {
namespace {

constexpr std::int64_t kX = 1, kW = 2, kY = 3;  // the tensors' ids

// An image N,C,H,W, or weights K,C,R,S, with the channels last in memory.
DnnTensor TensorOf(std::int64_t id, const std::array<std::int64_t, 4>& dimensions, DType type) {
  const auto& [count, channels, height, width] = dimensions;
  return {.id = id,
          .dimensions = dimensions,
          .strides = {channels * height * width, 1, width * channels, channels},
          .type = type};
}

DnnDescriptor WindowDescriptor(const DnnLibrary& library, const WindowAxis& rows,
                               const WindowAxis& columns) {
  DnnDescriptor window(library, DnnDescriptorType::kConvolution);
  window.Set(DnnAttribute::kConvolutionComputeType, DnnType::kDataType, kDnnDataFloat);
  window.Set(DnnAttribute::kConvolutionMode, DnnType::kConvolutionMode, kDnnCrossCorrelation);
  window.Set(DnnAttribute::kConvolutionSpatialDims, std::int64_t{2});
  window.Set(DnnAttribute::kConvolutionDilations, {1, 1});
  window.Set(DnnAttribute::kConvolutionStrides, {rows.stride, columns.stride});
  window.Set(DnnAttribute::kConvolutionPrePaddings, {rows.pad_begin, columns.pad_begin});
  window.Set(DnnAttribute::kConvolutionPostPaddings, {rows.pad_end, columns.pad_end});
  window.Finalize();
  return window;
}

// A pass, and the names of its attributes.
struct Operation {
  DnnDescriptorType type;
  DnnAttribute alpha, beta, window, x, w, y;
};
Operation OperationOf(ConvolutionPass pass) {
  switch (pass) {
    case ConvolutionPass::kForward:
      break;
    case ConvolutionPass::kBackwardData:
      return {DnnDescriptorType::kConvolutionBackwardData,
              DnnAttribute::kBackwardDataAlpha,
              DnnAttribute::kBackwardDataBeta,
              DnnAttribute::kBackwardDataConvolution,
              DnnAttribute::kBackwardDataDx,
              DnnAttribute::kBackwardDataW,
              DnnAttribute::kBackwardDataDy};
    case ConvolutionPass::kBackwardWeights:
      return {DnnDescriptorType::kConvolutionBackwardFilter,
              DnnAttribute::kBackwardFilterAlpha,
              DnnAttribute::kBackwardFilterBeta,
              DnnAttribute::kBackwardFilterConvolution,
              DnnAttribute::kBackwardFilterX,
              DnnAttribute::kBackwardFilterDw,
              DnnAttribute::kBackwardFilterDy};
  }
  return {DnnDescriptorType::kConvolutionForward,
          DnnAttribute::kForwardAlpha,
          DnnAttribute::kForwardBeta,
          DnnAttribute::kForwardConvolution,
          DnnAttribute::kForwardX,
          DnnAttribute::kForwardW,
          DnnAttribute::kForwardY};
}

const char* NameOf(ConvolutionPass pass) {
  switch (pass) {
    case ConvolutionPass::kForward:
      return "the forward";
    case ConvolutionPass::kBackwardData:
      return "the backward data";
    case ConvolutionPass::kBackwardWeights:
      return "the backward weights";
  }
  return "";
}

}  // namespace

std::vector<DnnDescriptor> ConvolutionParts(const DnnLibrary& library, ConvolutionPass pass,
                                            const ConvolutionShape& shape) {
  const WindowAxis &rows = shape.rows, &columns = shape.columns;
  std::vector<DnnDescriptor> parts;
  parts.push_back(MakeDnnTensor(
      library, TensorOf(kX, {shape.batch, shape.channels, rows.in, columns.in}, shape.type)));
  parts.push_back(MakeDnnTensor(
      library, TensorOf(kW, {shape.filters, shape.channels, rows.size, columns.size}, shape.type)));
  parts.push_back(MakeDnnTensor(
      library, TensorOf(kY, {shape.batch, shape.filters, rows.out, columns.out}, shape.type)));
  parts.push_back(WindowDescriptor(library, rows, columns));
  const Operation names = OperationOf(pass);
  DnnDescriptor operation(library, names.type);
  operation.Set(names.x, parts[0]);
  operation.Set(names.w, parts[1]);
  operation.Set(names.y, parts[2]);
  operation.Set(names.window, parts[3]);
  operation.Set(names.alpha, 1.0f);
  operation.Set(names.beta, 0.0f);
  operation.Finalize();
  parts.push_back(std::move(operation));
  return parts;
}

std::string ConvolutionShape::ToString() const {
  return fmt::format(
      "convolution of {},{},{},{} by {} filters of {}x{}, strides {}x{}, zeros "
      "{}+{} and {}+{} in {}",
      batch, channels, rows.in, columns.in, filters, rows.size, columns.size, rows.stride,
      columns.stride, rows.pad_begin, rows.pad_end, columns.pad_begin, columns.pad_end,
      DTypeName(type));
}

Convolution::Convolution(const Device& device, ConvolutionPass pass, const ConvolutionShape& shape)
    : plan_(device, ConvolutionParts(device.dnn_library(), pass, shape), {kX, kW, kY},
            fmt::format("{} pass of a {}", NameOf(pass), shape.ToString()),
            shape.type == DType::kFloat32 && !device.rounds_to_tf32() ? Factors::kKept
                                                                      : Factors::kForTensorCores) {}

void Convolution::Run(const void* x, const void* w, const void* y, void* workspace) {
  void* const memory[] = {const_cast<void*>(x), const_cast<void*>(w), const_cast<void*>(y)};
  plan_.Run(memory, workspace);
}

}  // namespace lockstep::train::cuda
