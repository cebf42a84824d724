#include "trainer/backend/cpu/onednn.h"

namespace lockstep::train::cpu {

// oneDNN's own choice, so that ONEDNN_MAX_CPU_ISA limits both.
Isa EffectiveIsa() {
  const auto isa = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
  const auto covers = [isa](dnnl::cpu_isa wanted) {
    return (isa & static_cast<unsigned>(wanted)) == static_cast<unsigned>(wanted);
  };
  if (covers(dnnl::cpu_isa::avx512_core)) return Isa::kAvx512;
  return covers(dnnl::cpu_isa::avx2) ? Isa::kAvx2 : Isa::kBaseline;
}

std::shared_ptr<Onednn> MakeOnednn() {
  return std::make_shared<Onednn>();
}

}  // namespace lockstep::train::cpu
