// What the reference optimizers have in common: all but the update of one value.
#pragma once

#include <cstdint>

#include "trainer/backend/backend.h"
#include "trainer/backend/segments.h"
#include "trainer/backend/update_rules.h"

namespace lockstep::train::reference {

// `Rule` is an optimizer's formula:
//   static constexpr const char* kName
//   a member `spec` with weight_decay
//   int Slots() const
//   float Rate(const OptimizerStep&) const   the step's learning rate, maybe corrected
//   void Update(const OptimizerMemory&, std::int64_t i, float g, float rate) const
// Update changes value i and its slots. `g` is the scaled gradient; weight decay is done already.
template <typename Rule>
class BoundOptimizer final : public OptimizerOp {
 public:
  explicit BoundOptimizer(const Rule& rule) : rule_(rule) {}
  int Slots() const override { return rule_.Slots(); }
  void Bind(const OptimizerMemory& memory) override {
    CheckOptimizerMemory(Rule::kName, memory, Slots());
    memory_ = memory;
  }

  void Step() override {
    const OptimizerStep& step = *memory_.step;
    if (!step.applies) return;
    const float rate = rule_.Rate(step);
    ForEachSegment(memory_, 0, memory_.size,
                   [&](std::int64_t begin, std::int64_t end, bool decays) {
                     const float keep = decays ? KeptByDecay(rule_.spec.weight_decay, step) : 1;
                     for (std::int64_t i = begin; i < end; ++i) {
                       memory_.values[i] *= keep;
                       rule_.Update(memory_, i, step.gradient_scale * memory_.gradients[i], rate);
                     }
                   });
  }

 private:
  const Rule rule_;
  OptimizerMemory memory_;
};

}  // namespace lockstep::train::reference
