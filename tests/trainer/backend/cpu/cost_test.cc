#include "trainer/backend/cpu/device/cost.h"

#include <gtest/gtest.h>

namespace lockstep::train::cpu {
namespace {

constexpr double kOperations = 1e9;

TEST(CostTest, PlainLoopsAreToldByTheirName) {
  for (const char* name : {"ref:any", "ref_int8:any"}) {
    EXPECT_TRUE(IsReference(name)) << name;
  }
  for (const char* name : {"jit:avx2", "x64:gemm:jit", "brgemm:avx512_core", "lockstep:baseline",
                           "gemm:ref", "brg_fwd:avx2+brgconv:avx2"}) {
    EXPECT_FALSE(IsReference(name)) << name;
  }
}

TEST(CostTest, AnythingIsCheaperThanAPlainLoop) {
  for (const Isa isa : {Isa::kBaseline, Isa::kAvx2, Isa::kAvx512}) {
    for (const char* name : {"x64:gemm:jit", "jit:sse41", "lockstep:baseline", "unheard_of"}) {
      EXPECT_LT(ConvolutionSeconds(kOperations, name, isa) * 50,
                ConvolutionSeconds(kOperations, "ref:any", isa))
          << name;
      EXPECT_LT(ConvolutionSeconds(100, name, isa) + CopySeconds(1 << 30),
                ConvolutionSeconds(100, "ref:any", isa))
          << name << ", however small the convolution and large the copies";
    }
  }
}

TEST(CostTest, WiderInstructionsAreCheaper) {
  const double avx512 = ConvolutionSeconds(kOperations, "jit:avx512_core", Isa::kAvx512);
  const double avx2 = ConvolutionSeconds(kOperations, "jit:avx2", Isa::kAvx512);
  const double sse = ConvolutionSeconds(kOperations, "jit:sse41", Isa::kAvx512);
  EXPECT_LT(avx512, avx2);
  EXPECT_LT(avx2, sse);
  EXPECT_LT(ConvolutionSeconds(kOperations, "x64:gemm:jit", Isa::kAvx2),
            ConvolutionSeconds(kOperations, "x64:gemm:jit", Isa::kBaseline));
}

WinogradWork Work(double tiles, double channels, double threads) {
  return {.in_channels = channels,
          .out_channels = channels,
          .tiles = tiles,
          .rows = 12,
          .pieces = channels / 16,
          .blocks = 1,
          .threads = threads,
          .gradient = false};
}

TEST(CostTest, WinogradIsForManyTiles) {
  const auto winograd = [](double tiles, double channels, double threads) {
    return WinogradSeconds(Work(tiles, channels, threads), Isa::kAvx2);
  };
  const auto plain = [](double operations) {
    return ConvolutionSeconds(operations, "jit:avx2", Isa::kAvx2);
  };
  // 3x3 kernels on 56x56 and on 7x7 images; the weight is transformed for each batch, however
  // small.
  EXPECT_LT(winograd(32 * 196, 64, 2), plain(32.0 * 2 * 56 * 56 * 9 * 64 * 64));
  EXPECT_LT(winograd(32 * 4, 512, 2), plain(32.0 * 2 * 49 * 9 * 512 * 512));
  EXPECT_GT(winograd(8 * 4, 512, 2), plain(8.0 * 2 * 49 * 9 * 512 * 512));
  // Many threads have few tiles each, and all read the whole weight.
  EXPECT_GT(winograd(32 * 4, 512, 16), plain(32.0 * 2 * 49 * 9 * 512 * 512));
  EXPECT_LT(winograd(32 * 196, 64, 16), plain(32.0 * 2 * 56 * 56 * 9 * 64 * 64));
  WinogradWork gradient = Work(1000, 64, 2);
  gradient.gradient = true;
  EXPECT_GT(WinogradSeconds(gradient, Isa::kAvx2), winograd(1000, 64, 2));
}

// The tiles are transformed for each; two blocks that stay near may still be read faster than one.
TEST(CostTest, BlocksOfAWeightCost) {
  WinogradWork blocks = Work(1000, 512, 2);
  const double whole = WinogradSeconds(blocks, Isa::kAvx2);
  blocks.blocks = 3;
  EXPECT_GT(WinogradSeconds(blocks, Isa::kAvx2), whole);
}

TEST(CostTest, CostsGrowWithTheWork) {
  EXPECT_DOUBLE_EQ(ConvolutionSeconds(2e9, "jit:avx2", Isa::kAvx2),
                   2 * ConvolutionSeconds(1e9, "jit:avx2", Isa::kAvx2));
  EXPECT_DOUBLE_EQ(CopySeconds(2000), 2 * CopySeconds(1000));
  EXPECT_GT(PassSeconds(1000, /*vectors=*/false), PassSeconds(1000, /*vectors=*/true));
}

}  // namespace
}  // namespace lockstep::train::cpu
