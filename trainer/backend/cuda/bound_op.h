// The base class of the ops: fixed shapes, and memory set by Bind.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "base/check.h"
#include "trainer/backend/backend.h"
#include "trainer/backend/cuda/device/device.h"
#include "trainer/backend/cuda/kernels/kernels.h"
#include "trainer/backend/cuda/layout/layout.h"

namespace lockstep::train::cuda {

class BoundOp : public Op {
 public:
  // Requires: `device` outlives the op.
  BoundOp(const char* name, const Device& device, TensorDesc input, TensorDesc output)
      : BoundOp(name, device, std::vector{std::move(input)}, std::move(output)) {}
  BoundOp(const char* name, const Device& device, std::vector<TensorDesc> inputs, TensorDesc output)
      : device_(device), inputs_(std::move(inputs)), output_(std::move(output)) {
    for (const TensorDesc& input : inputs_) {
      LOCKSTEP_CHECK(IsFloat(input.dtype) && input.dtype == output_.dtype,
                     "{}: x of shape {} is {}, expected floats of the output's type {}", name,
                     input.shape.ToString(), DTypeName(input.dtype), DTypeName(output_.dtype));
    }
  }
  const std::vector<TensorDesc>& inputs() const final { return inputs_; }
  const TensorDesc& output() const final { return output_; }
  void Bind(const OpMemory& memory) final { memory_ = memory; }

 protected:
  const Device& device() const { return device_; }
  // The type of x, y, dy and dx; type() is the same as kernels take it.
  DType dtype() const { return output_.dtype; }
  int type() const { return static_cast<int>(dtype()); }
  const void* x(std::size_t i = 0) const { return memory_.x[i]; }
  void* y() const { return memory_.y; }
  void* dy() const { return memory_.dy; }
  void* dx(std::size_t i = 0) const { return memory_.dx[i]; }
  // Where element i is in the memory of a tensor of that type.
  void* At(void* memory, std::int64_t i) const {
    return static_cast<std::byte*>(memory) + static_cast<std::size_t>(i) * SizeOf(dtype());
  }
  float* parameter(std::size_t i) const { return memory_.parameters[i]; }
  float* gradient(std::size_t i) const { return memory_.gradients[i]; }
  float* state(std::size_t i) const { return memory_.states[i]; }
  template <typename T>
  T* workspace() const {
    return static_cast<T*>(memory_.workspace);
  }
  // At an offset in bytes, of a ScratchPlan.
  template <typename T>
  T* scratch(std::size_t offset = 0) const {
    return static_cast<T*>(static_cast<void*>(static_cast<std::byte*>(memory_.scratch) + offset));
  }

 private:
  const Device& device_;
  std::vector<TensorDesc> inputs_;
  TensorDesc output_;
  OpMemory memory_;
};

}  // namespace lockstep::train::cuda
