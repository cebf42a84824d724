// Launches a kernel that ends in LOCKSTEP_WINDOW_PARAMETERS.
#pragma once

#include "trainer/backend/cuda/device/device.h"
#include "trainer/backend/window.h"

namespace lockstep::train::cuda {

template <typename Kernel, typename... Arguments>
void LaunchOnWindows(const Device& device, const Windows& windows, Kernel kernel, const Grid& grid,
                     const Arguments&... arguments) {
  const auto& [rows, columns] = windows;
  device.Launch(kernel, grid, arguments..., rows.in, columns.in, rows.size, columns.size,
                rows.stride, columns.stride, rows.pad_begin, columns.pad_begin, rows.out,
                columns.out);
}

}  // namespace lockstep::train::cuda
