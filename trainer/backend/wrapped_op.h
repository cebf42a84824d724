// An op that does what another one does, for whoever adds something to it.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "trainer/backend/backend.h"

namespace lockstep::train {

class WrappedOp : public Op {
 public:
  explicit WrappedOp(std::unique_ptr<Op> op) : op_(std::move(op)) {}
  const std::vector<TensorDesc>& inputs() const final { return op_->inputs(); }
  const TensorDesc& output() const final { return op_->output(); }
  std::vector<ParameterDesc> Parameters() const final { return op_->Parameters(); }
  std::vector<ParameterDesc> States() const final { return op_->States(); }
  std::size_t WorkspaceBytes() const final { return op_->WorkspaceBytes(); }
  std::size_t ScratchBytes() const final { return op_->ScratchBytes(); }
  bool BackwardInPlace() const final { return op_->BackwardInPlace(); }
  BackwardReads Reads() const final { return op_->Reads(); }
  std::vector<OpChoice> Choices() const final { return op_->Choices(); }
  void Bind(const OpMemory& memory) override { op_->Bind(memory); }
  void Forward(Mode mode, const StepContext& step) override { op_->Forward(mode, step); }
  void Restore(const StepContext& step) override { op_->Restore(step); }
  void Backward(const StepContext& step) override { op_->Backward(step); }

 protected:
  Op& op() const { return *op_; }

 private:
  const std::unique_ptr<Op> op_;
};

}  // namespace lockstep::train
