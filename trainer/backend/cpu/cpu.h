// oneDNN (without it, matrix products of our own in portable/) for what is arithmetic, own
// vectorised kernels for what is memory traffic. The same inputs on the same number of threads and
// the same instruction set give the same bits.
#pragma once

#include <memory>

#include "trainer/backend/backend.h"

namespace lockstep::train {

std::unique_ptr<Backend> MakeCpuBackend(int threads);

}  // namespace lockstep::train
