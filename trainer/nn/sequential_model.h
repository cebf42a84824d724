// The only implementation of Model: a sequence of ops over planned memory.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "trainer/core/arena.h"
#include "trainer/nn/compile.h"
#include "trainer/nn/model.h"

namespace lockstep::train {

// Aligned tensors of one kind (parameters or states) in forward order.
class FlatRange {
 public:
  // Appends a tensor of the op named `op_name`; adds its slot.
  void Append(const std::string& op_name, const ParameterDesc& parameter);
  const std::vector<TensorSlot>& slots() const { return slots_; }
  const std::vector<ParameterDesc>& descs() const { return descs_; }
  std::int64_t size() const { return size_; }  // floats

 private:
  std::vector<TensorSlot> slots_;
  std::vector<ParameterDesc> descs_;
  std::int64_t size_ = 0;
};

class SequentialModel final : public Model {
 public:
  SequentialModel(std::vector<NamedOp> ops, const ModelOptions& options, Backend& backend);

  std::span<float> parameters() override;
  std::span<float> gradients() override;
  std::span<float> states() override;
  const std::vector<TensorSlot>& parameter_slots() const override { return parameters_.slots(); }
  const std::vector<TensorSlot>& state_slots() const override { return states_.slots(); }
  void BindGradients(float* memory) override;
  void InitializeParameters() override;
  std::string LayoutFingerprint() const override;
  float* input() override;
  const float* logits() const override;
  float* logits_gradient() override;
  void Forward(const StepContext& step) override;
  void Backward(const StepContext& step,
                const std::function<void(std::int64_t, std::int64_t)>& on_ready) override;
  std::size_t MemoryBytes() const override;
  void Watch() override;
  std::vector<OpReport> Report() const override;

 private:
  struct OpSlots {  // indices of an op's first tensors in the lists of slots
    std::size_t first_parameter = 0, first_state = 0;
  };

  struct OpTimes {  // shortest, in seconds
    double forward, backward;
  };

  void PlanActivations();
  void BindOps();
  OpMemory MemoryOf(std::size_t op) const;
  bool NeedsBackward(const NamedOp& op) const;
  StepContext Seeded(StepContext step) const;

  std::vector<NamedOp> ops_;
  std::vector<OpSlots> op_slots_;
  ModelOptions options_;
  Backend& backend_;

  FlatRange parameters_, states_;
  Arena values_, own_gradients_, state_values_, buffers_;
  float* gradients_ = nullptr;

  // Offsets in buffers_. Activation i is the input of op i and the output of op i - 1; likewise for
  // the gradients, some of which are not needed.
  std::vector<std::size_t> activations_, activation_gradients_, workspaces_;
  std::size_t scratch_ = 0;
  std::vector<OpTimes> times_;  // empty before Watch()
};

}  // namespace lockstep::train
