// A test of kernels, repeated with those of every instruction set that this machine has.
#pragma once

#include <gtest/gtest.h>

#include "trainer/backend/cpu/kernels/kernels.h"

namespace lockstep::train::cpu {

class EachIsa : public ::testing::TestWithParam<Isa> {
 protected:
  void SetUp() override {
    if (GetParam() > BestIsa()) GTEST_SKIP() << "this machine has not these instructions";
  }
  const Kernels& tested() const { return KernelsFor(GetParam()); }
};

inline auto AllIsas() {
  return ::testing::Values(Isa::kBaseline, Isa::kAvx2, Isa::kAvx512);
}
inline const char* NameOfIsa(const ::testing::TestParamInfo<Isa>& isa) {
  return NameOf(isa.param);
}

}  // namespace lockstep::train::cpu
