// Uploads the bytes of a step's samples while the GPU still computes the previous step.
#pragma once

#include <array>
#include <cstddef>
#include <memory>

#include "trainer/backend/cuda/device/memory.h"
#include "trainer/backend/cuda/device/stream.h"
#include "trainer/core/stream.h"

namespace lockstep::train::cuda {

// Not thread-safe.
class InputStage {
 public:
  // Requires: `device`, and `compute`, the stream of its ops, outlive this.
  InputStage(Device& device, CudaStream& compute);

  // Copies `bytes` from the host, which have been read when it returns, to device memory that ops
  // may read until the next call of Consumed.
  const void* Upload(const void* host, std::size_t bytes);
  // The ops that read what Upload returned last are queued.
  void Consumed();

 private:
  struct Slot {
    explicit Slot(const Device& device) : memory(device) {}
    Buffer memory;
    std::shared_ptr<Event> consumed;  // null: no op has read it yet
  };

  CudaStream& compute_;
  std::unique_ptr<CudaStream> copies_;
  std::array<Slot, 2> slots_;  // in turns
  std::size_t next_ = 0;
};

}  // namespace lockstep::train::cuda
