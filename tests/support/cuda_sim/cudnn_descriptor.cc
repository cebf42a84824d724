#include "tests/support/cuda_sim/cudnn_descriptor.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace cuda_sim::dnn {
namespace {

thread_local std::string last_error;

// The attributes of each type of descriptor that a program sets, all of which Finalize requires.
struct Settable {
  int descriptor, attribute, type;
  std::int64_t least, most;  // values
};
constexpr Settable kSettable[] = {
    {kConvolution, 100, kDataType, 1, 1},
    {kConvolution, 101, kConvolutionMode, 1, 1},
    {kConvolution, 102, kInt64, 2, 2},
    {kConvolution, 103, kInt64, 2, 2},
    {kConvolution, 104, kInt64, 2, 2},
    {kConvolution, 105, kInt64, 2, 2},
    {kConvolution, 106, kInt64, 1, 1},
    {kHeuristic, 200, kHeuristicMode, 1, 1},
    {kHeuristic, 201, kDescriptor, 1, 1},
    {kPlan, 400, kHandle, 1, 1},
    {kPlan, 401, kDescriptor, 1, 1},
    {kForward, 700, kFloat, 1, 1},
    {kForward, 701, kFloat, 1, 1},
    {kForward, 702, kDescriptor, 1, 1},
    {kForward, 703, kDescriptor, 1, 1},
    {kForward, 704, kDescriptor, 1, 1},
    {kForward, 705, kDescriptor, 1, 1},
    {kBackwardData, 706, kFloat, 1, 1},
    {kBackwardData, 707, kFloat, 1, 1},
    {kBackwardData, 708, kDescriptor, 1, 1},
    {kBackwardData, 709, kDescriptor, 1, 1},
    {kBackwardData, 710, kDescriptor, 1, 1},
    {kBackwardData, 711, kDescriptor, 1, 1},
    {kBackwardFilter, 712, kFloat, 1, 1},
    {kBackwardFilter, 713, kFloat, 1, 1},
    {kBackwardFilter, 714, kDescriptor, 1, 1},
    {kBackwardFilter, 715, kDescriptor, 1, 1},
    {kBackwardFilter, 716, kDescriptor, 1, 1},
    {kBackwardFilter, 717, kDescriptor, 1, 1},
    {kGraph, 800, kHandle, 1, 1},
    {kGraph, 801, kDescriptor, 1, 1},
    {kTensor, 900, kInt64, 1, 1},
    {kTensor, 901, kDataType, 1, 1},
    {kTensor, 902, kInt64, 4, 4},
    {kTensor, 903, kInt64, 4, 4},
    {kTensor, 906, kInt64, 1, 1},
    {kPack, 1000, kInt64, 1, 16},
    {kPack, 1001, kVoidPointer, 1, 16},
    {kPack, 1003, kVoidPointer, 1, 1},
};
std::size_t SizeOf(int type) {
  const bool is_four_bytes = type == kDataType || type == kFloat || type == kConvolutionMode ||
                             type == kHeuristicMode || type == kNumericalNote;
  return is_four_bytes ? 4 : 8;
}

// cudnnDataType_t's FLOAT, HALF and BFLOAT16.
std::optional<NumberType> NumberTypeOf(std::int32_t type) {
  switch (type) {
    case 0:
      return NumberType::kFloat32;
    case 2:
      return NumberType::kFloat16;
    case 9:
      return NumberType::kBFloat16;
    default:
      return std::nullopt;
  }
}

Strided StridedOf(const Descriptor& tensor) {
  Strided strided;
  const auto dimensions = tensor.All<std::int64_t>(902), strides = tensor.All<std::int64_t>(903);
  std::copy_n(dimensions.begin(), 4, strided.dimensions.begin());
  std::copy_n(strides.begin(), 4, strided.strides.begin());
  strided.type = *NumberTypeOf(tensor.One<std::int32_t>(901));
  return strided;
}

int CheckOperation(const Descriptor& operation) {
  const OperationAttributes names = AttributesOf(operation);
  if (operation.One<float>(names.alpha) != 1 || operation.One<float>(names.beta) != 0) {
    return Refuse(kNotSupported, "alpha is not 1 or beta is not 0");
  }
  const Convolving what = ConvolvingOf(operation);
  if (what.x.type != what.w.type || what.x.type != what.y.type) {
    return Refuse(kNotSupported, "the tensors are not of one type");
  }
  const auto &x = what.x.dimensions, &w = what.w.dimensions, &y = what.y.dimensions;
  if (x[0] != y[0] || x[1] != w[1] || w[0] != y[1]) {
    return Refuse(kBadParam, "the tensors' dimensions do not fit");
  }
  const auto after = operation.Named(names.window).All<std::int64_t>(104);
  for (std::size_t i = 0; i < 2; ++i) {
    const std::int64_t padded = x[i + 2] + what.paddings[i] + after[i];
    if (padded < w[i + 2] || y[i + 2] != (padded - w[i + 2]) / what.strides[i] + 1) {
      return Refuse(kBadParam, "the output's dimensions do not fit the window's");
    }
  }
  return kSuccess;
}

int CheckConvolution(const Descriptor& window) {
  if (window.One<std::int32_t>(100) != 0 || window.One<std::int32_t>(101) != 1 ||
      window.One<std::int64_t>(106) != 2 ||
      window.All<std::int64_t>(102) != std::vector<std::int64_t>{1, 1}) {
    return Refuse(kNotSupported, "not a plane cross-correlation in float32 without dilations");
  }
  return kSuccess;
}

}  // namespace

