// The interface of a compute device. Ops are created for fixed shapes, bound to fixed memory, and
// then run every step without allocating. A backend's ops run in order on one stream; Synchronize()
// waits for it. Not thread-safe. Device failures throw DeviceError.
//
// Pointers to tensors, and references to the types of step_block.h, are to device memory unless a
// comment says "host": above this folder, only their addresses may be used.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "trainer/backend/input_scaling.h"
#include "trainer/backend/op_spec.h"
#include "trainer/backend/step_block.h"
#include "trainer/core/memory_source.h"
#include "trainer/core/stream.h"
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
  float kept = 1;  // of a state: the share of its value that a pass in training keeps
};

enum class Mode { kTraining, kEvaluation };

// An op's memory, which the owner provides. Pointers are aligned to kArenaAlignment. Parameters and
// gradients are in the order of Parameters(), states in the order of States(). All three are dense,
// so that replicas on different processors have the same floats at the same offsets.
struct OpMemory {
  std::vector<const void*> x;  // one for each input; what Op::Reads says of x and y is in Backward
                               // as Forward has read and left it
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

// Which of the values around an op its backward pass reads.
struct BackwardReads {
  bool x = true, y = true;
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
  // The memory of what Backward does not read may be used for something else after Forward. What it
  // reads takes memory until then, or is computed again for it.
  virtual BackwardReads Reads() const = 0;
  // The implementation of each pass, chosen at creation. Empty if the backend does not report it.
  virtual std::vector<OpChoice> Choices() const { return {}; }
  virtual void Bind(const OpMemory& memory) = 0;
  virtual void Forward(Mode mode, const StepContext& step) = 0;
  // Writes y once more: bit for bit what Forward has written, and leaves the states as they are.
  // Requires: Forward was called with kTraining and this step, and x, the parameters and the
  // workspace are as it has left them. An op with states overrides this.
  virtual void Restore(const StepContext& step) { Forward(Mode::kTraining, step); }
  // Overwrites dx and the gradients. Requires: Forward was called with kTraining and this step.
  virtual void Backward(const StepContext& step) = 0;
};

// The loss of N rows of K values with a weight per row; loss and gradient in one pass.
//   totals->loss += sum_i weight_i * L(logits_i, target_i)   (a sum, not a mean)
//   dlogits_i = *scale * weight_i * dL/dlogits_i
// Rows of weight 0 are not read; their gradient is 0. SoftmaxCrossEntropySpec and
// ElementwiseLossSpec say what L is, and what is added to totals->correct.
class LossOp {
 public:
  struct Memory {
    const float* logits = nullptr;         // N,K dense
    float* dlogits = nullptr;              // N,K dense; null: loss only
    const std::int32_t* labels = nullptr;  // N; null if `targets` are set
    const float* targets = nullptr;        // N,K; null if `labels` are set
    const float* weights = nullptr;        // N; 0 for padding
    const float* scale = nullptr;          // null if `dlogits` is null
    LossTotals* totals = nullptr;
  };
  virtual ~LossOp() = default;
  virtual void Bind(const Memory& memory) = 0;
  virtual void Run() = 0;
};

// The flat ranges of an update, all of the same length and order.
struct OptimizerMemory {
  float* values = nullptr;
  const float* gradients = nullptr;
  // SGD, LARS: momentum (if any); Adam, LAMB: m, v; RMSprop: mean square, momentum (if any);
  // Adagrad: the sum of squares; Muon: m, and Adam's v, which no matrix uses.
  std::vector<float*> slots;
  std::int64_t size = 0;
  // In ascending order and without gaps, from 0 to `size`. Empty: one segment, with weight decay.
  // LARS and LAMB treat each segment as one tensor.
  std::vector<OptimizerSegment> segments;
  const OptimizerStep* step = nullptr;
  void* scratch = nullptr;  // OptimizerOp::ScratchBytes(); not preserved between steps
};
class OptimizerOp {
 public:
  virtual ~OptimizerOp() = default;
  virtual int Slots() const = 0;
  virtual std::size_t ScratchBytes() const { return 0; }
  virtual void Bind(const OptimizerMemory& memory) = 0;
  // Updates values and slots as *step says.
  virtual void Step() = 0;
};

// What decides a step's update, and what it decides: see DecideUpdate.
struct UpdateMemory {
  const UpdateSettings* settings = nullptr;
  const bool* is_summed = nullptr;
  const float* gradients = nullptr;
  std::int64_t size = 0;
  const StepTail* tail = nullptr;
  UpdateGate* gate = nullptr;
  OptimizerStep* update = nullptr;
  StepResult* result = nullptr;
  // The running statistics become `summed_states` if the update applies, else `saved_states`.
  float* states = nullptr;
  const float* summed_states = nullptr;
  const float* saved_states = nullptr;
  std::int64_t states_size = 0;
};

// What is known of a device or of a library that it needs: {"cuDNN", "9.19.0"}.
struct DeviceFact {
  std::string name, value;
};

// Work that a back end has recorded. Requires: the back end, and the memory that the work uses,
// outlive it.
class Recording {
 public:
  virtual ~Recording() = default;
  // Queues the work once more.
  virtual void Replay() = 0;
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string Name() const = 0;  // "reference", "cpu", "async-reference", "cuda"
  // The device's description for logs: "reference", "cpu:avx2".
  virtual std::string Device() const { return Name(); }
  // More of it, for people, in the order in which it is read.
  virtual std::vector<DeviceFact> Facts() const { return {}; }
  // The op computes in the type of its inputs, which is also that of its output: float32, bfloat16
  // or float16. With a 16-bit type, sums have float32's precision or better, matrices and kernels
  // are rounded to that type before they are used, and parameters, states and their gradients
  // remain float32. Throws CheckFailure if the spec is invalid for any backend: a window that does
  // not fit, say.
  virtual std::unique_ptr<Op> MakeOp(const OpSpec& spec) = 0;
  // y = x in another floating-point type, in the same layout.
  virtual std::unique_ptr<Op> MakeCast(const TensorDesc& x, DType to) = 0;
  virtual std::unique_ptr<LossOp> MakeSoftmaxCrossEntropy(const SoftmaxCrossEntropySpec& spec) = 0;
  virtual std::unique_ptr<LossOp> MakeElementwiseLoss(const ElementwiseLossSpec& spec) = 0;
  virtual std::unique_ptr<OptimizerOp> MakeOptimizer(const OptimizerRule& rule) = 0;
  // True if device memory is the host's and every call has done its work when it returns. If
  // false, the host can neither read nor write device memory, and work is queued.
  virtual bool IsHost() const = 0;
  virtual MemorySource& memory() = 0;
  // Copies that are ordered with the ops. Upload has read `host` when it returns; Download blocks
  // until the data is there.
  virtual void Upload(const void* host, void* device, std::size_t bytes) = 0;
  virtual void Download(const void* device, void* host, std::size_t bytes) = 0;
  virtual void Copy(const void* from, void* to, std::size_t bytes) = 0;
  virtual void Zero(void* memory, std::size_t bytes) = 0;
  // stream(): the stream on which the ops run. MakeStream(): a new stream beside it, which the back
  // end must outlive.
  virtual Stream& stream() = 0;
  virtual std::unique_ptr<Stream> MakeStream() = 0;

