// For architectures with only one instruction set, the compiler's default: NEON on 64-bit ARM.
#include "trainer/backend/cpu/kernels/kernels.h"

namespace lockstep::train::cpu {

const char* MissingForBaseline() {
  return "";
}

Isa BestIsa() {
  return Isa::kBaseline;
}

const Kernels& KernelsFor(Isa /*isa*/) {
  return baseline::Table();
}

}  // namespace lockstep::train::cpu
