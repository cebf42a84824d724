// The CPU backend. Uses oneDNN (or, in a build without it, our own matrix products in portable/)
// for arithmetic-bound ops and our own vectorized kernels for memory-bound ones. Results are
// bitwise equal for equal inputs, number of threads and instruction set.
#pragma once

#include <memory>

#include "trainer/backend/backend.h"

namespace lockstep::train {

std::unique_ptr<Backend> MakeCpuBackend(int threads);

}  // namespace lockstep::train
