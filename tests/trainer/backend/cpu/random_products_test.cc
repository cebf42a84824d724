// Convolutions and dense layers of random shapes against `reference`: libraries have faults in
// shapes that nobody thinks of. CTest repeats them as processors without AVX-512 and without AVX.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "tests/trainer/backend/expect_oracle.h"
#include "trainer/backend/cpu/device/memory_desc.h"
#include "trainer/check/op_cases.h"
#include "trainer/check/oracle_run.h"
#include "trainer/check/run_op.h"

namespace lockstep::train {
namespace {

// The same on every machine, unlike the library's distributions.
class Draws {
 public:
  explicit Draws(std::uint64_t seed) : next_(seed) {}
  std::int64_t From(std::int64_t least, std::int64_t most) {
    return least +
           static_cast<std::int64_t>(next_() % static_cast<std::uint64_t>(most - least + 1));
  }
  bool OneIn(std::int64_t count) { return From(1, count) == 1; }

 private:
  std::mt19937_64 next_;
};

// Vectors and blocks have 4 to 16 channels: often fewer, or none left over.
std::int64_t DrawChannels(Draws& draws) {
  return draws.OneIn(2) ? draws.From(1, 20) : 16 * draws.From(1, 3);
}

// Small ones have the most edges, and only large ones are shared out among threads.
Shape DrawImage(Draws& draws) {
  const std::int64_t rows = draws.From(1, 16), channels = DrawChannels(draws);
  const std::int64_t most = draws.OneIn(3) ? 3 : draws.OneIn(2) ? 12 : 40;
  return {rows, channels, draws.From(1, most), draws.From(1, most)};
}

// Fills in what convolutions have in common.
template <typename Spec>
void DrawWindow(Draws& draws, Spec& spec) {
  const std::int64_t most = draws.OneIn(3) ? 1 : 7;
  spec.kernel_h = draws.From(1, most);
  spec.kernel_w = draws.OneIn(2) ? spec.kernel_h : draws.From(1, most);
  spec.stride_h = draws.From(1, 3);
  spec.stride_w = draws.OneIn(2) ? spec.stride_h : draws.From(1, 3);
  spec.padding = draws.OneIn(3) ? Padding::kValid : Padding::kSame;
  spec.bias = draws.OneIn(2);
  if (spec.padding == Padding::kSame) return;
  const auto zeros = [&draws](std::int64_t kernel) { return draws.From(0, kernel - 1); };
  spec.zeros = {zeros(spec.kernel_h), zeros(spec.kernel_h), zeros(spec.kernel_w),
                zeros(spec.kernel_w)};
}

template <typename Spec>
std::string NameOfWindow(const Spec& spec) {
  const Edges& zeros = spec.zeros;
  return fmt::format("{}x{}, strides {}x{}, {}, zeros {} {} {} {}, bias {}", spec.kernel_h,
                     spec.kernel_w, spec.stride_h, spec.stride_w,
                     spec.padding == Padding::kSame ? "same" : "valid", zeros.top, zeros.bottom,
                     zeros.left, zeros.right, spec.bias);
}

// Returns nullopt for a kernel larger than the padded image.
template <typename Spec>
std::optional<OpCase> CaseOfWindow(const std::string& name, const Shape& x, const Spec& spec) {
  const Edges& zeros = spec.zeros;
  const bool fits =
      spec.padding == Padding::kSame || (x[2] + zeros.top + zeros.bottom >= spec.kernel_h &&
                                         x[3] + zeros.left + zeros.right >= spec.kernel_w);
  if (!fits) return std::nullopt;
  return CaseOf(fmt::format("{}, {} on {}", name, NameOfWindow(spec), x.ToString()), x, spec);
}

std::optional<OpCase> DrawAnyCase(Draws& draws) {
  const Shape x = DrawImage(draws);
  const std::int64_t kind = draws.From(1, 8);
  if (kind == 1) {
    const DenseSpec spec{.units = DrawChannels(draws), .bias = draws.OneIn(2)};
    return CaseOf(fmt::format("dense {} on {}", spec.units, x.ToString()), x, spec);
  }
  if (kind == 2) {
    DepthwiseConv2dSpec spec{.depth_multiplier = draws.From(1, 2)};
    DrawWindow(draws, spec);
    return CaseOfWindow(fmt::format("depthwise {}", spec.depth_multiplier), x, spec);
  }
  Conv2dSpec spec{.filters = DrawChannels(draws)};
  DrawWindow(draws, spec);
  return CaseOfWindow(fmt::format("conv {}", spec.filters), x, spec);
}

// Draws a case of so few products that `reference` needs milliseconds.
OpCase DrawCase(Draws& draws) {
  constexpr std::int64_t kMostProducts = 1'000'000;
  const auto oracle = MakeBackend({.name = "reference"});
  while (true) {
    const std::optional<OpCase> drawn = DrawAnyCase(draws);
    if (!drawn) continue;
    const auto op = drawn->Make(*oracle, {.shape = drawn->x});
    const Shape weight = op->Parameters()[0].desc.shape, y = op->output().shape;
    if (y.elements() / y[1] * weight.elements() <= kMostProducts) return *drawn;
  }
}

TensorDesc DrawOrder(Draws& draws, Backend& backend, const Shape& x, DType type) {
  if (draws.OneIn(3)) return NativeDesc(backend, x, type);
  TensorDesc desc{.shape = x, .dtype = type};
  if (draws.OneIn(2)) {
    using dnnl::memory;
    const auto float32 = memory::data_type::f32;
    desc.layout = cpu::TensorOf(x, {x.dims(), float32, memory::format_tag::nhwc}).layout;
  }
  return desc;
}

struct TypeCase {
  DType type;
  InputNumbers numbers;
  float tolerance;  // the sums of some thousand products, or a rounding of each factor and the sum
};

class RandomProductsTest : public ::testing::TestWithParam<TypeCase> {};

TEST_P(RandomProductsTest, MatchReference) {
  constexpr int kCases = 200;
  const auto& [type, numbers, tolerance] = GetParam();
  std::vector<std::unique_ptr<Backend>> backends;
  for (const int threads : {1, 2, 3}) {
    backends.push_back(MakeBackend({.name = "cpu", .threads = threads}));
  }
  Draws draws(5);  // finds two faults of oneDNN 3.2, where they are not kept out
  for (int i = 0; i < kCases && !HasFailure(); ++i) {
    const OpCase op_case = DrawCase(draws);
    const OracleRun run = AskOracle(op_case, numbers);
    Backend& backend = *backends[static_cast<std::size_t>(i) % backends.size()];
    const TensorDesc x = DrawOrder(draws, backend, op_case.x, type);
    const auto op = op_case.Make(backend, x);
    std::string chosen;
    for (const OpChoice& each : op->Choices()) chosen += "; " + each.implementation;
    SCOPED_TRACE(fmt::format("case {}, {} threads, {}{}", i, 1 + i % 3, op_case.name, chosen));
    ExpectTraining(RunOp(backend, *op, run.inputs, run.step), run, tolerance);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Types, RandomProductsTest,
    ::testing::Values(TypeCase{DType::kFloat32, InputNumbers::kFloat32, 1e-4f},
                      TypeCase{DType::kBFloat16, InputNumbers::kShort, 0x1p-6f},
                      TypeCase{DType::kFloat16, InputNumbers::kFloat16, 0x1p-9f}),
    [](const auto& each) { return std::string(DTypeName(each.param.type)); });

}  // namespace
}  // namespace lockstep::train