  // Converts a batch's bytes in host memory, of whole samples, to the model's float input. Has read
  // x when it returns.
  virtual void ConvertInput(const std::uint8_t* x, float* y, std::int64_t size,
                            const InputScaling& scaling) = 0;
  // y[i] += x[i], rounded to `type`: sums the gradients of a tensor that several ops read.
  virtual void Accumulate(const void* x, void* y, std::int64_t size, DType type) = 0;
  void Accumulate(const float* x, float* y, std::int64_t size) {
    Accumulate(x, y, size, DType::kFloat32);
  }
  // y[i] = factor * x[i].
  virtual void Scale(const float* x, float* y, std::int64_t size, float factor) = 0;
  // *value *= *factor.
  virtual void Multiply(float& value, const float& factor) = 0;
  // True if the device computes in the floating-point type. False: ops of the type compute in
  // float32, between casts.
  virtual bool Computes(DType type) const = 0;
  // Sets the tail's loss and correct to the totals.
  virtual void WriteTail(const LossTotals& totals, StepTail& tail) = 0;
  // Runs DecideUpdate of step_block.h with the squared norm of the gradients, and sets the states.
  // Without a sum, reads neither the gradients nor the tail nor the summed states.
  // The norm is bit for bit that of SquaredNorm in trainer/core, which does not depend on the
  // number of threads.
  virtual void DecideUpdate(const UpdateMemory& memory) = 0;
  // True if no value is infinite or NaN. Blocks.
  virtual bool AllFinite(const float* values, std::int64_t size) = 0;
  // Convert between a tensor on the device, of a floating-point type, and floats in dense row-major
  // order in host memory, for checkpoints and tests. ToDense blocks; FromDense has read `source`
  // when it returns.
  virtual void ToDense(const TensorDesc& from, const void* source, float* target) = 0;
  virtual void FromDense(const float* source, const TensorDesc& to, void* target) = 0;
  // Blocks until all ops are done.
  virtual void Synchronize() = 0;

  // Returns true if the back end supports Record. The device may still refuse to record; then
  // Record returns null.
  virtual bool Records() const { return false; }
  // Calls `queue`, and records what it queues on stream() instead of running it. The host can then
  // queue that work as a whole, by Replay. Returns null if the back end cannot record it, or
  // records nothing: then nothing is queued. `queue` may run and update ops, losses and optimizers,
  // and call Copy, Zero, Accumulate, Scale, Multiply, WriteTail and DecideUpdate; each replay then
  // does the same to the same memory. Requires: the same work has run before, so that the memory
  // that it needs has been allocated; and as long as the recording is used, no DecideUpdate gets
  // more values, because that would reallocate memory whose address the recording holds.
  virtual std::unique_ptr<Recording> Record(const std::function<void()>& /*queue*/) {
    return nullptr;
  }
};

// The names that MakeBackend knows.
std::vector<std::string> BackendNames();

struct BackendOptions {
  std::string name = "cpu";  // see BackendNames
  int threads = 1;
  // True: products of float32 tensors may round their factors to TF32 (10 bits after the point) if
  // that is faster on the device. Only "cuda" does so.
  bool rounds_to_tf32 = false;
  int device = 0;  // for "cuda": the index of the GPU among those that this process may see
  // The number of GPUs that must be there, because the pod was given so many; 0: unknown.
  // MakeBackend throws DeviceGone if the process sees fewer, unless CUDA_VISIBLE_DEVICES hides the
  // others.
  int devices = 0;
};
// Throws CheckFailure if the name is unknown or threads < 1, DeviceError if the device is not there
// or this build has nothing that runs on it.
std::unique_ptr<Backend> MakeBackend(const BackendOptions& options);

}  // namespace lockstep::train
