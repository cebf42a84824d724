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

// x, w and y.
std::vector<DnnTensor> TensorsOf(const ConvolutionShape& shape) {
  const WindowAxis &rows = shape.rows, &columns = shape.columns;
  return {TensorOf(kX, {shape.batch, shape.channels, rows.in, columns.in}, shape.type),
          TensorOf(kW, {shape.filters, shape.channels, rows.size, columns.size}, shape.type),
          TensorOf(kY, {shape.batch, shape.filters, rows.out, columns.out}, shape.type)};
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

DType ResultTypeOf(ConvolutionPass pass, const ConvolutionShape& shape) {
  const bool is_float = pass == ConvolutionPass::kBackwardWeights && shape.IsPointwise();
  return is_float ? DType::kFloat32 : shape.type;
}

// A pointwise convolution's pixels and filters are the rows of matrices:
//   y = x * w'   x = y * w   w = y' * x
MatmulShape ProductOf(ConvolutionPass pass, const ConvolutionShape& shape) {
  const std::int64_t pixels = shape.batch * shape.rows.in * shape.columns.in;
  MatmulShape product = {.type = shape.type, .result = ResultTypeOf(pass, shape)};
  switch (pass) {
    case ConvolutionPass::kForward:
      product.rows = pixels;
      product.columns = shape.filters;
      product.inner = shape.channels;
      product.b_transposed = true;
      break;
    case ConvolutionPass::kBackwardData:
      product.rows = pixels;
      product.columns = shape.channels;
      product.inner = shape.filters;
      break;
    case ConvolutionPass::kBackwardWeights:
      product.rows = shape.filters;
      product.columns = shape.channels;
      product.inner = pixels;
      product.a_transposed = true;
      break;
  }
  return product;
}

std::variant<DnnPlan, Matmul> MakePlan(const Device& device, ConvolutionPass pass,
                                       const ConvolutionShape& shape) {
  if (shape.IsPointwise()) return Matmul(device, ProductOf(pass, shape));
  const bool keeps_factors = shape.type == DType::kFloat32 && !device.rounds_to_tf32();
  return DnnPlan(device, ConvolutionParts(device.dnn_library(), pass, shape), TensorsOf(shape),
                 fmt::format("{} pass of a {}", NameOf(pass), shape.ToString()),
                 keeps_factors ? Factors::kKept : Factors::kForTensorCores);
}

}  // namespace

std::vector<DnnDescriptor> ConvolutionParts(const DnnLibrary& library, ConvolutionPass pass,
                                            const ConvolutionShape& shape) {
  std::vector<DnnDescriptor> parts;
  for (const DnnTensor& tensor : TensorsOf(shape)) parts.push_back(MakeDnnTensor(library, tensor));
  parts.push_back(WindowDescriptor(library, shape.rows, shape.columns));
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

bool ConvolutionShape::IsPointwise() const {
  const auto sees_one = [](const WindowAxis& axis) {
    return axis.size == 1 && axis.stride == 1 && axis.in == axis.out;
  };
  return sees_one(rows) && sees_one(columns);
}

Convolution::Convolution(const Device& device, ConvolutionPass pass, const ConvolutionShape& shape)
    : pass_(pass), result_type_(ResultTypeOf(pass, shape)), plan_(MakePlan(device, pass, shape)) {}

std::size_t Convolution::WorkspaceBytes() const {
  return std::visit([](const auto& plan) { return plan.WorkspaceBytes(); }, plan_);
}

std::string Convolution::implementation() const {
  const auto* dnn = std::get_if<DnnPlan>(&plan_);
  return dnn == nullptr ? "cublaslt" : fmt::format("cudnn:engine {}", dnn->engine());
}

void Convolution::Run(const void* x, const void* w, const void* y, void* workspace) {
  void* const memory[] = {const_cast<void*>(x), const_cast<void*>(w), const_cast<void*>(y)};
  if (auto* dnn = std::get_if<DnnPlan>(&plan_)) return dnn->Run(memory, workspace);
  const auto& product = std::get<Matmul>(plan_);
  switch (pass_) {
    case ConvolutionPass::kForward:
      return product.Run(x, w, memory[2], workspace);
    case ConvolutionPass::kBackwardData:
      return product.Run(y, w, memory[0], workspace);
    case ConvolutionPass::kBackwardWeights:
      return product.Run(y, x, memory[1], workspace);
  }
}

}  // namespace lockstep::train::cuda
