#include "trainer/optim/averaged_update.h"

#include <utility>

#include "trainer/backend/segments.h"
#include "trainer/backend/settle.h"
#include "trainer/core/arena.h"

namespace lockstep::train {
namespace {

// The average is moved by SGD, which all back ends have and round alike: with a learning rate of 1
// it decays by share = 1 - decay and, its gradient being the values, scaled by -share, grows by
// share * value. The two weights have the sum 1 as floats, too, so that the average of values that
// stay as they are is theirs.
class AveragedUpdate final : public OptimizerOp {
 public:
  AveragedUpdate(std::unique_ptr<OptimizerOp> update, float decay, Backend& backend)
      : backend_(backend),
        update_(std::move(update)),
        average_(backend.MakeOptimizer(SgdSpec{.weight_decay = 1 - decay})) {
    const OptimizerStep step{.learning_rate = 1, .gradient_scale = decay - 1};
    arena_.Reserve(sizeof(step));
    arena_.Allocate(backend_.memory());
    backend_.Upload(&step, step_of_average(), sizeof(step));
  }
  // The memory must outlive the work that is queued on it.
  ~AveragedUpdate() override { Settle(backend_); }
  AveragedUpdate(const AveragedUpdate&) = delete;
  AveragedUpdate& operator=(const AveragedUpdate&) = delete;

  int Slots() const override { return update_->Slots() + 1; }
  std::size_t ScratchBytes() const override { return update_->ScratchBytes(); }
  void Bind(const OptimizerMemory& memory) override {
    CheckOptimizerMemory("averaged update", memory, Slots());
    OptimizerMemory of_update = memory;
    of_update.slots.pop_back();
    update_->Bind(of_update);
    step_ = memory.step;
    average_->Bind({.values = memory.slots.back(),
                    .gradients = memory.values,
                    .slots = {},
                    .size = memory.size,
                    .segments = {},
                    .step = step_of_average()});
  }
  void Step() override {
    update_->Step();
    backend_.Copy(&step_->applies, &step_of_average()->applies, sizeof(bool));
    average_->Step();
  }

 private:
  OptimizerStep* step_of_average() const { return arena_.At<OptimizerStep>(0); }

  Backend& backend_;
  Arena arena_;  // outlives what is bound to it
  const std::unique_ptr<OptimizerOp> update_, average_;
  const OptimizerStep* step_ = nullptr;  // of the update
};

}  // namespace

std::unique_ptr<OptimizerOp> MakeAveragedUpdate(std::unique_ptr<OptimizerOp> update, float decay,
                                                Backend& backend) {
  return std::make_unique<AveragedUpdate>(std::move(update), decay, backend);
}

}  // namespace lockstep::train
