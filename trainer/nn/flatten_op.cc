#include "trainer/nn/flatten_op.h"

namespace lockstep::train {
namespace {

class FlattenOp final : public Op {
 public:
  FlattenOp(const TensorDesc& x, Backend& backend)
      : backend_(backend),
        input_(x),
        output_{.shape = {x.shape[0], x.shape.elements() / x.shape[0]}} {}

  const TensorDesc& input() const override { return input_; }
  const TensorDesc& output() const override { return output_; }
  void Bind(const OpMemory& memory) override { memory_ = memory; }
  void Forward(const StepContext&) override {
    backend_.ToDense(input_, memory_.x, static_cast<float*>(memory_.y));
  }
  void Backward(const StepContext&) override {
    if (memory_.dx == nullptr) return;
    backend_.FromDense(static_cast<const float*>(memory_.dy), input_, memory_.dx);
  }

 private:
  Backend& backend_;
  TensorDesc input_, output_;
  OpMemory memory_;
};

}  // namespace

std::unique_ptr<Op> MakeFlattenOp(const TensorDesc& x, Backend& backend) {
  return std::make_unique<FlattenOp>(x, backend);
}

}  // namespace lockstep::train
