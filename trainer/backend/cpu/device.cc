#include "trainer/backend/cpu/device.h"

#include <omp.h>

namespace lockstep::train::cpu {

Device::Device(int thread_count)
    : threads(thread_count), isa(EffectiveIsa()), kernels(KernelsFor(isa)), onednn(MakeOnednn()) {}

void Device::Enter() const {
  if (omp_get_max_threads() != threads) omp_set_num_threads(threads);
}

}  // namespace lockstep::train::cpu
