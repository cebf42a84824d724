// What this backend's optimizers have in common: all but their factors and their kernel.
#pragma once

#include <cstdint>

#include "trainer/backend/backend.h"
#include "trainer/backend/cpu/device/device.h"
#include "trainer/backend/cpu/parallel.h"
#include "trainer/backend/cpu/update_range.h"
#include "trainer/backend/segments.h"

namespace lockstep::train::cpu {

// `Rule` is an optimizer:
//   static constexpr const char* kName
//   int Slots() const                              at most 2
//   Factors FactorsOf(const OptimizerStep&) const  those of the kernel, for values that decay; with
//                                                  a member `decay`, which Step sets to 0 for the
//                                                  others
//   static void Run(const Kernels&, const Factors&, const UpdateRange&)
template <typename Rule>
class BoundOptimizer final : public OptimizerOp {
 public:
  BoundOptimizer(const Device& device, const Rule& rule) : device_(device), rule_(rule) {}
  int Slots() const override { return rule_.Slots(); }
  void Bind(const OptimizerMemory& memory) override {
    CheckOptimizerMemory(Rule::kName, memory, Slots());
    memory_ = memory;
  }

  void Step() override {
    const OptimizerStep& step = *memory_.step;
    if (!step.applies) return;
    const auto factors = rule_.FactorsOf(step);
    ParallelForFloats(device_.threads, memory_.size, [&](std::int64_t first, std::int64_t last) {
      ForEachSegment(memory_, first, last, [&](std::int64_t begin, std::int64_t end, bool decays) {
        auto own = factors;
        if (!decays) own.decay = 0;
        Rule::Run(device_.kernels, own, RangeOf(memory_, begin, end));
      });
    });
  }

 private:
  const Device& device_;
  const Rule rule_;
  OptimizerMemory memory_;
};

}  // namespace lockstep::train::cpu
