// Ops that queue the work of the ops that they wrap.
#pragma once

#include <memory>

#include "trainer/backend/async_reference/device_memory.h"
#include "trainer/backend/async_reference/work_queue.h"
#include "trainer/backend/backend.h"

namespace lockstep::train::async_reference {

// Both outlive the ops.
struct Device {
  const DeviceMemory& memory;
  WorkQueue& queue;
};

std::unique_ptr<Op> MakeAsync(const Device& device, std::unique_ptr<Op> op);
std::unique_ptr<LossOp> MakeAsync(const Device& device, std::unique_ptr<LossOp> op);
std::unique_ptr<OptimizerOp> MakeAsync(const Device& device, std::unique_ptr<OptimizerOp> op);

}  // namespace lockstep::train::async_reference
