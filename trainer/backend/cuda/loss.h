// The base class of the losses: the sums of a kernel's blocks, and how they are added.
#pragma once

#include "trainer/backend/backend.h"
#include "trainer/backend/cuda/device/device.h"
#include "trainer/backend/cuda/device/memory.h"

namespace lockstep::train::cuda {

class BoundLoss : public LossOp {
 public:
  // `blocks`: of the loss' kernel. Requires: `device` outlives the loss.
  BoundLoss(const Device& device, std::int64_t blocks);
  void Bind(const Memory& memory) final;
  void Run() final;

 protected:
  const Device& device() const { return device_; }
  const Memory& memory() const { return memory_; }
  // Throws CheckFailure unless `memory` has what the loss needs.
  virtual void CheckMemory(const Memory& memory) const = 0;
  // Writes the gradient, and each block's sums to sums[block].
  virtual void RunBlocks(LossTotals* sums) = 0;

 private:
  const Device& device_;
  const std::int64_t blocks_;
  Buffer buffer_;
  LossTotals* const sums_;  // in buffer_
  Memory memory_;
};

}  // namespace lockstep::train::cuda
