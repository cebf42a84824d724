// The base class of the reference ops: fixed dense shapes, and memory set by Bind.
#pragma once

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "trainer/backend/backend.h"

namespace lockstep::train::reference {

class BoundOp : public Op {
 public:
  BoundOp(const char* name, TensorDesc input, Shape output)
      : input_(std::move(input)), output_{.shape = std::move(output)} {
    LOCKSTEP_CHECK(input_.dense() && input_.dtype == DType::kFloat32,
                   "{}: x of shape {} must be dense float32", name, input_.shape.ToString());
  }
  const TensorDesc& input() const final { return input_; }
  const TensorDesc& output() const final { return output_; }
  void Bind(const OpMemory& memory) final { memory_ = memory; }

 protected:
  const float* x() const { return static_cast<const float*>(memory_.x); }
  float* y() const { return static_cast<float*>(memory_.y); }
  float* dy() const { return static_cast<float*>(memory_.dy); }
  float* dx() const { return static_cast<float*>(memory_.dx); }
  float* parameter(std::size_t i) const { return memory_.parameters[i]; }
  float* gradient(std::size_t i) const { return memory_.gradients[i]; }
  float* state(std::size_t i) const { return memory_.states[i]; }
  template <typename T>
  T* workspace() const {
    return static_cast<T*>(memory_.workspace);
  }

 private:
  TensorDesc input_, output_;
  OpMemory memory_;
};

// Sets dy to dy * relu'(y): the fused activation's part of Backward.
inline void MaskByRelu(const float* y, float* dy, std::int64_t size) {
  for (std::int64_t i = 0; i < size; ++i) dy[i] = y[i] > 0 ? dy[i] : 0.0f;
}

}  // namespace lockstep::train::reference
