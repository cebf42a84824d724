#include "trainer/check/run_op.h"

#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "trainer/backend/wrapped_op.h"

namespace lockstep::train {
namespace {

// Counts the backward passes of another op.
class CountedOp final : public WrappedOp {
 public:
  using WrappedOp::WrappedOp;
  void Backward(const StepContext& step) override {
    ++count_;
    WrappedOp::Backward(step);
  }
  int count() const { return count_; }

 private:
  int count_ = 0;
};

TEST(RunOpTest, RunsThePassesThatItIsAskedFor) {
  const auto backend = MakeBackend({.name = "reference"});
  const auto op =
      std::make_unique<CountedOp>(backend->MakeOp(DenseSpec{.x = {.shape = {3, 4}}, .units = 2}));
  const OpInputs inputs = RandomInputs(*op, 1);
  const StepSettings step{.training = true, .valid = 3};

  const OpOutputs forward = RunOp(*backend, *op, inputs, step, Passes::kForward);
  EXPECT_EQ(op->count(), 0);
  EXPECT_TRUE(forward.dx.empty());
  EXPECT_TRUE(forward.gradients.empty());

  const OpOutputs without_dx = RunOp(*backend, *op, inputs, step, Passes::kWithoutInputGradient);
  EXPECT_EQ(op->count(), 1);
  EXPECT_TRUE(without_dx.dx.empty());

  const OpOutputs all = RunOp(*backend, *op, inputs, step);
  EXPECT_EQ(op->count(), 2);
  EXPECT_EQ(all.y, forward.y);
  EXPECT_EQ(all.gradients, without_dx.gradients);
  EXPECT_EQ(all.dx.size(), inputs.x.size());

  RunOp(*backend, *op, inputs, {.training = false, .valid = 3});
  EXPECT_EQ(op->count(), 2) << "an evaluation runs no Backward, whatever is asked for";
}

}  // namespace
}  // namespace lockstep::train
