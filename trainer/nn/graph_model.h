// The only implementation of Model: a graph of ops over planned memory.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "trainer/core/arena.h"
#include "trainer/nn/compile.h"
#include "trainer/nn/flat_tensors.h"
#include "trainer/nn/model.h"
#include "trainer/nn/stages.h"

namespace lockstep::train {

class GraphModel final : public Model {
 public:
  GraphModel(ModelPart part, const ModelOptions& options, Backend& backend);
  ~GraphModel() override;

  std::span<float> parameters() override;
  std::span<float> gradients() override;
  std::span<float> states() override;
  const std::vector<TensorSlot>& parameter_slots() const override { return parameters_.slots(); }
  const std::vector<TensorSlot>& state_slots() const override { return states_.slots(); }
  const std::vector<TensorSlot>& whole_parameter_slots() const override {
    return whole_parameters_.slots();
  }
  const std::vector<TensorSlot>& whole_state_slots() const override {
    return whole_states_.slots();
  }
  void BindGradients(float* memory) override;
  void InitializeParameters() override;
  std::string LayoutFingerprint() const override;
  float* input() override;
  const float* logits() const override;
  float* logits_gradient() override;
  Border InputBorder() override;
  Border OutputBorder() override;
  void SetStep(const StepContext& step) override;
  void Forward(Mode mode) override;
  void Backward(const std::function<void(std::int64_t, std::int64_t)>& on_ready) override;
  ModelMemory Memory() const override;
  void Watch() override;
  std::vector<OpReport> Report() const override;

 private:
  struct OpSlots {  // indices of an op's first tensors in the lists of slots
    std::size_t first_parameter = 0, first_state = 0;
  };

  struct OpTimes {  // shortest, in seconds
    double forward, backward;
  };

  // Where an op's dx goes. The gradient of a tensor that several ops read is the sum of theirs: the
  // first to run writes it, each later one writes to `written`, which is added to `sum`.
  struct InputGradient {
    std::size_t written = 0;    // offset, or kNotWanted
    std::size_t sum = 0;        // offset, or kNotWanted: nothing is added
    std::int64_t elements = 0;  // of both
    DType type = DType::kFloat32;
  };
  struct OpBuffers {  // offsets in buffers_
    std::vector<std::size_t> x;
    std::vector<InputGradient> dx;
    std::size_t y = 0, dy = 0, workspace = 0;
    // The ops whose outputs are restored before its backward pass, in this order.
    std::vector<int> restored;
  };

  void AllocateTensors();
  void PlanBuffers();
  void BindOps();
  OpMemory MemoryOf(std::size_t op) const;
  void AccumulateGradients(const OpBuffers& buffers);
  StepContext* step() const { return buffers_.At<StepContext>(step_); }

  std::vector<NamedOp> ops_;
  std::vector<OpSlots> op_slots_;
  ModelOptions options_;
  Backend& backend_;

  FlatTensors parameters_, states_;              // of this stage
  FlatTensors whole_parameters_, whole_states_;  // of all stages
  std::size_t first_parameter_, first_state_;    // of this stage among those of all
  std::string stages_fingerprint_;
  Arena values_, state_values_, buffers_;  // the first two are empty if they are shared
  std::optional<Arena> own_gradients_;     // until BindGradients
  float* parameter_memory_ = nullptr;
  float* state_memory_ = nullptr;
  float* gradients_ = nullptr;

  std::vector<OpBuffers> op_buffers_;
  std::size_t samples_ = 0, samples_gradient_ = 0;  // of the stage before, in a later stage
  std::size_t scratch_ = 0, scratch_bytes_ = 0;
  std::size_t step_ = 0;
  std::vector<OpTimes> times_;  // empty before Watch()
};

}  // namespace lockstep::train
