// Collectives that are ordered with the work of a device, beside the blocking ones of Communicator.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "trainer/comm/communicator.h"
#include "trainer/core/dtype.h"
#include "trainer/core/stream.h"

namespace lockstep::train {

// A collective cannot return what became of it, because it has yet to run when the call returns.
// Once one has failed, its buffer holds anything and later ones do nothing; the device learns of it
// by EnqueueStatus and must then not use the sums. One thread at a time may call it, except
// status() and Abort(), which any thread may call.
class StreamCommunicator {
 public:
  virtual ~StreamCommunicator() = default;
  virtual std::string Name() const = 0;  // "staged", "nccl"
  // Queues on `stream`: replaces `count` elements at `buffer` by their sum over ranks.
  virtual void EnqueueAllReduceSum(void* buffer, std::int64_t count, DType dtype,
                                   Stream& stream) = 0;
  // Queues on `stream`: overwrites `count` elements at `buffer` on every rank with those of rank
  // `root`.
  virtual void EnqueueBroadcast(void* buffer, std::int64_t count, DType dtype, int root,
                                Stream& stream) = 0;
  // Queues on `stream`: writes to device memory whether every collective so far has succeeded.
  virtual void EnqueueStatus(bool* is_ok, Stream& stream) = 0;
  // The first failure among the collectives that have run.
  virtual absl::Status status() const = 0;
  // Makes this rank's current and later collectives fail, so that what they hold up goes on; the
  // peers' may wait until they are aborted, too. Idempotent.
  virtual void Abort() = 0;
};

// Passes the data through host memory: `staging` has the layout of the device memory at `device`.
// Only float32 within that memory can be passed. Requires: it and all three outlive the work
// that it has queued.
std::unique_ptr<StreamCommunicator> MakeStagedCommunicator(Communicator& communicator,
                                                           float* device, std::span<float> staging);

// Where gradients lie that a host cannot reach.
struct DeviceSums {
  float* memory = nullptr;     // device memory, of the size of the gradient buffer
  bool* is_summed = nullptr;   // device memory: see EnqueueStatus
  Stream* compute = nullptr;   // where gradients are computed and sums are used
  Stream* transfer = nullptr;  // where they are summed meanwhile
};

}  // namespace lockstep::train
