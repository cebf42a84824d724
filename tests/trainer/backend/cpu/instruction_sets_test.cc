// ONEDNN_MAX_CPU_ISA as a user writes it. Each case is a process of its own, since oneDNN reads the
// variable once.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "trainer/backend/cpu/device/device.h"

namespace lockstep::train::cpu {
namespace {

// Asks twice, as two back ends would, and ends with the instruction set as exit code.
[[noreturn]] void AskTwice(const char* variable, const char* value) {
  unsetenv("ONEDNN_MAX_CPU_ISA");
  unsetenv("DNNL_MAX_CPU_ISA");
  setenv(variable, value, 1);
  EffectiveIsa();
  std::exit(static_cast<int>(EffectiveIsa()));
}

class MaxCpuIsaTest : public ::testing::Test {
 protected:
  MaxCpuIsaTest() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }

  static auto Ends(Isa isa) { return ::testing::ExitedWithCode(static_cast<int>(isa)); }
};

// How often a text names oneDNN, which the warning does once.
MATCHER(WarnsOnce, "") {
  const std::size_t first = arg.find("oneDNN ignores it");
  return first != std::string::npos &&
         arg.find("oneDNN ignores it", first + 1) == std::string::npos;
}

TEST_F(MaxCpuIsaTest, AnUnknownNameIsToldOnceAndIgnored) {
  for (const char* value : {"AVX-2", "SSE4.1", "AVX2 ", "AVX512"}) {
    EXPECT_EXIT(
        AskTwice("ONEDNN_MAX_CPU_ISA", value), Ends(BestIsa()),
        ::testing::AllOf(WarnsOnce(), ::testing::HasSubstr("\"warning\""),
                         ::testing::HasSubstr(std::string("ONEDNN_MAX_CPU_ISA is '") + value +
                                              "', expected one of SSE41, AVX, AVX2, ")));
  }
  EXPECT_EXIT(AskTwice("DNNL_MAX_CPU_ISA", "AVX-2"), Ends(BestIsa()),
              ::testing::HasSubstr("DNNL_MAX_CPU_ISA is 'AVX-2', expected one of "));
}

TEST_F(MaxCpuIsaTest, AKnownNameIsObeyedInSilence) {
  const auto silent = ::testing::Not(::testing::HasSubstr("MAX_CPU_ISA"));
  for (const char* variable : {"ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA"}) {
    EXPECT_EXIT(AskTwice(variable, "sse41"), Ends(Isa::kBaseline), silent);
    EXPECT_EXIT(AskTwice(variable, "AVX2"), Ends(std::min(Isa::kAvx2, BestIsa())), silent);
    EXPECT_EXIT(AskTwice(variable, "AVX512_CORE_AMX"), Ends(BestIsa()), silent);
    EXPECT_EXIT(AskTwice(variable, "default"), Ends(BestIsa()), silent);
    EXPECT_EXIT(AskTwice(variable, ""), Ends(BestIsa()), silent);
  }
}

}  // namespace
}  // namespace lockstep::train::cpu
