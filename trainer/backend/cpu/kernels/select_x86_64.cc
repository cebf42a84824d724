#include "trainer/backend/cpu/kernels/kernels.h"

namespace lockstep::train::cpu {

const char* MissingForBaseline() {
  return __builtin_cpu_supports("sse4.1") ? "" : "SSE4.1";
}

Isa BestIsa() {
  if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512dq")) {
    return Isa::kAvx512;
  }
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? Isa::kAvx2
                                                                         : Isa::kBaseline;
}

const Kernels& KernelsFor(Isa isa) {
  switch (isa) {
    case Isa::kAvx512:
      return avx512::Table();
    case Isa::kAvx2:
      return avx2::Table();
    case Isa::kBaseline:
      break;
  }
  return baseline::Table();
}

}  // namespace lockstep::train::cpu
