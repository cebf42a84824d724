#include "trainer/backend/cpu/cost.h"

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

TEST(CostTest, WinogradIsForManyChannels) {
  // 5x5 kernels on 14x14 images: 49 tiles each, 2 * 196 * 25 operations for each pair of channels.
  const auto plain = [](double in, double out) {
    return ConvolutionSeconds(128 * 2 * 196 * 25 * in * out, "jit:avx2", Isa::kAvx2);
  };
  EXPECT_LT(WinogradSeconds(128 * 49, 32, 64, Isa::kAvx2), plain(32, 64));
  // 3x3 kernels on 7x7 images, of which a tile of 4x4 covers much that is not there.
  EXPECT_GT(WinogradSeconds(128 * 4, 8, 8, Isa::kAvx2),
            ConvolutionSeconds(128 * 2 * 49 * 9 * 8 * 8, "jit:avx2", Isa::kAvx2));
}

TEST(CostTest, CostsGrowWithTheWork) {
  EXPECT_DOUBLE_EQ(ConvolutionSeconds(2e9, "jit:avx2", Isa::kAvx2),
                   2 * ConvolutionSeconds(1e9, "jit:avx2", Isa::kAvx2));
  EXPECT_DOUBLE_EQ(CopySeconds(2000), 2 * CopySeconds(1000));
  EXPECT_GT(PassSeconds(1000, /*vectors=*/false), PassSeconds(1000, /*vectors=*/true));
}

}  // namespace
}  // namespace lockstep::train::cpu
