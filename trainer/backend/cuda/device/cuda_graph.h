// Work of a GPU as a CUDA graph, which the host launches at once: queuing a step's ops one by one
// can take longer than running them.
#pragma once

#include <functional>
#include <memory>

#include "trainer/backend/backend.h"
#include "trainer/backend/cuda/device/device.h"

namespace lockstep::train::cuda {

// See Backend::Record. Throws DeviceError if the work cannot be recorded; the stream is then as it
// was. Requires: the device outlives what is returned.
std::unique_ptr<Recording> RecordGraph(Device& device, const std::function<void()>& queue);

}  // namespace lockstep::train::cuda
