#include "trainer/backend/cpu/device.h"

#include <fmt/format.h>
#include <omp.h>

#include <string>

namespace lockstep::train::cpu {

Device::Device(int thread_count)
    : threads(thread_count), isa(EffectiveIsa()), kernels(KernelsFor(isa)), onednn(MakeOnednn()) {
  const std::string missing = MissingForBaseline();
  if (!missing.empty()) {
    throw DeviceError(
        fmt::format("cpu: this processor has no {}, which the trainer needs. A virtual machine may "
                    "hide it: give "
                    "it a newer model of processor, or the host's",
                    missing));
  }
}

void Device::Enter() const {
  if (omp_get_max_threads() != threads) omp_set_num_threads(threads);
}

}  // namespace lockstep::train::cpu
