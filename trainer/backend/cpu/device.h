// The CPU as oneDNN and the kernels of this folder see it: an engine, a stream, a number of
// threads.
#pragma once

#include <dnnl.hpp>
#include <string>

#include "trainer/backend/backend.h"
#include "trainer/backend/cpu/kernels/kernels.h"

namespace lockstep::train::cpu {

// Shared by all ops of a back end, which outlives them.
struct Device {
  explicit Device(int thread_count);

  // Makes OpenMP, and so oneDNN, use `threads` in the calling thread. Cheap; before every primitive
  // is made or run, since ops may be made by one thread and run by another.
  void Enter() const;

  int threads;
  Isa isa;
  dnnl::engine engine;
  mutable dnnl::stream stream;
  const Kernels& kernels;
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
