// Collectives between processes of one host that have mapped each other's gradient buffers. A sum
// needs no intermediate copy: between two barriers, each rank sums its share of the elements over
// all buffers and writes the result to all of them. A broadcast of a part of the gradient buffer is
// one copy from the root's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <vector>

#include "base/clock.h"
#include "trainer/comm/communicator.h"
#include "trainer/comm/shm/shared_barrier.h"

namespace lockstep::train {

// The size of a rank's bounce area: shared memory through which data outside the gradient buffers
// is copied. A broadcast uses its two halves in turn.
inline constexpr std::size_t kBounceBytes = 512 * 1024;

// The group's memory as mapped by this rank.
struct ShmView {
  int rank = 0, size = 1;
  BarrierMemory* barrier = nullptr;
  std::vector<std::byte*> bounces;      // by rank
  std::vector<float*> gradients;        // by rank; [rank] is this process's GradientBuffer
  std::size_t floats = 0;               // the size of each gradient buffer
  std::function<bool(int rank)> alive;  // called while waiting, on the waiting thread
  std::shared_ptr<const void> owner;    // keeps alive the mappings and what `alive` uses
};

// See Communicator for errors and thread-safety. A collective fails with Unavailable if it waits
// for a peer for longer than `timeout`; a stop request on `cancel` has the effect of Abort.
// Destroying a rank's communicator makes the peers' collectives fail.
class ShmCommunicator final : public Communicator {
 public:
  ShmCommunicator(ShmView view, Duration timeout, std::stop_token cancel);
  ~ShmCommunicator() override;

  int rank() const override { return view_.rank; }
  int size() const override { return view_.size; }
  std::string Name() const override { return "shm"; }
  absl::Status AllReduceSum(std::span<float> data) override;
  absl::Status Broadcast(std::span<std::byte> data, int root) override;
  absl::Status Barrier() override;
  void Abort() override { barrier_.Abort(); }

 private:
  absl::Status SumInPlace(std::size_t offset, std::size_t count);
  absl::Status SumThroughBounces(std::span<float> data);
  absl::Status BroadcastInPlace(std::span<std::byte> data, std::size_t offset, int root);
  std::byte* GradientBytes(int rank) const;

  const ShmView view_;
  SharedBarrier barrier_;
  std::vector<float*> addends_;  // scratch: pointers to the ranks' addends
  std::stop_callback<std::function<void()>> on_cancel_;
};

}  // namespace lockstep::train
