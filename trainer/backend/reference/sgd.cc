#include "base/check.h"
#include "trainer/backend/reference/ops.h"

namespace lockstep::train::reference {
namespace {

// See SgdSpec for the formula.
class Sgd final : public OptimizerOp {
 public:
  explicit Sgd(const SgdSpec& spec) : spec_(spec) {}
  int Slots() const override { return spec_.momentum == 0 ? 0 : 1; }
  void Bind(const OptimizerMemory& memory) override {
    LOCKSTEP_CHECK(memory.slots.size() == static_cast<std::size_t>(Slots()),
                   "sgd: found {} slots, expected {}", memory.slots.size(), Slots());
    memory_ = memory;
  }

  void Step(float learning_rate, std::int64_t /*step*/) override {
    for (std::int64_t i = 0; i < memory_.size; ++i) {
      float& value = memory_.values[i];
      value -= learning_rate * spec_.weight_decay * value;
      const float move = -learning_rate * memory_.gradients[i];
      if (spec_.momentum == 0) {
        value += move;
        continue;
      }
      float& velocity = memory_.slots[0][i];
      velocity = spec_.momentum * velocity + move;
      value += spec_.nesterov ? spec_.momentum * velocity + move : velocity;
    }
  }

 private:
  SgdSpec spec_;
  OptimizerMemory memory_;
};

}  // namespace

std::unique_ptr<OptimizerOp> MakeOptimizer(const SgdSpec& spec) {
  return std::make_unique<Sgd>(spec);
}

}  // namespace lockstep::train::reference
