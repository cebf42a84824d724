// The kernels of every instruction set that this machine has against those of the
// baseline, on sizes with tails. (backend_test compares whole ops with `reference`.)
#include "trainer/backend/cpu/kernels/kernels.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "tests/trainer/backend/cpu/each_isa.h"
#include "trainer/backend/activation_names.h"
#include "trainer/check/run_op.h"

namespace lockstep::train::cpu {
namespace {

constexpr std::int64_t kElements = 1037;

class KernelsTest : public EachIsa {
 protected:
  static const Kernels& plain() { return KernelsFor(Isa::kBaseline); }
};

void ExpectNear(const std::vector<float>& found, const std::vector<float>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    ASSERT_NEAR(found[i], expected[i], 1e-6f) << "at " << i;
  }
}

// Within 4e-7 of the value, or of 1 where that is smaller.
void ExpectAccurate(const std::vector<float>& found, const std::vector<float>& expected,
                    const std::string& what) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    ASSERT_NEAR(found[i], expected[i], 4e-7f * std::max(1.0f, std::abs(expected[i])))
        << what << " at " << i;
  }
}

OpOutputs OnReference(Activation activation, const std::vector<float>& x,
                      const std::vector<float>& dy) {
  const auto backend = MakeBackend({.name = "reference"});
  const auto op = backend->MakeOp(ActivationSpec{
      .x = {.shape = {1, static_cast<std::int64_t>(x.size())}}, .activation = activation});
  return RunOp(*backend, *op, {.x = x, .dy = dy}, {.training = true, .valid = 1});
}

WindowShape Pool(std::int64_t in, std::int64_t out, std::int64_t inner, std::int64_t window,
                 std::int64_t stride, std::int64_t pad) {
  return {.in_h = in,
          .in_w = in,
          .out_h = out,
          .out_w = out,
          .inner = inner,
          .window_h = window,
          .window_w = window,
          .stride_h = stride,
          .stride_w = stride,
          .pad_h = pad,
          .pad_w = pad,
          .relu = true};
}

struct PoolRun {
  std::vector<float> y, dx;
  std::vector<std::uint8_t> chosen;
};

PoolRun RunMaxPool(const Kernels& kernels, const WindowShape& s) {
  constexpr std::int64_t kPlanes = 3;
  const auto out = static_cast<std::size_t>(kPlanes * s.out_h * s.out_w * s.inner);
  const std::int64_t in = kPlanes * s.in_h * s.in_w * s.inner;
  const std::vector<float> x = RandomValues(in, 1);
  const std::vector<float> dy = RandomValues(static_cast<std::int64_t>(out), 2);
  PoolRun run{.y = std::vector<float>(out, NAN),
              .dx = std::vector<float>(x.size(), NAN),
              .chosen = std::vector<std::uint8_t>(out)};
  kernels.max_pool(s, x.data(), run.y.data(), run.chosen.data(), kPlanes);
  kernels.max_pool_backward(s, dy.data(), run.chosen.data(), run.dx.data(), kPlanes);
  return run;
}

TEST_P(KernelsTest, MaxPoolsAgreeInEveryWidthOfChannels) {
  for (const std::int64_t inner : {1, 5, 8, 16, 24, 32}) {
    for (const WindowShape& shape :
         {Pool(8, 4, inner, 2, 2, 0), Pool(9, 4, inner, 2, 2, 0), Pool(7, 4, inner, 3, 2, 1),
          Pool(6, 5, inner, 2, 1, 0), Pool(10, 3, inner, 2, 4, 0)}) {
      const PoolRun found = RunMaxPool(tested(), shape), expected = RunMaxPool(plain(), shape);
      EXPECT_EQ(found.y, expected.y) << inner;
      EXPECT_EQ(found.chosen, expected.chosen) << inner;
      ExpectNear(found.dx, expected.dx);
    }
  }
}

TEST_P(KernelsTest, AMaxPoolTakesAndKeepsNaN) {
  for (const std::size_t at : {0, 1, 2, 3}) {
    std::vector<float> x(4 * 16, -1.0f), y(16);
    std::vector<std::uint8_t> chosen(16);
    x[at * 16 + 7] = NAN;
    WindowShape shape = Pool(2, 1, 16, 2, 2, 0);
    tested().max_pool(shape, x.data(), y.data(), chosen.data(), 1);
    EXPECT_TRUE(std::isnan(y[7])) << "NaN at tap " << at;
    EXPECT_EQ(y[6], 0.0f);
    EXPECT_EQ(chosen[6], 4) << "relu lets no gradient through";
  }
}

TEST_P(KernelsTest, ElementwiseLoopsAgree) {
  const std::vector<float> x = RandomValues(kElements, 1), dy = RandomValues(kElements, 2);
  std::vector<float> found(x.size()), expected(x.size());
  found = expected = dy;
  tested().mask_by_relu(x.data(), found.data(), kElements);
  plain().mask_by_relu(x.data(), expected.data(), kElements);
  EXPECT_EQ(found, expected);
}

