// The base class of this backend's ops: fixed descriptors, and memory set by Bind.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "trainer/backend/backend.h"
#include "trainer/backend/cpu/device/device.h"
#include "trainer/backend/cpu/device/layout.h"
#include "trainer/backend/cpu/parallel.h"
#include "trainer/backend/scratch_plan.h"

namespace lockstep::train::cpu {

class BoundOp : public Op {
 public:
  const std::vector<TensorDesc>& inputs() const final { return inputs_; }
  const TensorDesc& output() const final { return output_; }
  void Bind(const OpMemory& memory) final {
    memory_ = memory;
    OnBind();
  }
  // The default: the op uses only this folder's kernels.
  std::vector<OpChoice> Choices() const override {
    const std::string name = std::string("lockstep:") + NameOf(device_.isa);
    return {{"forward", name, NameOf(input())}, {"backward", name, NameOf(input())}};
  }

 protected:
  BoundOp(const Device& device, TensorDesc input, TensorDesc output)
      : BoundOp(device, std::vector{std::move(input)}, std::move(output)) {}
  BoundOp(const Device& device, std::vector<TensorDesc> inputs, TensorDesc output)
      : device_(device), inputs_(std::move(inputs)), output_(std::move(output)) {}
  // Binds memory() to primitives.
  virtual void OnBind() {}

  const OpMemory& memory() const { return memory_; }
  const float* x(std::size_t i = 0) const { return static_cast<const float*>(memory_.x[i]); }
  float* y() const { return static_cast<float*>(memory_.y); }
  float* dy() const { return static_cast<float*>(memory_.dy); }
  float* dx(std::size_t i = 0) const { return static_cast<float*>(memory_.dx[i]); }
  const Device& device() const { return device_; }
  // Sets y to max(y, 0) and keeps NaN: the fused activation's part of Forward. oneDNN's fused relu
  // turns NaN into 0, so that a model that overflows would continue to train unnoticed.
  void ApplyRelu() const {
    ParallelForFloats(device_.threads, static_cast<std::int64_t>(output_.bytes() / sizeof(float)),
                      [this](std::int64_t begin, std::int64_t end) {
                        device_.kernels.activate(Activation::kRelu, 0, y() + begin, y() + begin,
                                                 end - begin);
                      });
  }
  // Sets dy to dy * relu'(y): the fused activation's part of Backward.
  void MaskByRelu() const {
    ParallelForFloats(device_.threads, static_cast<std::int64_t>(output_.bytes() / sizeof(float)),
                      [this](std::int64_t begin, std::int64_t end) {
                        device_.kernels.mask_by_relu(y() + begin, dy() + begin, end - begin);
                      });
  }

 private:
  const Device& device_;
  std::vector<TensorDesc> inputs_;
  TensorDesc output_;
  OpMemory memory_;
};

}  // namespace lockstep::train::cpu
