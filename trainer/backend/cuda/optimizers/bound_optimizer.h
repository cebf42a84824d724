// What this back end's optimizers have in common: all but their kernel.
#pragma once

#include <vector>

#include "trainer/backend/backend.h"
#include "trainer/backend/cuda/device/device.h"
#include "trainer/backend/cuda/device/memory.h"
#include "trainer/backend/cuda/kernels/kernels.h"

namespace lockstep::train::cuda {

class BoundOptimizer : public OptimizerOp {
 public:
  // Requires: `device` outlives the optimizer.
  BoundOptimizer(const char* name, const Device& device, float weight_decay, int slots)
      : name_(name), device_(device), weight_decay_(weight_decay), slots_(slots), table_(device) {}
  int Slots() const final { return slots_; }
  void Bind(const OptimizerMemory& memory) final;

 protected:
  const Device& device() const { return device_; }
  const OptimizerMemory& memory() const { return memory_; }
  // Null: the optimizer has no such slot.
  float* slot(std::size_t i) const { return i < memory_.slots.size() ? memory_.slots[i] : nullptr; }
  Grid grid() const { return device_.GridFor(memory_.size); }
  // What the kernels want: the segments on the device, of which there are none if nothing decays.
  const OptimizerSegment* segments() const { return segments_; }
  std::int64_t segment_count() const { return segment_count_; }
  float weight_decay() const { return weight_decay_; }

 private:
  const char* const name_;
  const Device& device_;
  const float weight_decay_;
  const int slots_;
  OptimizerMemory memory_;
  Buffer table_;
  const OptimizerSegment* segments_ = nullptr;  // in table_
  std::int64_t segment_count_ = 0;
};

}  // namespace lockstep::train::cuda
