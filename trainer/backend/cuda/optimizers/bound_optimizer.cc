#include "trainer/backend/cuda/optimizers/bound_optimizer.h"

#include "trainer/backend/segments.h"

namespace lockstep::train::cuda {

void BoundOptimizer::Bind(const OptimizerMemory& memory) {
  CheckOptimizerMemory(name_, memory, slots_);
  memory_ = memory;
  segments_ = nullptr;
  segment_count_ = 0;
  if (weight_decay_ == 0 || memory.segments.empty()) return;
  segment_count_ = static_cast<std::int64_t>(memory.segments.size());
  segments_ = table_.Upload(memory.segments);
}

}  // namespace lockstep::train::cuda
