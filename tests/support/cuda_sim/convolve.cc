#include "tests/support/cuda_sim/convolve.h"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace cuda_sim {
namespace {

std::int64_t Span(const Strided& tensor) {
  std::int64_t last = 0;
  for (std::size_t i = 0; i < 4; ++i) last += (tensor.dimensions[i] - 1) * tensor.strides[i];
  return last + 1;
}

// Calls visit(index in x, in w, in y) for the first channel of every product.
template <typename Visit>
void ForEachProduct(const Convolving& what, const Visit& visit) {
  const auto& [batch, filters, out_h, out_w] = what.y.dimensions;
  const std::int64_t in_h = what.x.dimensions[2], in_w = what.x.dimensions[3];
  const auto &xs = what.x.strides, &ws = what.w.strides, &ys = what.y.strides;
  for (std::int64_t n = 0; n < batch; ++n) {
    for (std::int64_t k = 0; k < filters; ++k) {
      for (std::int64_t p = 0; p < out_h; ++p) {
        for (std::int64_t q = 0; q < out_w; ++q) {
          const std::int64_t y = n * ys[0] + k * ys[1] + p * ys[2] + q * ys[3];
          for (std::int64_t r = 0; r < what.w.dimensions[2]; ++r) {
            const std::int64_t h = p * what.strides[0] - what.paddings[0] + r;
            if (h < 0 || h >= in_h) continue;
            for (std::int64_t s = 0; s < what.w.dimensions[3]; ++s) {
              const std::int64_t w = q * what.strides[1] - what.paddings[1] + s;
              if (w < 0 || w >= in_w) continue;
              visit(n * xs[0] + h * xs[2] + w * xs[3], k * ws[0] + r * ws[2] + s * ws[3], y);
            }
          }
        }
      }
    }
  }
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
  const float *const x = x_values.data(), *const w = w_values.data(), *const y = y_values.data();
  const std::int64_t channels = what.x.dimensions[1];
  const std::int64_t xc = what.x.strides[1], wc = what.w.strides[1];
  const Strided& result = what.pass == Pass::kForward        ? what.y
                          : what.pass == Pass::kBackwardData ? what.x
                                                             : what.w;
  void* const written = what.pass == Pass::kForward        ? y_memory
                        : what.pass == Pass::kBackwardData ? x_memory
                                                           : w_memory;
  std::vector<double> sums(static_cast<std::size_t>(Span(result)));
  double* const to = sums.data();
  ForEachProduct(what, [&](std::int64_t i, std::int64_t j, std::int64_t o) {
    switch (what.pass) {
      case Pass::kForward: {
        double sum = 0;
        for (std::int64_t c = 0; c < channels; ++c) {
          sum += static_cast<double>(x[i + c * xc]) * static_cast<double>(w[j + c * wc]);
        }
        to[o] += sum;
        break;
      }
      case Pass::kBackwardData: {
        const double dy = y[o];
        for (std::int64_t c = 0; c < channels; ++c) to[i + c * xc] += dy * w[j + c * wc];
        break;
      }
      case Pass::kBackwardWeights: {
        const double dy = y[o];
        for (std::int64_t c = 0; c < channels; ++c) to[j + c * wc] += dy * x[i + c * xc];
        break;
      }
    }
  });
  for (std::size_t i = 0; i < sums.size(); ++i) {
    SetNumber(written, i, result.type, static_cast<float>(sums[i]));
  }
}

}  // namespace cuda_sim