// To the bit, and everywhere within a few units of the last place of what double gives.
TEST_P(KernelsTest, ActivationsAgreeAndAreAccurate) {
  std::vector<float> x = RandomValues(kElements, 1);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] *= i % 3 == 0 ? 100.0f : 5.0f;
  x[0] = 0;
  x[1] = -1e30f;
  x[2] = 1e30f;
  x[3] = 1e-20f;
  const std::vector<float> ones(x.size(), 1.0f);
  for (const NamedActivation& entry : kActivations) {
    std::vector<float> found(x.size()), expected(x.size());
    tested().activate(entry.activation, kLeakyReluSlope, x.data(), found.data(), kElements);
    plain().activate(entry.activation, kLeakyReluSlope, x.data(), expected.data(), kElements);
    EXPECT_EQ(found, expected) << entry.name;
    const auto reference = OnReference(entry.activation, x, ones);
    ExpectAccurate(found, reference.y, std::string(entry.name));
    tested().activate_backward(entry.activation, kLeakyReluSlope, x.data(), ones.data(),
                               found.data(), kElements);
    plain().activate_backward(entry.activation, kLeakyReluSlope, x.data(), ones.data(),
                              expected.data(), kElements);
    EXPECT_EQ(found, expected) << entry.name;
    ExpectAccurate(found, reference.dx, std::string(entry.name) + "'");
  }
}

TEST_P(KernelsTest, ActivationsKeepNaN) {
  for (const NamedActivation& entry : kActivations) {
    std::vector<float> x(37, 1.0f), y(x.size());
    x[0] = x[20] = x[36] = NAN;
    tested().activate(entry.activation, kLeakyReluSlope, x.data(), y.data(), 37);
    for (std::size_t i = 0; i < x.size(); ++i) {
      EXPECT_EQ(std::isnan(y[i]), std::isnan(x[i])) << entry.name << " at " << i;
    }
  }
}

TEST_P(KernelsTest, BytesOfEveryValueAreScaled) {
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(kElements));
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::uint8_t>(i);
  std::vector<float> found(bytes.size());
  tested().scale_bytes(bytes.data(), found.data(), kElements, 120.3f, 0.017f);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    EXPECT_EQ(found[i], (static_cast<float>(bytes[i]) - 120.3f) * 0.017f);
  }
}

// To the bit: replicas on different processors apply the same update to the same parameters.
TEST_P(KernelsTest, OptimizersAgree) {
  constexpr int kSteps = 5;
  using State = std::vector<std::vector<float>>;
  const auto run = [](const auto& step) {
    State state = {RandomValues(kElements, 2), std::vector<float>(kElements, 0.1f),
                   std::vector<float>(kElements, 0.2f)};
    for (std::uint64_t i = 0; i < kSteps; ++i) step(RandomValues(kElements, 10 + i), state);
    return state;
  };
  const auto adam = [](const Kernels& kernels) {
    return [&kernels](const std::vector<float>& gradient, State& state) {
      kernels.adam({.rate = 0.1f,
                    .beta1 = 0.9f,
                    .beta2 = 0.999f,
                    .epsilon = 1e-7f,
                    .decay = 0.01f,
                    .scale = 0.7f},
                   gradient.data(), state[0].data(), state[1].data(), state[2].data(), kElements);
    };
  };
  EXPECT_EQ(run(adam(tested())), run(adam(plain())));
  for (const float momentum : {0.0f, 0.9f}) {
    for (const bool nesterov : {false, true}) {
      const auto sgd = [&](const Kernels& kernels) {
        return [&](const std::vector<float>& gradient, State& state) {
          kernels.sgd({.rate = 0.1f,
                       .momentum = momentum,
                       .decay = 0.01f,
                       .scale = 0.7f,
                       .nesterov = nesterov},
                      gradient.data(), state[0].data(), momentum == 0 ? nullptr : state[1].data(),
                      kElements);
        };
      };
      EXPECT_EQ(run(sgd(tested())), run(sgd(plain())));
    }
  }
  for (const float momentum : {0.0f, 0.9f}) {
    const auto rmsprop = [&](const Kernels& kernels) {
      return [&](const std::vector<float>& gradient, State& state) {
        kernels.rmsprop({.rate = 0.1f,
                         .rho = 0.9f,
                         .epsilon = 1e-7f,
                         .momentum = momentum,
                         .decay = 0.01f,
                         .scale = 0.7f},
                        gradient.data(), state[0].data(), state[1].data(),
                        momentum == 0 ? nullptr : state[2].data(), kElements);
      };
    };
    EXPECT_EQ(run(rmsprop(tested())), run(rmsprop(plain())));
  }
  const auto adagrad = [](const Kernels& kernels) {
    return [&kernels](const std::vector<float>& gradient, State& state) {
      kernels.adagrad({.rate = 0.1f, .epsilon = 1e-7f, .decay = 0.01f, .scale = 0.7f},
                      gradient.data(), state[0].data(), state[1].data(), kElements);
    };
  };
  EXPECT_EQ(run(adagrad(tested())), run(adagrad(plain())));
}

INSTANTIATE_TEST_SUITE_P(InstructionSets, KernelsTest, AllIsas(), NameOfIsa);

}  // namespace
}  // namespace lockstep::train::cpu
