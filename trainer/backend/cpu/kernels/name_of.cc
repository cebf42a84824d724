#include "trainer/backend/cpu/kernels/kernels.h"

namespace lockstep::train::cpu {

const char* NameOf(Isa isa) {
  switch (isa) {
    case Isa::kAvx512:
      return "avx512";
    case Isa::kAvx2:
      return "avx2";
    case Isa::kBaseline:
      break;
  }
  return "baseline";
}

}  // namespace lockstep::train::cpu
