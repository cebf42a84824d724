// A back end that is wrong in one op: what a check must find.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "trainer/backend/backend.h"
#include "trainer/backend/wrapped_op.h"

namespace lockstep::train {

// Passes all on to another op, and spoils y after Forward.
class WrongOp final : public WrappedOp {
 public:
  using Spoil = std::function<void(const TensorDesc& y, void* memory)>;
  WrongOp(std::unique_ptr<Op> op, Spoil spoil)
      : WrappedOp(std::move(op)), spoil_(std::move(spoil)) {}

  void Bind(const OpMemory& memory) override {
    y_ = memory.y;
    WrappedOp::Bind(memory);
  }
  void Forward(Mode mode, const StepContext& step) override {
    WrappedOp::Forward(mode, step);
    spoil_(output(), y_);
  }

 private:
  const Spoil spoil_;
  void* y_ = nullptr;
};

// Passes all on to another back end, but for the ops of one spec, of which it spoils y.
template <typename WrongSpec>
class WrongBackend final : public Backend {
 public:
  // Changes y's values, in logical order.
  using Change = std::function<void(std::vector<float>& y)>;
  WrongBackend(std::unique_ptr<Backend> backend, Change change)
      : backend_(std::move(backend)), change_(std::move(change)) {}

  std::string Name() const override { return backend_->Name(); }
  std::string Device() const override { return backend_->Device(); }
  std::unique_ptr<Op> MakeOp(const OpSpec& spec) override {
    auto op = backend_->MakeOp(spec);
    if (!std::holds_alternative<WrongSpec>(spec)) return op;
    return std::make_unique<WrongOp>(std::move(op), [this](const TensorDesc& y, void* memory) {
      std::vector<float> values(static_cast<std::size_t>(y.shape.elements()));
      backend_->ToDense(y, memory, values.data());
      change_(values);
      backend_->FromDense(values.data(), y, memory);
    });
  }
  std::unique_ptr<Op> MakeCast(const TensorDesc& x, DType to) override {
    return backend_->MakeCast(x, to);
  }
  std::unique_ptr<LossOp> MakeSoftmaxCrossEntropy(const SoftmaxCrossEntropySpec& spec) override {
    return backend_->MakeSoftmaxCrossEntropy(spec);
  }
  std::unique_ptr<LossOp> MakeElementwiseLoss(const ElementwiseLossSpec& spec) override {
    return backend_->MakeElementwiseLoss(spec);
  }
  std::unique_ptr<OptimizerOp> MakeOptimizer(const OptimizerRule& rule) override {
    return backend_->MakeOptimizer(rule);
  }
  bool IsHost() const override { return backend_->IsHost(); }
  MemorySource& memory() override { return backend_->memory(); }
  void Upload(const void* host, void* device, std::size_t bytes) override {
    backend_->Upload(host, device, bytes);
  }
  void Download(const void* device, void* host, std::size_t bytes) override {
    backend_->Download(device, host, bytes);
  }
  void Copy(const void* from, void* to, std::size_t bytes) override {
    backend_->Copy(from, to, bytes);
  }
  void Zero(void* memory, std::size_t bytes) override { backend_->Zero(memory, bytes); }
  Stream& stream() override { return backend_->stream(); }
  std::unique_ptr<Stream> MakeStream() override { return backend_->MakeStream(); }
  void ConvertInput(const std::uint8_t* x, float* y, std::int64_t size, float scale) override {
    backend_->ConvertInput(x, y, size, scale);
  }
  using Backend::Accumulate;
  void Accumulate(const void* x, void* y, std::int64_t size, DType type) override {
    backend_->Accumulate(x, y, size, type);
  }
  void Scale(const float* x, float* y, std::int64_t size, float factor) override {
    backend_->Scale(x, y, size, factor);
  }
  void Multiply(float& value, const float& factor) override { backend_->Multiply(value, factor); }
  bool Computes(DType type) const override { return backend_->Computes(type); }
  void WriteTail(const LossTotals& totals, StepTail& tail) override {
    backend_->WriteTail(totals, tail);
  }
  void DecideUpdate(const UpdateMemory& memory) override { backend_->DecideUpdate(memory); }
  bool AllFinite(const float* values, std::int64_t size) override {
    return backend_->AllFinite(values, size);
  }
  void ToDense(const TensorDesc& from, const void* source, float* target) override {
    backend_->ToDense(from, source, target);
  }
  void FromDense(const float* source, const TensorDesc& to, void* target) override {
    backend_->FromDense(source, to, target);
  }
  void Synchronize() override { backend_->Synchronize(); }

 private:
  const std::unique_ptr<Backend> backend_;
  const Change change_;
};

}  // namespace lockstep::train
