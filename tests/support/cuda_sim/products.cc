#include "tests/support/cuda_sim/products.h"

#include <type_traits>

namespace cuda_sim {
namespace {

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

// `xc` and `wc`: the steps from one channel to the next, as a number or as a constant that the
// compiler knows.
template <typename Step>
void AddPass(const Convolving& what, const float* x, const float* w, const float* y, double* sums,
             Step xc, Step wc) {
  const std::int64_t channels = what.x.dimensions[1];
  switch (what.pass) {
    case Pass::kForward:
      return ForEachProduct(what, [&](std::int64_t i, std::int64_t j, std::int64_t o) {
        double sum = 0;
        for (std::int64_t c = 0; c < channels; ++c) {
          sum += static_cast<double>(x[i + c * xc]) * static_cast<double>(w[j + c * wc]);
        }
        sums[o] += sum;
      });
    case Pass::kBackwardData:
      return ForEachProduct(what, [&](std::int64_t i, std::int64_t j, std::int64_t o) {
        const double dy = y[o];
        for (std::int64_t c = 0; c < channels; ++c) sums[i + c * xc] += dy * w[j + c * wc];
      });
    case Pass::kBackwardWeights:
      return ForEachProduct(what, [&](std::int64_t i, std::int64_t j, std::int64_t o) {
        const double dy = y[o];
        for (std::int64_t c = 0; c < channels; ++c) sums[j + c * wc] += dy * x[i + c * xc];
      });
  }
}

}  // namespace

void AddProducts(const Convolving& what, const float* x, const float* w, const float* y,
                 double* sums) {
  const std::int64_t xc = what.x.strides[1], wc = what.w.strides[1];
  using One = std::integral_constant<std::int64_t, 1>;
  if (xc == 1 && wc == 1) return AddPass(what, x, w, y, sums, One(), One());
  AddPass(what, x, w, y, sums, xc, wc);
}

double InnerProduct(const double* a, const double* b, std::int64_t count) {
  double sum = 0;
  for (std::int64_t i = 0; i < count; ++i) sum += a[i] * b[i];
  return sum;
}

}  // namespace cuda_sim
