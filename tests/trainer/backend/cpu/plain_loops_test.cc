// The kernels of every instruction set that this machine has, against loops over single floats that
// follow their contracts. (kernels_test compares instruction sets with each other, backend_test
// whole ops with `reference`; winograd_kernels_test has Winograd's kernels.)
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "tests/trainer/backend/cpu/each_isa.h"
#include "trainer/check/run_op.h"

namespace lockstep::train::cpu {
namespace {

class PlainLoopsTest : public EachIsa {};

std::size_t Size(std::int64_t floats) {
  return static_cast<std::size_t>(floats);
}

struct Extents {
  std::int64_t m, n, k;
};

// Strides of a matrix, or of the memory of its transpose.
struct Strides {
  std::int64_t row, column;
};
Strides StridesOf(std::int64_t rows, std::int64_t columns, bool transposed) {
  return transposed ? Strides{1, rows} : Strides{columns, 1};
}

struct ProductForm {
  bool transpose_a, transpose_b, add;
};

void ExpectProduct(const Kernels& kernels, const Extents& e, const ProductForm& form) {
  const auto [transpose_a, transpose_b, add] = form;
  SCOPED_TRACE(::testing::Message() << e.m << "x" << e.n << "x" << e.k << (transpose_a ? " aT" : "")
                                    << (transpose_b ? " bT" : "") << (add ? " add" : ""));
  constexpr std::int64_t kGap = 3;  // after each row of c, which is not touched
  const std::vector<float> a = RandomValues(e.m * e.k, 1), b = RandomValues(e.k * e.n, 2);
  const std::int64_t c_row = e.n + kGap;
  const std::vector<float> before = RandomValues(e.m * c_row, 3);
  std::vector<float> c = before, scratch(Size(kProductScratchFloats), NAN);
  const Strides sa = StridesOf(e.m, e.k, transpose_a), sb = StridesOf(e.k, e.n, transpose_b);
  kernels.multiply({.m = e.m,
                    .n = e.n,
                    .k = e.k,
                    .a = a.data(),
                    .a_row = sa.row,
                    .a_column = sa.column,
                    .b = b.data(),
                    .b_row = sb.row,
                    .b_column = sb.column,
                    .c = c.data(),
                    .c_row = c_row,
                    .add = add},
                   scratch.data());
  for (std::int64_t i = 0; i < e.m; ++i) {
    for (std::int64_t j = 0; j < c_row; ++j) {
      double expected = before[Size(i * c_row + j)];
      if (j < e.n) {
        if (!add) expected = 0;
        for (std::int64_t p = 0; p < e.k; ++p) {
          expected += static_cast<double>(a[Size(i * sa.row + p * sa.column)]) *
                      static_cast<double>(b[Size(p * sb.row + j * sb.column)]);
        }
      }
      ASSERT_NEAR(c[Size(i * c_row + j)], expected, 1e-4) << i << ", " << j;
    }
  }
}

// A volatile float is rounded, whatever the compiler would like to fuse.
float RoundedProduct(float a, float b) {
  const volatile float product = a * b;
  return product;
}

// Sizes below a tile, at its edges, and over a block in each extent.
TEST_P(PlainLoopsTest, ProductsOfEveryShapeAndOrder) {
  for (const Extents& e : {Extents{1, 1, 1}, Extents{6, 32, 5}, Extents{7, 33, 3},
                           Extents{13, 9, 257}, Extents{97, 10, 20}, Extents{5, 300, 12}}) {
    for (const bool transpose_a : {false, true}) {
      for (const bool transpose_b : {false, true}) {
        for (const bool add : {false, true}) {
          ExpectProduct(tested(), e, {transpose_a, transpose_b, add});
        }
      }
    }
  }
}

// Threads share out rows or columns: where they cut must not change a bit.
TEST_P(PlainLoopsTest, AnElementOfAProductDoesNotDependOnTheOthers) {
  constexpr std::int64_t kRows = 19, kColumns = 70, kDepth = 300;
  const std::vector<float> a = RandomValues(kRows * kDepth, 1),
                           b = RandomValues(kDepth * kColumns, 2);
  std::vector<float> scratch(Size(kProductScratchFloats));
  const auto multiply = [&](std::int64_t row, std::int64_t rows, std::int64_t column,
                            std::int64_t columns, std::vector<float>& c) {
    tested().multiply({.m = rows,
                       .n = columns,
                       .k = kDepth,
                       .a = a.data() + row * kDepth,
                       .a_row = kDepth,
                       .a_column = 1,
                       .b = b.data() + column,
                       .b_row = kColumns,
                       .b_column = 1,
                       .c = c.data() + row * kColumns + column,
                       .c_row = kColumns,
                       .add = false},
                      scratch.data());
  };
  std::vector<float> whole(Size(kRows * kColumns)), pieces(whole.size());
  multiply(0, kRows, 0, kColumns, whole);
  multiply(0, 8, 0, 48, pieces);
  multiply(8, kRows - 8, 0, 48, pieces);
  multiply(0, kRows, 48, kColumns - 48, pieces);
  EXPECT_EQ(pieces, whole);
}

// A pool over `inner` neighbours is `inner` pools over single floats, which no vector helps with.
struct PoolResult {
  std::vector<float> y, dx;
  std::vector<std::uint8_t> chosen;
};
PoolResult RunMaxPool(const Kernels& kernels, const WindowShape& s, const std::vector<float>& x,
                      const std::vector<float>& dy) {
  PoolResult result{std::vector<float>(dy.size(), NAN), std::vector<float>(x.size(), NAN),
                    std::vector<std::uint8_t>(dy.size())};
  kernels.max_pool(s, x.data(), result.y.data(), result.chosen.data(), 1);
  kernels.max_pool_backward(s, dy.data(), result.chosen.data(), result.dx.data(), 1);
  return result;
}
PoolResult RunAveragePool(const Kernels& kernels, const WindowShape& s, const std::vector<float>& x,
                          const std::vector<float>& dy) {
  PoolResult result{std::vector<float>(dy.size(), NAN), std::vector<float>(x.size(), NAN), {}};
  kernels.average_pool(s, x.data(), result.y.data(), 1);
  kernels.average_pool_backward(s, dy.data(), result.dx.data(), 1);
  return result;
}

// Every `inner`-th float from the `lane`-th on.
template <typename T>
std::vector<T> Lane(const std::vector<T>& values, std::int64_t inner, std::int64_t lane) {
  std::vector<T> picked;
  for (std::size_t i = Size(lane); i < values.size(); i += Size(inner)) picked.push_back(values[i]);
  return picked;
}

TEST_P(PlainLoopsTest, PoolsOverNeighboursArePoolsOverEach) {
  for (const std::int64_t inner : {4, 8, 12, 16, 32}) {
    for (const std::int64_t stride : {1, 2, 3}) {
      const WindowShape wide{.in_h = 7,
                             .in_w = 7,
                             .out_h = 7 / stride,
                             .out_w = 7 / stride,
                             .inner = inner,
                             .window_h = 2,
                             .window_w = 3,
                             .stride_h = stride,
                             .stride_w = stride,
                             .pad_h = 0,
                             .pad_w = 1,
                             .relu = true};
      WindowShape single = wide;
      single.inner = 1;
      const std::vector<float> x = RandomValues(7 * 7 * inner, 1);
      const std::vector<float> dy = RandomValues(wide.out_h * wide.out_w * inner, 2);
      const PoolResult max = RunMaxPool(tested(), wide, x, dy),
                       average = RunAveragePool(tested(), wide, x, dy);
      for (std::int64_t lane = 0; lane < inner; ++lane) {
        const auto lane_x = Lane(x, inner, lane), lane_dy = Lane(dy, inner, lane);
        const PoolResult expected = RunMaxPool(tested(), single, lane_x, lane_dy);
        EXPECT_EQ(Lane(max.y, inner, lane), expected.y) << inner << " stride " << stride;
        EXPECT_EQ(Lane(max.chosen, inner, lane), expected.chosen);
        EXPECT_EQ(Lane(max.dx, inner, lane), expected.dx);
        const PoolResult mean = RunAveragePool(tested(), single, lane_x, lane_dy);
        EXPECT_EQ(Lane(average.y, inner, lane), mean.y);
        EXPECT_EQ(Lane(average.dx, inner, lane), mean.dx);
      }
    }
  }
}

// A window's taps are numbered in two bytes where one is too few.
TEST_P(PlainLoopsTest, AWidePoolIsAPool) {
  const WindowShape s{.in_h = 8,
                      .in_w = 7,
                      .out_h = 4,
                      .out_w = 3,
                      .inner = 20,
                      .window_h = 2,
                      .window_w = 2,
                      .stride_h = 2,
                      .stride_w = 2,
                      .relu = true};
  const std::vector<float> x = RandomValues(8 * 7 * 20, 1), dy = RandomValues(4 * 3 * 20, 2);
  const PoolResult expected = RunMaxPool(tested(), s, x, dy);
  std::vector<float> y(dy.size(), NAN), dx(x.size(), NAN);
  std::vector<std::uint32_t> chosen(dy.size());
  tested().max_pool_wide(s, x.data(), y.data(), chosen.data(), 1);
  tested().max_pool_wide_backward(s, dy.data(), chosen.data(), dx.data(), 1);
  EXPECT_EQ(y, expected.y);
  EXPECT_EQ(std::vector<std::uint8_t>(chosen.begin(), chosen.end()), expected.chosen);
  EXPECT_EQ(dx, expected.dx);
}

TEST_P(PlainLoopsTest, ReluKeepsNaN) {
  std::vector<float> x = RandomValues(103, 1), y(x.size());
  for (std::size_t i = 0; i < x.size(); i += 5) x[i] = NAN;
  const std::vector<float> before = RandomValues(103, 2);
  std::vector<float> dy = before;
  tested().activate(Activation::kRelu, 0, x.data(), y.data(), 103);
  tested().mask_by_relu(y.data(), dy.data(), 103);
  for (std::size_t i = 0; i < x.size(); ++i) {
    EXPECT_EQ(std::isnan(y[i]), std::isnan(x[i])) << i;
    EXPECT_EQ(dy[i], x[i] > 0 ? before[i] : 0.0f) << i;
    if (std::isnan(x[i])) continue;
    EXPECT_EQ(y[i], std::max(x[i], 0.0f)) << i;
  }
}

TEST_P(PlainLoopsTest, AFewChannelGradientIsItsSum) {
  const std::int64_t lanes = tested().lanes;
  const FewChannelShape s{.channels = 3,
                          .kernel_h = 2,
                          .kernel_w = 9,  // more columns than registers hold at a time
                          .stride_h = 1,
                          .stride_w = 2,
                          .padded_h = 6,
                          .padded_w = 21,
                          .out_h = 5,
                          .out_w = 7,
                          .blocks = 3,
                          .block_stride = lanes,
                          .pixel_stride = 3 * lanes};
  const std::vector<float> x = RandomValues(s.channels * s.padded_h * s.padded_w, 1);
  const std::vector<float> dy = RandomValues(s.out_h * s.out_w * s.pixel_stride, 2);
  const std::int64_t taps = s.channels * s.kernel_h * s.kernel_w;
  std::vector<float> sum(Size(s.blocks * taps * lanes), 1.0f), bias(Size(s.blocks * lanes), 2.0f);
  tested().few_channel_gradient(s, x.data(), dy.data(), sum.data(), bias.data());
  for (std::int64_t k = 0; k < s.blocks * lanes; ++k) {
    std::vector<double> expected(Size(taps), 1.0);
    double expected_bias = 2;
    for (std::int64_t pixel = 0; pixel < s.out_h * s.out_w; ++pixel) {
      const std::int64_t p = pixel / s.out_w, q = pixel % s.out_w;
      const double gradient = dy[Size(pixel * s.pixel_stride + k)];
      expected_bias += gradient;
      for (std::int64_t tap = 0; tap < taps; ++tap) {
        const std::int64_t c = tap / (s.kernel_h * s.kernel_w);
        const std::int64_t r = tap / s.kernel_w % s.kernel_h, column = tap % s.kernel_w;
        const std::int64_t h = p * s.stride_h + r, w = q * s.stride_w + column;
        expected[Size(tap)] += gradient * x[Size((c * s.padded_h + h) * s.padded_w + w)];
      }
    }
    EXPECT_NEAR(bias[Size(k)], expected_bias, 1e-4);
    for (std::int64_t tap = 0; tap < taps; ++tap) {
      const std::int64_t at = (k / lanes * taps + tap) * lanes + k % lanes;
      EXPECT_NEAR(sum[Size(at)], expected[Size(tap)], 1e-4) << k << ", " << tap;
    }
  }
}

// To the bit, so that processors of other architectures apply the same update: nothing is fused.
TEST_P(PlainLoopsTest, OptimizersRoundAfterEachOperation) {
  constexpr std::int64_t kSize = 103;
  const std::vector<float> gradient = RandomValues(kSize, 1), start = RandomValues(kSize, 2);
  std::vector<float> value = start, m(start.size(), 0.1f), v(start.size(), 0.2f);
  const AdamFactors adam{.rate = 0.1f,
                         .beta1 = 0.9f,
                         .beta2 = 0.999f,
                         .epsilon = 1e-7f,
                         .decay = 0.01f,
                         .scale = 0.7f};
  tested().adam(adam, gradient.data(), value.data(), m.data(), v.data(), kSize);
  for (std::size_t i = 0; i < start.size(); ++i) {
    const float g = RoundedProduct(adam.scale, gradient[i]);
    const float mean = 0.1f + RoundedProduct(1 - adam.beta1, g - 0.1f);
    const float square = 0.2f + RoundedProduct(1 - adam.beta2, RoundedProduct(g, g) - 0.2f);
    EXPECT_EQ(m[i], mean);
    EXPECT_EQ(v[i], square);
    EXPECT_EQ(value[i], RoundedProduct(1 - adam.decay, start[i]) -
                            RoundedProduct(adam.rate, mean) / (std::sqrt(square) + adam.epsilon));
  }
  std::vector<float> moved = start, velocity(start.size(), 0.1f);
  const SgdFactors sgd{
      .rate = 0.1f, .momentum = 0.9f, .decay = 0.01f, .scale = 0.7f, .nesterov = true};
  tested().sgd(sgd, gradient.data(), moved.data(), velocity.data(), kSize);
  for (std::size_t i = 0; i < start.size(); ++i) {
    const float g = RoundedProduct(sgd.scale, gradient[i]);
    const float speed = RoundedProduct(sgd.momentum, 0.1f) - RoundedProduct(sgd.rate, g);
    EXPECT_EQ(velocity[i], speed);
    EXPECT_EQ(moved[i], RoundedProduct(1 - sgd.decay, start[i]) +
                            RoundedProduct(sgd.momentum, speed) + RoundedProduct(-sgd.rate, g));
  }
}

TEST_P(PlainLoopsTest, WhatMuonDoesBetweenItsProductsRoundsAfterEachOperation) {
  constexpr std::int64_t kSize = 103;
  const std::vector<float> gradient = RandomValues(kSize, 1), x = RandomValues(kSize, 2);
  for (const bool nesterov : {false, true}) {
    const MuonFactors muon{.momentum = 0.95f, .scale = 0.7f, .nesterov = nesterov};
    std::vector<float> m(x.size(), 0.1f), u(x.size());
    const double squares =
        tested().muon_direction(muon, gradient.data(), m.data(), u.data(), kSize);
    double of_u = 0;
    for (std::size_t i = 0; i < u.size(); ++i) {
      const float g = RoundedProduct(muon.scale, gradient[i]);
      EXPECT_EQ(m[i], RoundedProduct(muon.momentum, 0.1f) + g);
      EXPECT_EQ(u[i], nesterov ? g + RoundedProduct(muon.momentum, m[i]) : m[i]);
      of_u += static_cast<double>(u[i]) * u[i];
    }
    EXPECT_NEAR(squares, of_u, 1e-12);
  }
  std::vector<float> divided = x, combined = gradient;
  tested().divide(3, divided.data(), kSize);
  tested().combine(-4.775f, x.data(), 0.99f, combined.data(), kSize);
  for (std::size_t i = 0; i < x.size(); ++i) {
    EXPECT_EQ(divided[i], x[i] / 3);
    EXPECT_EQ(combined[i], RoundedProduct(-4.775f, x[i]) + RoundedProduct(0.99f, gradient[i]));
  }
}

TEST_P(PlainLoopsTest, OptimizersWithTrustsRoundAfterEachOperation) {
  constexpr std::int64_t kSize = 103;
  const std::vector<float> gradient = RandomValues(kSize, 1), start = RandomValues(kSize, 2);
  const LarsFactors lars{
      .rate = 0.1f, .momentum = 0.9f, .decay = 0.01f, .scale = 0.7f, .nesterov = true};
  std::vector<float> value = start, velocity(start.size(), 0.1f);
  double of_values = 0, of_gradients = 0;
  for (std::size_t i = 0; i < start.size(); ++i) {
    const double g = RoundedProduct(lars.scale, gradient[i]);
    of_values += static_cast<double>(start[i]) * start[i];
    of_gradients += g * g;
  }
  const TrustSquares squares = tested().lars_squares(lars, gradient.data(), start.data(), kSize);
  EXPECT_NEAR(squares.values, of_values, 1e-12);
  EXPECT_NEAR(squares.update, of_gradients, 1e-12);
  tested().lars(lars, gradient.data(), value.data(), velocity.data(), kSize);
  std::vector<float> moved = start, m(start.size(), 0.1f), v(start.size(), 0.2f);
  const LambFactors lamb{.rate = 0.1f,
                         .beta1 = 0.9f,
                         .beta2 = 0.999f,
                         .epsilon = 1e-7f,
                         .m_correction = 5,
                         .v_correction = 30,
                         .decay = 0.01f,
                         .scale = 0.7f};
  const TrustSquares of_lamb =
      tested().lamb_moments(lamb, gradient.data(), moved.data(), m.data(), v.data(), kSize);
  EXPECT_EQ(moved, start) << "it is measured first";
  tested().lamb(lamb, m.data(), v.data(), moved.data(), kSize);
  double of_updates = 0;
  for (std::size_t i = 0; i < start.size(); ++i) {
    const float g = RoundedProduct(lars.scale, gradient[i]) + RoundedProduct(lars.decay, start[i]);
    const float speed = RoundedProduct(lars.momentum, 0.1f) - RoundedProduct(lars.rate, g);
    EXPECT_EQ(velocity[i], speed);
    EXPECT_EQ(value[i],
              start[i] + RoundedProduct(lars.momentum, speed) + RoundedProduct(-lars.rate, g));
    const float mean =
        0.1f + RoundedProduct(1 - lamb.beta1, RoundedProduct(lamb.scale, gradient[i]) - 0.1f);
    EXPECT_EQ(m[i], mean);
    const float update =
        RoundedProduct(5, mean) / (std::sqrt(RoundedProduct(30, v[i])) + lamb.epsilon) +
        RoundedProduct(lamb.decay, start[i]);
    EXPECT_EQ(moved[i], start[i] - RoundedProduct(lamb.rate, update));
    of_updates += static_cast<double>(update) * update;
  }
  EXPECT_NEAR(of_lamb.values, of_values, 1e-12);
  EXPECT_NEAR(of_lamb.update, of_updates, 1e-12 * of_updates);
}

TEST_P(PlainLoopsTest, OptimizersOfSquaresRoundAfterEachOperation) {
  constexpr std::int64_t kSize = 103;
  const std::vector<float> gradient = RandomValues(kSize, 1), start = RandomValues(kSize, 2);
  std::vector<float> value = start, squares(start.size(), 0.2f), velocity(start.size(), 0.1f);
  const RmspropFactors rmsprop{
      .rate = 0.1f, .rho = 0.9f, .epsilon = 1e-7f, .momentum = 0.8f, .decay = 0.01f, .scale = 0.7f};
  tested().rmsprop(rmsprop, gradient.data(), value.data(), squares.data(), velocity.data(), kSize);
  for (std::size_t i = 0; i < start.size(); ++i) {
    const float g = RoundedProduct(rmsprop.scale, gradient[i]);
    const float square = 0.2f + RoundedProduct(1 - rmsprop.rho, RoundedProduct(g, g) - 0.2f);
    const float speed = RoundedProduct(rmsprop.momentum, 0.1f) +
                        RoundedProduct(rmsprop.rate, g) / std::sqrt(square + rmsprop.epsilon);
    EXPECT_EQ(squares[i], square);
    EXPECT_EQ(velocity[i], speed);
    EXPECT_EQ(value[i], RoundedProduct(1 - rmsprop.decay, start[i]) - speed);
  }
  std::vector<float> moved = start, sums(start.size(), 0.1f);
  const AdagradFactors adagrad{.rate = 0.1f, .epsilon = 1e-7f, .decay = 0.01f, .scale = 0.7f};
  tested().adagrad(adagrad, gradient.data(), moved.data(), sums.data(), kSize);
  for (std::size_t i = 0; i < start.size(); ++i) {
    const float g = RoundedProduct(adagrad.scale, gradient[i]);
    const float sum = 0.1f + RoundedProduct(g, g);
    EXPECT_EQ(sums[i], sum);
    EXPECT_EQ(moved[i], RoundedProduct(1 - adagrad.decay, start[i]) -
                            RoundedProduct(adagrad.rate, g) / std::sqrt(sum + adagrad.epsilon));
  }
}

INSTANTIATE_TEST_SUITE_P(InstructionSets, PlainLoopsTest, AllIsas(), NameOfIsa);

}  // namespace
}  // namespace lockstep::train::cpu
