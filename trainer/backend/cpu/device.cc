#include "trainer/backend/cpu/device.h"

#include <omp.h>

namespace lockstep::train::cpu {
namespace {

// oneDNN's own choice, so that ONEDNN_MAX_CPU_ISA limits both.
Isa EffectiveIsa() {
  const auto isa = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
  const auto covers = [isa](dnnl::cpu_isa wanted) {
    return (isa & static_cast<unsigned>(wanted)) == static_cast<unsigned>(wanted);
  };
  if (covers(dnnl::cpu_isa::avx512_core)) return Isa::kAvx512;
  return covers(dnnl::cpu_isa::avx2) ? Isa::kAvx2 : Isa::kBaseline;
}

}  // namespace

Device::Device(int thread_count)
    : threads(thread_count),
      isa(EffectiveIsa()),
      engine(dnnl::engine::kind::cpu, 0),
      stream(engine),
      kernels(KernelsFor(isa)) {}

void Device::Enter() const {
  if (omp_get_max_threads() != threads) omp_set_num_threads(threads);
}

}  // namespace lockstep::train::cpu
