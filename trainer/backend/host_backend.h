// What back ends share whose device is the host: memory, copies, decisions about updates, and
// 16-bit types.
#pragma once

#include <memory>

#include "trainer/backend/backend.h"
#include "trainer/backend/low_precision_op.h"

namespace lockstep::train {

class HostBackend : public Backend {
 public:
  HostBackend();
  ~HostBackend() override;
  bool IsHost() const final { return true; }
  MemorySource& memory() final { return HostMemory(); }
  void Upload(const void* host, void* device, std::size_t bytes) final;
  void Download(const void* device, void* host, std::size_t bytes) final;
  void Copy(const void* from, void* to, std::size_t bytes) final;
  void Zero(void* memory, std::size_t bytes) final;
  // An op of a 16-bit type: NativeOp's, or else the float32 op between casts (low_precision_op.h).
  std::unique_ptr<Op> MakeOp(const OpSpec& spec) final;
  std::unique_ptr<Op> MakeCast(const TensorDesc& x, DType to) final;
  using Backend::Accumulate;
  void Accumulate(const void* x, void* y, std::int64_t size, DType type) final;
  void ToDense(const TensorDesc& from, const void* source, float* target) final;
  void FromDense(const float* source, const TensorDesc& to, void* target) final;
  // A stream's work is done when a call returns, so events never wait and Call runs on the caller.
  Stream& stream() final { return *stream_; }
  std::unique_ptr<Stream> MakeStream() final;
  void Multiply(float& value, const float& factor) final { value *= factor; }
  bool Computes(DType type) const override { return type == DType::kFloat32; }
  void WriteTail(const LossTotals& totals, StepTail& tail) final;
  void DecideUpdate(const UpdateMemory& memory) final;
  bool AllFinite(const float* values, std::int64_t size) final;
  void Synchronize() final {}

 protected:
  // All tensors of these are float32.
  virtual std::unique_ptr<Op> FloatOp(const OpSpec& spec) = 0;
  virtual void AccumulateFloats(const float* x, float* y, std::int64_t size) = 0;
  virtual void FloatsToDense(const TensorDesc& from, const void* source, float* target) = 0;
  virtual void FloatsFromDense(const float* source, const TensorDesc& to, void* target) = 0;
  // An op that computes in the 16-bit type of its inputs, or null if the back end or the processor
  // has none.
  virtual std::unique_ptr<Op> NativeOp(const OpSpec& /*spec*/) { return nullptr; }
  // See CastFunction. Used from one thread at a time.
  virtual void Cast(const CastOperands& operands) = 0;
  // The same result as SquaredNorm in trainer/core.
  virtual double SquaredNormOf(const float* values, std::int64_t size) = 0;

 private:
  std::unique_ptr<Stream> stream_;
};

}  // namespace lockstep::train
