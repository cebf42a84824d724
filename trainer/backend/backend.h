// The interface of a compute device. Ops are created for fixed shapes, bound to fixed memory, and
// then run every step without allocating. A backend's ops run in order on one stream; Synchronize()
// waits for it. Not thread-safe. Device failures throw DeviceError.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "trainer/backend/op_spec.h"
#include "trainer/core/tensor.h"

namespace lockstep::train {

class DeviceError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A parameter's initial values. Fans are as in Keras: receptive field x channels.
enum class Init { kZeros, kOnes, kGlorotUniform };

struct ParameterDesc {
  std::string name;      // "weight", "bias", "gamma", "beta"; the layer's name precedes it
  TensorDesc desc = {};  // conv weight: K,C,R,S   dense weight: out,in   bias: K
  Init init = Init::kZeros;
  std::int64_t fan_in = 1, fan_out = 1;
};

// The values that change from step to step.
struct StepContext {
  bool training = true;
  std::int64_t valid = 0;  // leading rows of the batch with real samples; the rest is padding
  std::uint64_t step = 0;
  std::uint64_t seed = 0;
  std::uint64_t first_position = 0;  // global position of row 0, for dropout's counters
};

// An op's memory, which the owner provides. Pointers are aligned to kArenaAlignment. Parameters and
// gradients are in the order of Parameters(), states in the order of States(). All three are dense,
// so that replicas on different processors have the same floats at the same offsets.
struct OpMemory {
  std::vector<const void*> x;  // one for each input; x and y stay unchanged until Backward
  void* y = nullptr;           // never x's memory
  void* dy = nullptr;          // may be overwritten by Backward
  std::vector<void*> dx;       // one for each input; null: not needed
  std::vector<float*> parameters, gradients, states;
  void* workspace = nullptr;  // preserved from Forward to Backward
  void* scratch = nullptr;    // shared by all ops; not preserved between calls
};

// The implementation of one pass of an op, for people and tests: {"backward data", "jit:avx2",
// "nhwc > nhwc"}.
struct OpChoice {
  std::string pass;            // "forward", "backward", "backward data", "backward weights"
  std::string implementation;  // oneDNN's name, or "lockstep:avx2" for our own kernels
  std::string layout;          // of x and y
};

// One differentiable operation of one or more inputs x -> y.
class Op {
 public:
  virtual ~Op() = default;
  virtual const std::vector<TensorDesc>& inputs() const = 0;  // the spec's x
  const TensorDesc& input() const { return inputs().front(); }
  virtual const TensorDesc& output() const = 0;  // the backend chooses the layout
  virtual std::vector<ParameterDesc> Parameters() const { return {}; }
  // Tensors that are saved but not trained: running mean and variance.
  virtual std::vector<ParameterDesc> States() const { return {}; }
  virtual std::size_t WorkspaceBytes() const { return 0; }
  virtual std::size_t ScratchBytes() const { return 0; }
  // True if the first input's dx may share dy's memory.
  virtual bool BackwardInPlace() const { return false; }
  // The implementation of each pass, chosen at creation. Empty if the backend does not report it.
  virtual std::vector<OpChoice> Choices() const { return {}; }
  virtual void Bind(const OpMemory& memory) = 0;
  virtual void Forward(const StepContext& step) = 0;
  // Overwrites dx and the gradients. Requires: Forward was called with training = true.
  virtual void Backward(const StepContext& step) = 0;
};

// Softmax cross-entropy over the last axis with a weight per row; loss and gradient in one pass.
//   loss   = sum_i weight_i * CE(logits_i, label_i)   (a sum, not a mean)
//   dlogits_i = scale * weight_i * (softmax(logits_i) - onehot(label_i))
class LossOp {
 public:
  struct Memory {
    const float* logits = nullptr;         // N,K dense
    float* dlogits = nullptr;              // N,K dense; null: loss only
    const std::int32_t* labels = nullptr;  // N; null with one_hot
    const float* one_hot = nullptr;        // N,K; may be soft; null with labels
    const float* weights = nullptr;        // N; 0 for padding
  };
  struct Result {
    double loss = 0;     // weighted sum
    double correct = 0;  // weighted count of argmax == label (argmax of one_hot)
  };
  virtual ~LossOp() = default;
  virtual void Bind(const Memory& memory) = 0;
  virtual Result Run(float scale) = 0;
};

// Consecutive values that share the settings of an update.
struct OptimizerSegment {
  std::int64_t begin = 0, end = 0;
  bool decays = true;  // false: no weight decay
};
// The flat ranges of an elementwise update, all of the same length and order.
struct OptimizerMemory {
  float* values = nullptr;
  const float* gradients = nullptr;
  std::vector<float*> slots;  // SGD: momentum (if any); Adam: m, v
  std::int64_t size = 0;
  // Ascending, and adjacent from 0 to `size`. Empty: one segment that decays.
  std::vector<OptimizerSegment> segments;
};
struct OptimizerStep {
  float learning_rate = 0;
  std::int64_t step = 1;     // counts from 1
  float gradient_scale = 1;  // the update's gradient is scale * gradients
};
class OptimizerOp {
 public:
  virtual ~OptimizerOp() = default;
  virtual int Slots() const = 0;
  virtual void Bind(const OptimizerMemory& memory) = 0;
  virtual void Step(const OptimizerStep& step) = 0;
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string Name() const = 0;  // "reference", "cpu"
  // The device's description for logs: "reference", "cpu:avx2".
  virtual std::string Device() const { return Name(); }
  // Throws CheckFailure if the spec is invalid for any backend: a window that does not fit, say.
  virtual std::unique_ptr<Op> MakeOp(const OpSpec& spec) = 0;
  virtual std::unique_ptr<LossOp> MakeSoftmaxCrossEntropy(std::int64_t rows,
                                                          std::int64_t classes) = 0;
  virtual std::unique_ptr<OptimizerOp> MakeOptimizer(const OptimizerRule& rule) = 0;
  // Converts a batch's bytes to the model's float input: y[i] = scale * x[i].
  virtual void ConvertInput(const std::uint8_t* x, float* y, std::int64_t size, float scale) = 0;
  // y[i] += x[i]: sums the gradients of a tensor that several ops read.
  virtual void Accumulate(const float* x, float* y, std::int64_t size) = 0;
  // The same result as SquaredNorm in trainer/core, of device memory and on any number of threads.
  virtual double SquaredNorm(const float* values, std::int64_t size) = 0;
  // Convert between a layout and dense row-major order, for checkpoints and tests.
  virtual void ToDense(const TensorDesc& from, const void* source, float* target) = 0;
  virtual void FromDense(const float* source, const TensorDesc& to, void* target) = 0;
  virtual void Synchronize() {}
};

struct BackendOptions {
  std::string name = "cpu";  // reference | cpu
  int threads = 1;
};
// Throws CheckFailure if the name is unknown or threads < 1.
std::unique_ptr<Backend> MakeBackend(const BackendOptions& options);

}  // namespace lockstep::train
