// Back ends that are wrong in something: what a check must find.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "trainer/backend/backend.h"
#include "trainer/backend/out_of_memory.h"
#include "trainer/backend/wrapped_op.h"

namespace lockstep::train {

// Passes all on to another op, and spoils what Forward has written.
class WrongOp final : public WrappedOp {
 public:
  using Spoil = std::function<void(Mode mode, const TensorDesc& y, const OpMemory& memory)>;
  WrongOp(std::unique_ptr<Op> op, Spoil spoil)
      : WrappedOp(std::move(op)), spoil_(std::move(spoil)) {}

  void Bind(const OpMemory& memory) override {
    memory_ = memory;
    WrappedOp::Bind(memory);
  }
  void Forward(Mode mode, const StepContext& step) override {
    WrappedOp::Forward(mode, step);
    spoil_(mode, output(), memory_);
  }

 private:
  const Spoil spoil_;
  OpMemory memory_;
};

// Passes all on to another back end, but spoils the ops of one spec.
template <typename WrongSpec>
class WrongBackend : public Backend {
 public:
  WrongBackend(std::unique_ptr<Backend> backend, WrongOp::Spoil spoil)
      : backend_(std::move(backend)), spoil_(std::move(spoil)) {}
  // Changes y's values, in logical order.
  using Change = std::function<void(std::vector<float>& y)>;
  WrongBackend(std::unique_ptr<Backend> backend, Change change)
      : WrongBackend(std::move(backend), [this, change = std::move(change)](
                                             Mode, const TensorDesc& y, const OpMemory& memory) {
          std::vector<float> values(static_cast<std::size_t>(y.shape.elements()));
          backend_->ToDense(y, memory.y, values.data());
          change(values);
          backend_->FromDense(values.data(), y, memory.y);
        }) {}

  std::string Name() const override { return backend_->Name(); }
  std::string Device() const override { return backend_->Device(); }
  std::unique_ptr<Op> MakeOp(const OpSpec& spec) override {
    auto op = backend_->MakeOp(spec);
    if (!std::holds_alternative<WrongSpec>(spec)) return op;
    return std::make_unique<WrongOp>(std::move(op), spoil_);
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
  void ConvertInput(const std::uint8_t* x, float* y, std::int64_t size,
                    const InputScaling& scaling) override {
    backend_->ConvertInput(x, y, size, scaling);
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
  bool Records() const override { return backend_->Records(); }  // and yet it does not

 private:
  const std::unique_ptr<Backend> backend_;
  const WrongOp::Spoil spoil_;
};

// Passes all on to another back end, whose ops are right.
class ChangedBackend : public WrongBackend<AddSpec> {
 public:
  explicit ChangedBackend(std::unique_ptr<Backend> backend)
      : WrongBackend(std::move(backend), WrongOp::Spoil([](Mode, const auto&, const auto&) {})) {}
};

// Leaves out the last element of what it brings to the host in dense order.
class ForgetfulBackend final : public ChangedBackend {
 public:
  using ChangedBackend::ChangedBackend;
  void ToDense(const TensorDesc& from, const void* source, float* target) override {
    float& last = target[from.shape.elements() - 1];
    const float before = last;
    ChangedBackend::ToDense(from, source, target);
    last = before;
  }
};

// Has no more than so many bytes for one tensor.
class SmallBackend final : public ChangedBackend {
 public:
  SmallBackend(std::unique_ptr<Backend> backend, std::size_t most)
      : ChangedBackend(std::move(backend)), memory_(ChangedBackend::memory(), most) {}
  MemorySource& memory() override { return memory_; }

 private:
  class SmallMemory final : public MemorySource {
   public:
    SmallMemory(MemorySource& all, std::size_t most) : all_(all), most_(most) {}
    std::byte* Allocate(std::size_t bytes) override {
      if (bytes > most_) throw OutOfMemory("no memory");
      return all_.Allocate(bytes);
    }
    void Free(std::byte* memory, std::size_t bytes) override { all_.Free(memory, bytes); }

   private:
    MemorySource& all_;
    const std::size_t most_;
  };
  SmallMemory memory_;
};

}  // namespace lockstep::train
