// The base class of the reference ops: fixed dense shapes, and memory set by Bind.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "base/check.h"
#include "trainer/backend/backend.h"

namespace lockstep::train::reference {

class BoundOp : public Op {
 public:
  BoundOp(const char* name, TensorDesc input, Shape output)
      : BoundOp(name, std::vector{std::move(input)}, std::move(output)) {}
  BoundOp(const char* name, std::vector<TensorDesc> inputs, Shape output)
      : inputs_(std::move(inputs)), output_{.shape = std::move(output)} {
    for (const TensorDesc& input : inputs_) {
      LOCKSTEP_CHECK(input.dense() && input.dtype == DType::kFloat32,
                     "{}: x of shape {} must be dense float32", name, input.shape.ToString());
    }
  }
  const std::vector<TensorDesc>& inputs() const final { return inputs_; }
  const TensorDesc& output() const final { return output_; }
  // The same for every op here: Backward is written without a thought of memory.
  BackwardReads Reads() const final { return {.x = true, .y = true}; }
  void Bind(const OpMemory& memory) final { memory_ = memory; }

 protected:
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

 private:
  std::vector<TensorDesc> inputs_;
  TensorDesc output_;
  OpMemory memory_;
};

// Sets dy to dy * relu'(y): the fused activation's part of Backward.
inline void MaskByRelu(const float* y, float* dy, std::int64_t size) {
  for (std::int64_t i = 0; i < size; ++i) dy[i] = y[i] > 0 ? dy[i] : 0.0f;
}

}  // namespace lockstep::train::reference
