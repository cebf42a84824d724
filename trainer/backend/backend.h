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

#include "trainer/core/tensor.h"

namespace lockstep::train {

class DeviceError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

enum class Padding { kValid, kSame };  // as in Keras: same = ceil(in / stride), extra at the end
enum class Activation { kNone, kRelu };

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
  const void* x = nullptr;
  void* y = nullptr;
  void* dy = nullptr;  // may be overwritten by Backward
  void* dx = nullptr;  // null: not needed
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

// One differentiable operation x -> y.
class Op {
 public:
  virtual ~Op() = default;
  virtual const TensorDesc& input() const = 0;   // as passed to Make…
  virtual const TensorDesc& output() const = 0;  // the backend chooses the layout
  virtual std::vector<ParameterDesc> Parameters() const { return {}; }
  // Tensors that are saved but not trained: running mean and variance.
  virtual std::vector<ParameterDesc> States() const { return {}; }
  virtual std::size_t WorkspaceBytes() const { return 0; }
  virtual std::size_t ScratchBytes() const { return 0; }
  // True if y may share x's memory and dx may share dy's.
  virtual bool InPlace() const { return false; }
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

// The flat ranges of an elementwise update, all of the same length and order.
struct OptimizerMemory {
  float* values = nullptr;
  const float* gradients = nullptr;
  std::vector<float*> slots;  // SGD: momentum (if any); Adam: m, v
  std::int64_t size = 0;
};
// As in Keras: v = momentum * v - lr * g; w += v (nesterov: w += momentum * v - lr * g).
struct SgdSpec {
  float momentum = 0;  // 0: no slot
  bool nesterov = false;
  float weight_decay = 0;  // decoupled, before the update: w -= lr * decay * w
};
// Kingma & Ba 2015, as in Keras: lr_t = lr * sqrt(1 - b2^t) / (1 - b1^t); epsilon is added to
// sqrt(v) without bias correction.
struct AdamSpec {
  float beta1 = 0.9f, beta2 = 0.999f, epsilon = 1e-7f;
  float weight_decay = 0;  // decoupled (AdamW), before the update, as in SGD
};
class OptimizerOp {
 public:
  virtual ~OptimizerOp() = default;
  virtual int Slots() const = 0;
  virtual void Bind(const OptimizerMemory& memory) = 0;
  // `step` counts from 1.
  virtual void Step(float learning_rate, std::int64_t step) = 0;
};

struct Conv2dSpec {
  TensorDesc x = {};  // N,C,H,W
  std::int64_t filters = 0, kernel_h = 0, kernel_w = 0, stride_h = 1, stride_w = 1;
  Padding padding = Padding::kValid;
  bool bias = true;
  Activation activation = Activation::kNone;
  bool input_gradient = true;  // if false, dx is not computed, as in the first layer
};
struct DenseSpec {
  TensorDesc x = {};  // N,…: all axes but N are flattened in logical (C,H,W) order
  std::int64_t units = 0;
  bool bias = true;
  Activation activation = Activation::kNone;
  bool input_gradient = true;
};
enum class PoolKind { kMax, kAverage };
struct Pool2dSpec {   // the average does not count padding, as in Keras
  TensorDesc x = {};  // N,C,H,W
  PoolKind kind = PoolKind::kMax;
  std::int64_t window_h = 2, window_w = 2, stride_h = 2, stride_w = 2;
  Padding padding = Padding::kValid;
  Activation activation = Activation::kNone;  // max pool only: relu before (= after) the pool
};
// Normalizes over N,H,W (or N) of the valid rows. As in Keras, the variance is biased, in the step
// and in the moving averages (moving = momentum * moving + (1 - momentum) * step's). Padding rows
// of y are finite but meaningless; those of dx are 0. Without valid rows, or in evaluation, uses
// the moving averages unchanged. Parameters: gamma, beta (C); states: mean, variance (C).
struct BatchNormSpec {
  TensorDesc x = {};  // N,C,H,W or N,C
  float momentum = 0.99f, epsilon = 1e-3f;
};
// Inverted dropout: kept elements are divided by 1 - rate. Element e (in logical C,H,W order) of
// the row at global position p = first_position + row is kept if UniformFloat(word) >= rate, where
//   word = Philox(DeriveKey(seed, layer), p, step << 32 | e / 4)[e % 4].
struct DropoutSpec {
  TensorDesc x = {};  // N,…
  float rate = 0.5f;
  std::uint64_t layer = 0;
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string Name() const = 0;  // "reference", "cpu"
  // The device's description for logs: "reference", "cpu:avx2".
  virtual std::string Device() const { return Name(); }
  virtual std::unique_ptr<Op> MakeConv2d(const Conv2dSpec& spec) = 0;
  virtual std::unique_ptr<Op> MakeDense(const DenseSpec& spec) = 0;
  virtual std::unique_ptr<Op> MakePool2d(const Pool2dSpec& spec) = 0;
  virtual std::unique_ptr<Op> MakeGlobalAveragePool2d(const TensorDesc& x) = 0;  // -> N,C
  virtual std::unique_ptr<Op> MakeBatchNorm(const BatchNormSpec& spec) = 0;
  virtual std::unique_ptr<Op> MakeRelu(const TensorDesc& x) = 0;
  virtual std::unique_ptr<Op> MakeDropout(const DropoutSpec& spec) = 0;
  virtual std::unique_ptr<LossOp> MakeSoftmaxCrossEntropy(std::int64_t rows,
                                                          std::int64_t classes) = 0;
  virtual std::unique_ptr<OptimizerOp> MakeSgd(const SgdSpec& spec) = 0;
  virtual std::unique_ptr<OptimizerOp> MakeAdam(const AdamSpec& spec) = 0;
  // Converts a batch's bytes to the model's float input: y[i] = scale * x[i].
  virtual void ConvertInput(const std::uint8_t* x, float* y, std::int64_t size, float scale) = 0;
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