int Refuse(int status, std::string reason) {
  last_error = std::move(reason);
  return status;
}

const std::string& LastError() {
  return last_error;
}

OperationAttributes AttributesOf(const Descriptor& operation) {
  switch (operation.type) {
    case kForward:
      return {.alpha = 700, .beta = 701, .window = 702, .x = 704, .w = 703, .y = 705};
    case kBackwardData:
      return {.alpha = 706, .beta = 707, .window = 708, .x = 710, .w = 709, .y = 711};
    default:
      return {.alpha = 712, .beta = 713, .window = 714, .x = 716, .w = 715, .y = 717};
  }
}

Convolving ConvolvingOf(const Descriptor& operation) {
  const OperationAttributes names = AttributesOf(operation);
  const Descriptor& window = operation.Named(names.window);
  const auto paddings = window.All<std::int64_t>(105), strides = window.All<std::int64_t>(103);
  return {.pass = operation.type == kForward        ? Pass::kForward
                  : operation.type == kBackwardData ? Pass::kBackwardData
                                                    : Pass::kBackwardWeights,
          .x = StridedOf(operation.Named(names.x)),
          .w = StridedOf(operation.Named(names.w)),
          .y = StridedOf(operation.Named(names.y)),
          .paddings = {paddings[0], paddings[1]},
          .strides = {strides[0], strides[1]}};
}

int Descriptor::Set(int attribute, int value_type, std::int64_t count, const void* from) {
  const std::string name = std::to_string(attribute);
  if (is_final) return Refuse(kBadParam, "set after Finalize: attribute " + name);
  for (const Settable& known : kSettable) {
    if (known.descriptor != type || known.attribute != attribute) continue;
    if (known.type != value_type || count < known.least || count > known.most || from == nullptr) {
      return Refuse(kBadParam, "the type or count does not fit attribute " + name);
    }
    const auto* first = static_cast<const std::byte*>(from);
    values[attribute] = {first, first + static_cast<std::size_t>(count) * SizeOf(value_type)};
    return kSuccess;
  }
  return Refuse(kNotSupported, "the descriptor does not have attribute " + name);
}

int Descriptor::CheckComplete() const {
  for (const Settable& known : kSettable) {
    if (known.descriptor != type) continue;
    const std::string name = std::to_string(known.attribute);
    if (!values.contains(known.attribute)) {
      return Refuse(kBadParam, "not set before Finalize: attribute " + name);
    }
    if (known.type == kDescriptor && !Named(known.attribute).is_final) {
      return Refuse(kBadParam, "names what is not finalized: attribute " + name);
    }
  }
  switch (type) {
    case kConvolution:
      return CheckConvolution(*this);
    case kForward:
    case kBackwardData:
    case kBackwardFilter:
      return CheckOperation(*this);
    case kTensor:
      return NumberTypeOf(One<std::int32_t>(901)) ? kSuccess
                                                  : Refuse(kNotSupported, "a tensor's type");
    default:
      return kSuccess;
  }
}

}  // namespace cuda_sim::dnn
