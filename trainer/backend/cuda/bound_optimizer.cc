#include "trainer/backend/cuda/bound_optimizer.h"

#include "trainer/backend/segments.h"

namespace lockstep::train::cuda {

void BoundOptimizer::Bind(const OptimizerMemory& memory) {
  CheckOptimizerMemory(name_, memory, slots_);
  memory_ = memory;
  segments_ = nullptr;
  segment_count_ = 0;
  if (weight_decay_ == 0 || memory.segments.empty()) return;
  segment_count_ = static_cast<std::int64_t>(memory.segments.size());
  auto* table = table_.Reserve<OptimizerSegment>(segment_count_);
  device_.Check(device_.driver().MemcpyHtoDAsync(AddressOf(table), memory.segments.data(),
                                                 memory.segments.size() * sizeof(OptimizerSegment),
                                                 device_.stream()),
                "cuMemcpyHtoDAsync");
  device_.Synchronize();  // the caller may free the table
  segments_ = table;
}

}  // namespace lockstep::train::cuda
