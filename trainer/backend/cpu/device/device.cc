#include "trainer/backend/cpu/device/device.h"

#include <fmt/format.h>
#include <omp.h>

#include <string>

namespace lockstep::train::cpu {

namespace {

// Kernels may not even be asked for on a processor that lacks what all of them need.
Isa SupportedIsa() {
  const std::string missing = MissingForBaseline();
  if (missing.empty()) return EffectiveIsa();
  throw DeviceError(
      fmt::format("cpu: this processor has no {}, which the trainer needs. A virtual machine may "
                  "hide it: give it a newer model of processor, or the host's",
                  missing));
}

}  // namespace

Device::Device(int thread_count)
    : threads(thread_count), isa(SupportedIsa()), kernels(KernelsFor(isa)), onednn(MakeOnednn()) {}

void Device::Enter() const {
  if (omp_get_max_threads() != threads) omp_set_num_threads(threads);
}

}  // namespace lockstep::train::cpu
