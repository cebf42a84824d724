// A Keras Sequential model on one backend: layers become ops, memory is planned once, and a step
// does not allocate. Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "trainer/backend/backend.h"
#include "trainer/core/arena.h"
#include "trainer/nn/model_outputs.h"
#include "trainer/nn/op_facts.h"

namespace lockstep::train {

// Which stage of a model a process computes; see stages.h. A model that is not cut has one.
struct ModelStage {
  int index = 0, count = 1;
  bool is_first() const { return index == 0; }
  bool is_last() const { return index == count - 1; }
};

class Model;

// Which outputs of ops a model computes again in its backward passes (activation checkpointing),
// instead of keeping them. The results are the same, bit for bit.
enum class Recomputation {
  kNone,
  // Those of ops that do little but move memory: normalizations, activations, sums, pools. About a
  // third of a residual network's activations, for a few percent more time.
  kSelective,
  // Those of any op, as many as take the least memory. At most one more forward pass.
  kFull,
};

struct ModelOptions {
  std::int64_t batch = 0;     // rows of every step, padding included
  Shape input;                // C,H,W of one sample
  std::int64_t classes = 0;   // the last layer must give N,classes: see outputs
  std::uint64_t seed = 1;     // for the initial parameters and dropout
  ModelOutputs outputs = {};  // what the last layer's values are
  // The type of the values that flow between layers: float32, bfloat16 or float16. Samples, logits,
  // parameters, states and their gradients are always float32.
  DType type = DType::kFloat32;
  MemorySource* parameter_memory = nullptr;  // null: the back end's; else it outlives the model
  // False: Build leaves parameters and states zero, until InitializeParameters.
  bool initializes = true;
  // False: the model only evaluates. It has no gradients, and an op's output lives only until its
  // last reader has run. Forward takes only kEvaluation, and Backward must not be called.
  bool trains = true;
  Recomputation recomputation = Recomputation::kNone;
  // The model has only this stage's ops and tensors.
  ModelStage stage = {};
  // If not null, the model has only activations of its own, and uses the parameters, states and
  // gradients of that model, so that several micro-batches can be between their forward and
  // backward passes. Requires: that model has been built with the same options, and outlives this
  // one.
  Model* shares_with = nullptr;
};

// A named tensor in one of the model's flat ranges. Tensors are aligned to kArenaAlignment, so
// there may be unused floats between two of them, which stay zero.
struct TensorSlot {
  std::string name;  // "conv2d_1/weight"
  TensorDesc desc;
  std::int64_t offset = 0, size = 0;  // floats, within the flat range
  float kept = 1;                     // as in ParameterDesc
};

// Describes one op of the model and its time, for people.
struct OpReport {
  std::string name;  // the layer's name
  OpFacts facts;
  Shape x, y;
  std::int64_t parameters = 0, states = 0;  // elements
  std::vector<OpChoice> choices;
  // The shortest time since Watch(); infinite if the pass has not run since. On a device with a
  // queue, the pass starts with an empty queue and is timed until the device has finished it.
  double forward_seconds, backward_seconds;
};

// Bytes of device memory, alignment included.
struct ModelMemory {
  std::size_t parameters = 0, states = 0;
  std::size_t gradients = 0;    // 0 once BindGradients has moved them, or if it does not train
  std::size_t activations = 0;  // the samples, what flows between ops, its gradients, workspaces
  std::size_t scratch = 0;      // shared by all ops
  std::size_t total() const { return parameters + states + gradients + activations + scratch; }
};

class Model {
 public:
  // Builds the model and initializes its parameters. `layers`: [{"type": "Conv2D", "filters": 32,
  // "kernelSize": 5, "padding": "same", "activation": "relu"}, …]. InvalidArgument names the layer,
  // the field, what was found and what is expected, as "layers[2].units: …". Requires: `backend`
  // outlives the model.
  static absl::StatusOr<std::unique_ptr<Model>> Build(const std::vector<nlohmann::json>& layers,
                                                      const ModelOptions& options,
                                                      Backend& backend);
  virtual ~Model() = default;

  // Flat ranges of device memory, layer by layer in forward order. The model owns the parameters
  // and states, and the gradients until BindGradients moves them (to shared memory, for example).
  // A model that does not train has an empty range of gradients.
  virtual std::span<float> parameters() = 0;
  virtual std::span<float> gradients() = 0;
  virtual std::span<float> states() = 0;
  virtual const std::vector<TensorSlot>& parameter_slots() const = 0;
  virtual const std::vector<TensorSlot>& state_slots() const = 0;
  // The tensors of all stages; offsets are those of a model with one stage.
  virtual const std::vector<TensorSlot>& whole_parameter_slots() const = 0;
  virtual const std::vector<TensorSlot>& whole_state_slots() const = 0;
  // Moves the gradients to `memory` and zeroes it. Objects bound to the previous gradients() (an
  // optimizer) must be bound again. Requires: `memory` holds parameters().size() floats and is
  // aligned to kArenaAlignment; it is device memory.
  // The model's own memory for gradients is freed. Requires: the model trains.
  virtual void BindGradients(float* memory) = 0;

  // Sets parameters and states to their initial values, which depend only on the seed, not on the
  // backend or its layouts.
  virtual void InitializeParameters() = 0;
  // Equal on ranks whose models have the same stages, and tensors with the same names, shapes,
  // offsets and layouts; otherwise different, up to a collision of 64 bits. Consists of facts as in
  // rendezvous/fingerprint.h: the numbers of parameter tensors and of state tensors, a digest of
  // their names and shapes, and one of their offsets and layouts. Its length does not grow with the
  // model's depth, because a process must introduce itself within a few KiB.
  virtual std::string LayoutFingerprint() const = 0;

  // Device memory. The first stage has the input, the last one the logits.
  virtual float* input() = 0;  // batch,C,H,W dense; written by the caller before Forward
  virtual const float* logits() const = 0;  // batch,classes dense
  virtual float* logits_gradient() = 0;     // written by the loss before Backward; it must train

  // Where two stages meet: the tensor that the earlier stage computes and the later one reads, and
  // its gradient, which the later stage computes. Device memory. The caller writes the tensor to
  // the later stage before its Forward, and the gradient to the earlier stage before its Backward;
  // each stage's own result is there after the pass that computes it, until the next pass.
  struct Border {
    void* value = nullptr;
    void* gradient = nullptr;  // null if the model does not train
    std::size_t bytes = 0;     // of each
  };
  virtual Border InputBorder() = 0;   // requires: the stage is not the first
  virtual Border OutputBorder() = 0;  // requires: the stage is not the last

  // Uploads the step that the next Forward and Backward read, with the model's own seed.
  virtual void SetStep(const StepContext& step) = 0;
  virtual void Forward(Mode mode) = 0;
  // Calls `on_ready(offset, size)` when a layer's gradients are complete (or queued, if the device
  // has a queue), from the last layer to the first. The ranges are contiguous and descending, and
  // together cover exactly gradients(). Requires: Forward(kTraining) was called since SetStep.
  virtual void Backward(const std::function<void(std::int64_t, std::int64_t)>& on_ready) = 0;
  virtual ModelMemory Memory() const = 0;

  // Starts to time each op's passes, which costs two clock reads per pass. A recorded step is
  // not timed.
  virtual void Watch() = 0;
  // Returns one entry per op, in forward order.
  virtual std::vector<OpReport> Report() const = 0;
};

}  // namespace lockstep::train
