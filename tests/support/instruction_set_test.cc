// Part of every test program that CTest repeats for each instruction set (lockstep_test_each_isa):
// checks that our kernels, and not only oneDNN's, use the set of the repetition.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <string>

#include "trainer/backend/backend.h"
#include "trainer/backend/cpu/device/device.h"

namespace lockstep::train::cpu {
namespace {

TEST(InstructionSetTest, TheKernelsAreThoseOfTheSetThatIsAskedFor) {
  const std::map<std::string, Isa> sets = {{"", Isa::kAvx512},
                                           {"AVX512_CORE", Isa::kAvx512},
                                           {"AVX2", Isa::kAvx2},
                                           {"SSE41", Isa::kBaseline}};
  const char* asked = std::getenv("ONEDNN_MAX_CPU_ISA");
  const auto set = sets.find(asked == nullptr ? "" : asked);
  ASSERT_NE(set, sets.end()) << "ONEDNN_MAX_CPU_ISA is '" << asked << "'";
  const Isa expected = std::min(set->second, BestIsa());
  EXPECT_EQ(MakeBackend({.name = "cpu"})->Device(), std::string("cpu:") + NameOf(expected));
  EXPECT_EQ(&Device(1).kernels, &KernelsFor(expected));
}

}  // namespace
}  // namespace lockstep::train::cpu
