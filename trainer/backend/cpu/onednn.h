// oneDNN's engine and stream on this CPU, and its refusals as errors of ours.
#pragma once

#include <dnnl.hpp>
#include <string>

#include "trainer/backend/backend.h"
#include "trainer/backend/cpu/device.h"

namespace lockstep::train::cpu {

struct Onednn {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
};

// Calls `make` and turns oneDNN's refusal into a DeviceError that names `what`.
template <typename Make>
auto Guarded(const char* what, Make make) {
  try {
    return make();
  } catch (const dnnl::error& error) {
    throw DeviceError(std::string(what) + ": oneDNN refused: " + error.what());
  }
}

}  // namespace lockstep::train::cpu
