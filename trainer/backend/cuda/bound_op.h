// The base class of the ops: fixed shapes, and memory set by Bind.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "base/check.h"
#include "trainer/backend/backend.h"
#include "trainer/backend/cuda/device.h"
#include "trainer/backend/cuda/kernels/kernels.h"
#include "trainer/backend/cuda/layout.h"

namespace lockstep::train::cuda {

class BoundOp : public Op {
 public:
  // Requires: `device` outlives the op.
  BoundOp(const char* name, const Device& device, TensorDesc input, TensorDesc output)
      : BoundOp(name, device, std::vector{std::move(input)}, std::move(output)) {}
  BoundOp(const char* name, const Device& device, std::vector<TensorDesc> inputs, TensorDesc output)
      : device_(device), inputs_(std::move(inputs)), output_(std::move(output)) {
    for (const TensorDesc& input : inputs_) {
      LOCKSTEP_CHECK(input.dtype == DType::kFloat32, "{}: x of shape {} is {}, expected float32",
                     name, input.shape.ToString(), DTypeName(input.dtype));
    }
  }
  const std::vector<TensorDesc>& inputs() const final { return inputs_; }
  const TensorDesc& output() const final { return output_; }
  void Bind(const OpMemory& memory) final { memory_ = memory; }

 protected:
  const Device& device() const { return device_; }
  const float* x(std::size_t i = 0) const { return static_cast<const float*>(memory_.x[i]); }
  float* y() const { return static_cast<float*>(memory_.y); }
  float* dy() const { return static_cast<float*>(memory_.dy); }
  float* dx(std::size_t i = 0) const { return static_cast<float*>(memory_.dx[i]); }
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
