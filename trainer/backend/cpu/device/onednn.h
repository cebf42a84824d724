// oneDNN's engine and stream on this CPU, and the conversion of its errors.
#pragma once

#include <dnnl.hpp>
#include <string>

#include "trainer/backend/backend.h"
#include "trainer/backend/cpu/device/device.h"

namespace lockstep::train::cpu {

struct Onednn {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
};

// Calls `make` and converts oneDNN's errors to a DeviceError that names `what`.
template <typename Make>
auto Guarded(const char* what, Make make) {
  try {
    return make();
  } catch (const dnnl::error& error) {
    throw DeviceError(std::string(what) + ": oneDNN refused: " + error.what());
  }
}

}  // namespace lockstep::train::cpu
