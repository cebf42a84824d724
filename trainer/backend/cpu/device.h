// The CPU as the ops of this folder see it: a number of threads, the kernels of an instruction set,
// and oneDNN's engine in a build that has it.
#pragma once

#include <memory>

#include "trainer/backend/backend.h"
#include "trainer/backend/cpu/kernels/kernels.h"

namespace lockstep::train::cpu {

struct Onednn;  // onednn.h

// Shared by all ops of a back end, which outlives them.
struct Device {
  // Throws DeviceError if the processor has not what every kernel needs.
  explicit Device(int thread_count);

  // Makes OpenMP, and so oneDNN, use `threads` in the calling thread. Cheap; before every primitive
  // is made or run, since ops may be made by one thread and run by another.
  void Enter() const;

  int threads;
  Isa isa;
  const Kernels& kernels;
  std::shared_ptr<Onednn> onednn;  // null in a build without it
};

// What a build with oneDNN (onednn.cc) and one without (portable/device.cc) answer each in their
// way. The instruction set of the kernels; ONEDNN_MAX_CPU_ISA limits it where oneDNN obeys that.
// A value of that variable which oneDNN does not know, and so ignores, is logged once.
Isa EffectiveIsa();
std::shared_ptr<Onednn> MakeOnednn();

}  // namespace lockstep::train::cpu
