#include "trainer/nn/flat_tensors.h"

#include <fmt/format.h>

#include "trainer/core/arena.h"

namespace lockstep::train {
namespace {

constexpr std::int64_t kAlignedFloats = kArenaAlignment / sizeof(float);

}  // namespace

void FlatTensors::Append(const std::string& op_name, const ParameterDesc& parameter) {
  const auto floats = static_cast<std::int64_t>(parameter.desc.bytes() / sizeof(float));
  slots_.push_back({.name = fmt::format("{}/{}", op_name, parameter.name),
                    .desc = parameter.desc,
                    .offset = size_,
                    .size = floats,
                    .kept = parameter.kept});
  descs_.push_back(parameter);
  size_ += (floats + kAlignedFloats - 1) / kAlignedFloats * kAlignedFloats;
}

}  // namespace lockstep::train
