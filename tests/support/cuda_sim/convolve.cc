#include "tests/support/cuda_sim/convolve.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "tests/support/cuda_sim/products.h"

namespace cuda_sim {
namespace {

std::int64_t Span(const Strided& tensor) {
  std::int64_t last = 0;
  for (std::size_t i = 0; i < 4; ++i) last += (tensor.dimensions[i] - 1) * tensor.strides[i];
  return last + 1;
}

}  // namespace

void Convolve(const Convolving& what, bool rounds, void* x_memory, void* w_memory, void* y_memory) {
  const auto factor = [&](Pass writes_it, const Strided& tensor, const void* memory) {
    if (what.pass == writes_it) return std::vector<float>();
    auto values = AsFloats(memory, static_cast<std::size_t>(Span(tensor)), tensor.type);
    if (rounds) std::ranges::transform(values, values.begin(), RoundedToTf32);
    return values;
  };
  const std::vector<float> x_values = factor(Pass::kBackwardData, what.x, x_memory);
  const std::vector<float> w_values = factor(Pass::kBackwardWeights, what.w, w_memory);
  const std::vector<float> y_values = factor(Pass::kForward, what.y, y_memory);
  const Strided& result = what.pass == Pass::kForward        ? what.y
                          : what.pass == Pass::kBackwardData ? what.x
                                                             : what.w;
  void* const written = what.pass == Pass::kForward        ? y_memory
                        : what.pass == Pass::kBackwardData ? x_memory
                                                           : w_memory;
  std::vector<double> sums(static_cast<std::size_t>(Span(result)));
  AddProducts(what, x_values.data(), w_values.data(), y_values.data(), sums.data());
  for (std::size_t i = 0; i < sums.size(); ++i) {
    SetNumber(written, i, result.type, static_cast<float>(sums[i]));
  }
}

}  // namespace cuda_sim
