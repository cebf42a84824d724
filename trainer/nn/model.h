// A Keras-Sequential model on one back end: layers become ops, memory is planned, and a step runs
// without allocating. Not thread-safe.
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

namespace lockstep::train {

struct ModelOptions {
  std::int64_t batch = 0;    // rows of every step, padding included
  Shape input;               // C,H,W of one sample
  std::int64_t classes = 0;  // the last layer must give N,classes
  std::uint64_t seed = 1;    // of the initial parameters and of dropout: the model
                             // puts it into every StepContext that it hands on
};

// A named tensor inside one of the model's flat ranges. Ranges are aligned to kArenaAlignment, so
// there may be unused floats between two tensors; they stay zero.
struct TensorSlot {
  std::string name;  // "conv2d_1/weight"
  TensorDesc desc;
  std::int64_t offset = 0, size = 0;  // floats, within the flat range
};

// What one op of the model does and takes, for people.
struct OpReport {
  std::string name;  // the layer's
  Shape x, y;
  std::vector<OpChoice> choices;
  // The shortest since Watch(); infinite if the pass has not run since. On devices with a queue,
  // the time to enqueue it.
  double forward_seconds, backward_seconds;
};

class Model {
 public:
  // `layers`: [{"type": "Conv2D", "filters": 32, "kernelSize": 5, "padding": "same",
  // "activation": "relu"}, …]. InvalidArgument names the layer, the field, what was found and what
  // is expected, as "layers[2].units: …".
  static absl::StatusOr<std::unique_ptr<Model>> Build(const std::vector<nlohmann::json>& layers,
                                                      const ModelOptions& options,
                                                      Backend& backend);
  virtual ~Model() = default;

  // Flat ranges, layer by layer in forward order. Values and states are the model's own;
  // gradients live where BindGradients put them (shared memory, say), until then in own memory.
  virtual std::span<float> parameters() = 0;
  virtual std::span<float> gradients() = 0;
  virtual std::span<float> states() = 0;
  virtual const std::vector<TensorSlot>& parameter_slots() const = 0;
  virtual const std::vector<TensorSlot>& state_slots() const = 0;
  // `memory` holds parameters().size() floats, aligned to kArenaAlignment; it is zeroed. What was
  // bound to gradients() before (an optimizer) must be bound again.
  virtual void BindGradients(float* memory) = 0;

  // Same seed, same values, whatever the back end and its layouts.
  virtual void InitializeParameters() = 0;
  // Equal on ranks whose flat ranges mean the same: names, shapes and layouts.
  virtual std::string LayoutFingerprint() const = 0;

  virtual float* input() = 0;  // batch,C,H,W dense; written by the caller before Forward
  virtual const float* logits() const = 0;  // batch,classes dense
  virtual float* logits_gradient() = 0;     // written by the loss before Backward

  virtual void Forward(const StepContext& step) = 0;
  // Calls `on_ready(offset, size)` as the gradients of a layer are complete: last layer first,
  // ranges contiguous and descending, together exactly all of gradients().
  virtual void Backward(const StepContext& step,
                        const std::function<void(std::int64_t, std::int64_t)>& on_ready) = 0;
  virtual std::size_t MemoryBytes() const = 0;

  // From now on each op's passes are timed, which costs two looks at the clock each.
  virtual void Watch() = 0;
  // One entry for each op, in forward order.
  virtual std::vector<OpReport> Report() const = 0;
};

}  // namespace lockstep::train
