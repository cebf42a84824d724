// What this back end's optimizers have in common that scale each tensor's step by a trust of its
// own: all but two of their three kernels.
#pragma once

#include <cstdint>

#include "trainer/backend/backend.h"
#include "trainer/backend/cuda/device/device.h"
#include "trainer/backend/cuda/device/memory.h"
#include "trainer/backend/cuda/kernels/kernels.h"

namespace lockstep::train::cuda {

// What the kernels share, in device memory.
struct TrustTables {
  std::int64_t piece_count = 0, segment_count = 0;
  const OptimizerPiece* pieces = nullptr;
  const std::int64_t* firsts = nullptr;  // each segment's first piece, then the number of pieces
  const OptimizerSegment* segments = nullptr;
  TrustSquares* squares = nullptr;  // of each piece
  float* trusts = nullptr;          // of each segment
};

class TrustOptimizer : public OptimizerOp {
 public:
  // A tensor's trust is TrustRatio with `coefficient` and `decay`. Requires: `device` outlives the
  // optimizer.
  TrustOptimizer(const char* name, const Device& device, double coefficient, double decay,
                 int slots);
  int Slots() const final { return slots_; }
  void Bind(const OptimizerMemory& memory) final;
  void Step() final;

 protected:
  // Launches, on grid(), the kernel that writes tables().squares, and the one that updates.
  virtual void Measure() = 0;
  virtual void Update() = 0;

  const Device& device() const { return device_; }
  const OptimizerMemory& memory() const { return memory_; }
  // Null: the optimizer has no such slot.
  float* slot(std::size_t i) const { return i < memory_.slots.size() ? memory_.slots[i] : nullptr; }
  const TrustTables& tables() const { return tables_; }
  // A block for each piece.
  Grid grid() const;

 private:
  const char* const name_;
  const Device& device_;
  const double coefficient_, decay_;
  const int slots_;
  OptimizerMemory memory_;
  Buffer pieces_, firsts_, segments_, squares_, trusts_;
  TrustTables tables_;
};

}  // namespace lockstep::train::cuda
