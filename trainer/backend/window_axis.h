// The positions of a sliding window along one axis of an image.
#pragma once

#include <algorithm>
#include <cstdint>

#include "trainer/core/device_code.h"

namespace lockstep::train {

struct WindowAxis {
  std::int64_t in = 0, size = 0, stride = 1;
  std::int64_t out = 0;        // number of positions; below 1 if the window does not fit
  std::int64_t pad_begin = 0;  // the window at `o` covers [o * stride - pad_begin, … + size)
  std::int64_t pad_end = 0;

  // The window at `o` lies inside the image from offset First(o) to Last(o), exclusive.
  LOCKSTEP_ALSO_ON_GPU std::int64_t First(std::int64_t o) const {
    return std::max<std::int64_t>(0, pad_begin - o * stride);
  }
  LOCKSTEP_ALSO_ON_GPU std::int64_t Last(std::int64_t o) const {
    return std::min(size, in + pad_begin - o * stride);
  }
};

}  // namespace lockstep::train
