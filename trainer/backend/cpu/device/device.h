// The CPU as a device: a number of threads, the kernels for an instruction set, and oneDNN's engine
// in a build with oneDNN.
#pragma once

#include <memory>

#include "trainer/backend/backend.h"
#include "trainer/backend/cpu/kernels/kernels.h"

namespace lockstep::train::cpu {

struct Onednn;  // onednn.h

// Shared by all ops of a backend, which outlives them.
struct Device {
  // Throws DeviceError if the processor lacks an instruction set that every kernel needs.
  explicit Device(int thread_count);

  // Makes OpenMP, and thus oneDNN, use `threads` threads for what the calling thread runs. Cheap.
  // Call it before a primitive is created or run, because different threads may create and run ops.
  void Enter() const;

  int threads;
  Isa isa;
  const Kernels& kernels;
  std::shared_ptr<Onednn> onednn;  // null in a build without it
};

// EffectiveIsa and MakeOnednn are defined in onednn.cc or, for a build without oneDNN, in
// portable/device.cc. EffectiveIsa returns the instruction set of the kernels. With oneDNN,
// ONEDNN_MAX_CPU_ISA limits it; a value that oneDNN does not know and ignores is logged once.
Isa EffectiveIsa();
std::shared_ptr<Onednn> MakeOnednn();

}  // namespace lockstep::train::cpu
