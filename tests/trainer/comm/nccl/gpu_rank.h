// A rank with a simulated GPU of its own, in a thread or a process of a test.
#pragma once

#include <cstdlib>
#include <memory>
#include <utility>
#include <vector>

#include "tests/support/cuda_sim/use_simulator.h"
#include "trainer/backend/backend.h"
#include "trainer/check/device_array.h"

namespace lockstep::train {

// GPUs that a rank's number chooses.
inline const bool kHasGpus = ::setenv("CUDA_VISIBLE_DEVICES", "0,1,2,3", /*overwrite=*/1) == 0;

struct GpuRank {
  GpuRank(int gpu, std::vector<float> values)
      : backend(MakeBackend({.name = "cuda", .device = gpu})),
        memory(*backend, std::move(values)),
        is_ok(*backend, {'\1'}),
        stream(backend->MakeStream()) {
    backend->Synchronize();
  }

  // Before what is queued on `stream` afterwards.
  void Set(const std::vector<float>& values) {
    memory.Set(values);
    backend->Synchronize();
  }

  bool* ok_word() const { return reinterpret_cast<bool*>(is_ok.data()); }
  // What the device holds once `stream` has done its work.
  std::vector<float> Values() const {
    stream->Record()->Wait();
    return memory.Values();
  }
  bool IsOk() const {
    stream->Record()->Wait();
    return is_ok.Values()[0] != 0;
  }

  const std::unique_ptr<Backend> backend;
  DeviceArray<float> memory;
  DeviceArray<char> is_ok;
  const std::unique_ptr<Stream> stream;
};

}  // namespace lockstep::train
