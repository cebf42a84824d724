#include "trainer/backend/async_reference/async_ops.h"

#include <utility>

#include "trainer/backend/wrapped_op.h"

namespace lockstep::train::async_reference {
namespace {

// Bind and destruction wait for the work that may still use the wrapped op.

class AsyncOp final : public WrappedOp {
 public:
  AsyncOp(const Device& device, std::unique_ptr<Op> op)
      : WrappedOp(std::move(op)), device_(device) {}
  ~AsyncOp() override { device_.queue.Synchronize(); }

  void Bind(const OpMemory& memory) override {
    OpMemory real = memory;
    const auto translate = [&](auto& pointers) {
      for (auto& pointer : pointers) pointer = device_.memory.Real(pointer);
    };
    translate(real.x);
    translate(real.dx);
    translate(real.parameters);
    translate(real.gradients);
    translate(real.states);
    for (void** pointer : {&real.y, &real.dy, &real.workspace, &real.scratch}) {
      *pointer = device_.memory.Real(*pointer);
    }
    device_.queue.Synchronize();
    op().Bind(real);
  }
  void Forward(Mode mode, const StepContext& step) override {
    device_.queue.Enqueue(
        [op = &op(), mode, real = device_.memory.Real(&step)] { op->Forward(mode, *real); });
  }
  void Restore(const StepContext& step) override {
    device_.queue.Enqueue([op = &op(), real = device_.memory.Real(&step)] { op->Restore(*real); });
  }
  void Backward(const StepContext& step) override {
    device_.queue.Enqueue([op = &op(), real = device_.memory.Real(&step)] { op->Backward(*real); });
  }

 private:
  const Device device_;
};

class AsyncLossOp final : public LossOp {
 public:
  AsyncLossOp(const Device& device, std::unique_ptr<LossOp> op)
      : device_(device), op_(std::move(op)) {}
  ~AsyncLossOp() override { device_.queue.Synchronize(); }
  void Bind(const Memory& memory) override {
    const Memory real{.logits = device_.memory.Real(memory.logits),
                      .dlogits = device_.memory.Real(memory.dlogits),
                      .labels = device_.memory.Real(memory.labels),
                      .targets = device_.memory.Real(memory.targets),
                      .weights = device_.memory.Real(memory.weights),
                      .scale = device_.memory.Real(memory.scale),
                      .totals = device_.memory.Real(memory.totals)};
    device_.queue.Synchronize();
    op_->Bind(real);
  }
  void Run() override {
    device_.queue.Enqueue([op = op_.get()] { op->Run(); });
  }

 private:
  const Device device_;
  const std::unique_ptr<LossOp> op_;
};

class AsyncOptimizerOp final : public OptimizerOp {
 public:
  AsyncOptimizerOp(const Device& device, std::unique_ptr<OptimizerOp> op)
      : device_(device), op_(std::move(op)) {}
  ~AsyncOptimizerOp() override { device_.queue.Synchronize(); }
  int Slots() const override { return op_->Slots(); }
  std::size_t ScratchBytes() const override { return op_->ScratchBytes(); }
  void Bind(const OptimizerMemory& memory) override {
    OptimizerMemory real = memory;
    real.values = device_.memory.Real(memory.values);
    real.gradients = device_.memory.Real(memory.gradients);
    real.step = device_.memory.Real(memory.step);
    real.scratch = device_.memory.Real(memory.scratch);
    for (float*& slot : real.slots) slot = device_.memory.Real(slot);
    device_.queue.Synchronize();
    op_->Bind(real);
  }
  void Step() override {
    device_.queue.Enqueue([op = op_.get()] { op->Step(); });
  }

 private:
  const Device device_;
  const std::unique_ptr<OptimizerOp> op_;
};

}  // namespace

std::unique_ptr<Op> MakeAsync(const Device& device, std::unique_ptr<Op> op) {
  return std::make_unique<AsyncOp>(device, std::move(op));
}
std::unique_ptr<LossOp> MakeAsync(const Device& device, std::unique_ptr<LossOp> op) {
  return std::make_unique<AsyncLossOp>(device, std::move(op));
}
std::unique_ptr<OptimizerOp> MakeAsync(const Device& device, std::unique_ptr<OptimizerOp> op) {
  return std::make_unique<AsyncOptimizerOp>(device, std::move(op));
}

}  // namespace lockstep::train::async_reference
