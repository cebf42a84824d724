#include "trainer/backend/cuda/cuda.h"

#include <fmt/format.h>

#include <array>
#include <vector>

#include "base/log.h"
#include "trainer/backend/cuda/device/cuda_graph.h"
#include "trainer/backend/cuda/device/device.h"
#include "trainer/backend/cuda/device/device_facts.h"
#include "trainer/backend/cuda/device/fatbin.h"
#include "trainer/backend/cuda/device/memory.h"
#include "trainer/backend/cuda/device/stream.h"
#include "trainer/backend/cuda/kernels/kernels.h"
#include "trainer/backend/cuda/layout/cast.h"
#include "trainer/backend/cuda/layout/copy.h"
#include "trainer/backend/cuda/layout/input_stage.h"
#include "trainer/backend/cuda/layout/layout.h"
#include "trainer/backend/cuda/ops.h"
#include "trainer/backend/device_missing.h"
#include "trainer/backend/low_precision_op.h"

namespace lockstep::train {
namespace {

using namespace cuda;  // NOLINT(google-build-using-namespace): of this folder

class CudaBackend final : public Backend {
 public:
  CudaBackend(int device, int devices, bool rounds_to_tf32)
      : device_(device, rounds_to_tf32, devices),
        memory_(device_),
        stream_(device_),
        input_(device_, stream_),
        squares_(device_),
        buffer_(device_) {}

  std::string Name() const override { return "cuda"; }
  std::string Device() const override {
    return fmt::format("cuda:{} (compute capability {}.{})", device_.name(),
                       device_.compute_capability() / 10, device_.compute_capability() % 10);
  }
  std::vector<DeviceFact> Facts() const override { return DeviceFacts(device_); }
  std::unique_ptr<Op> MakeOp(const OpSpec& spec) override {
    return std::visit([this](const auto& op) { return cuda::MakeOpOf(device_, op); }, spec);
  }
  std::unique_ptr<Op> MakeCast(const TensorDesc& x, DType to) override {
    return MakeCastOp(x, to, [this](const CastOperands& operands) { Cast(device_, operands); });
  }
  std::unique_ptr<LossOp> MakeSoftmaxCrossEntropy(const SoftmaxCrossEntropySpec& spec) override {
    return cuda::MakeSoftmaxCrossEntropy(device_, spec);
  }
  std::unique_ptr<LossOp> MakeElementwiseLoss(const ElementwiseLossSpec& spec) override {
    return cuda::MakeElementwiseLoss(device_, spec);
  }
  std::unique_ptr<OptimizerOp> MakeOptimizer(const OptimizerRule& rule) override {
    return std::visit([this](const auto& spec) { return cuda::MakeOptimizerOf(device_, spec); },
                      rule);
  }

  bool IsHost() const override { return false; }
  MemorySource& memory() override { return memory_; }
  void Upload(const void* host, void* device, std::size_t bytes) override {
    stream_.UploadNow(host, device, bytes);
  }
  // To memory that is not page-locked, through the driver's own.
  void Download(const void* device, void* host, std::size_t bytes) override {
    if (bytes > 0) {
      device_.Check(
          device_.driver().MemcpyDtoHAsync(host, AddressOf(device), bytes, device_.stream()),
          "cuMemcpyDtoHAsync");
    }
    Synchronize();
  }
  void Copy(const void* from, void* to, std::size_t bytes) override {
    CopyBytes(device_, from, to, bytes);
  }
  void Zero(void* memory, std::size_t bytes) override { ZeroBytes(device_, memory, bytes); }
  Stream& stream() override { return stream_; }
  std::unique_ptr<Stream> MakeStream() override { return CudaStream::Make(device_); }

  void ConvertInput(const std::uint8_t* x, float* y, std::int64_t size,
                    const InputScaling& scaling) override;
  using Backend::Accumulate;
  void Accumulate(const void* x, void* y, std::int64_t size, DType type) override;
  void Scale(const float* x, float* y, std::int64_t size, float factor) override {
    device_.Launch(LOCKSTEP_CUDA_KERNEL(ScaleFloats), device_.GridFor(size), x, y, size, factor);
  }
  void Multiply(float& value, const float& factor) override {
    device_.Launch(LOCKSTEP_CUDA_KERNEL(MultiplyByFactor), {}, &value, &factor);
  }
  bool Computes(DType type) const override { return IsFloat(type); }
  void WriteTail(const LossTotals& totals, StepTail& tail) override {
    device_.Launch(LOCKSTEP_CUDA_KERNEL(WriteStepTail), {}, &totals, &tail);
  }
  void DecideUpdate(const UpdateMemory& memory) override;
  bool AllFinite(const float* values, std::int64_t size) override;
  void ToDense(const TensorDesc& from, const void* source, float* target) override;
  void FromDense(const float* source, const TensorDesc& to, void* target) override;
  void Synchronize() override { device_.Synchronize(); }
  bool Records() const override { return true; }
  std::unique_ptr<Recording> Record(const std::function<void()>& queue) override;

 private:
  cuda::Device device_;
  CudaMemory memory_;
  CudaStream stream_;
  InputStage input_;
  Buffer squares_;       // only of DecideUpdate, because recordings keep its address
  Buffer buffer_;        // of one call
  bool records_ = true;  // false once it has failed to
};

void CudaBackend::ConvertInput(const std::uint8_t* x, float* y, std::int64_t size,
                               const InputScaling& scaling) {
  const void* bytes = input_.Upload(x, static_cast<std::size_t>(size));
  device_.Launch(LOCKSTEP_CUDA_KERNEL(ConvertBytes), device_.GridFor(size), bytes, y, size,
                 scaling.channels, scaling.plane, scaling.center[0], scaling.center[1],
                 scaling.center[2], scaling.factor[0], scaling.factor[1], scaling.factor[2]);
  input_.Consumed();
}

void CudaBackend::Accumulate(const void* x, void* y, std::int64_t size, DType type) {
  device_.Launch(LOCKSTEP_CUDA_KERNEL(AddPair), device_.GridFor(size), y, x, y,
                 static_cast<int>(type), size, /*relu=*/false);
}

void CudaBackend::DecideUpdate(const UpdateMemory& memory) {
  const std::int64_t blocks = (memory.size + kernels::kNormBlock - 1) / kernels::kNormBlock;
  auto* squares = squares_.Reserve<double>(std::max<std::int64_t>(blocks, 1));
  if (blocks > 0) {
    const std::int64_t groups = (blocks + kernels::kNormGroups - 1) / kernels::kNormGroups;
    device_.Launch(LOCKSTEP_CUDA_KERNEL(SumSquares),
                   {.blocks_x = static_cast<unsigned>(groups),
                    .threads_x = kernels::kNormLanes * kernels::kNormGroups},
                   memory.is_summed, memory.gradients, memory.size, squares);
  }
  device_.Launch(LOCKSTEP_CUDA_KERNEL(DecideStep), {.threads_x = kernels::kDecidingThreads},
                 memory.settings, memory.is_summed, squares, blocks, memory.tail, memory.gate,
                 memory.update, memory.result);
  if (memory.states_size == 0) return;
  device_.Launch(LOCKSTEP_CUDA_KERNEL(ChooseStates), device_.GridFor(memory.states_size),
                 memory.update, memory.summed_states, memory.saved_states, memory.states,
                 memory.states_size);
}

// What cannot be recorded still trains, only slower; the next attempt would fail alike.
std::unique_ptr<Recording> CudaBackend::Record(const std::function<void()>& queue) {
  if (!records_) return nullptr;
  try {
    return RecordGraph(device_, queue);
  } catch (const DeviceError& error) {
    device_.Synchronize();  // throws if the device has failed, rather than refused
    records_ = false;
    LogWarning("the GPU's work cannot be recorded, so every step queues each op again",
               {{"device", device_.name()}, {"reason", error.what()}});
    return nullptr;
  }
}

bool CudaBackend::AllFinite(const float* values, std::int64_t size) {
  int* found = buffer_.Reserve<int>(1);
  Zero(found, sizeof(int));
  device_.Launch(LOCKSTEP_CUDA_KERNEL(FindNotFinite), device_.GridFor(size), values, size, found);
  int is_found = 0;
  Download(found, &is_found, sizeof(is_found));
  return is_found == 0;
}

void CudaBackend::ToDense(const TensorDesc& from, const void* source, float* target) {
  const std::int64_t size = from.elements();
  const void* floats = source;
  if (from.dtype != DType::kFloat32) {
    float* wide = buffer_.Reserve<float>(size);
    Cast(device_,
         {.x = source, .from = from.dtype, .y = wide, .to = DType::kFloat32, .size = size});
    floats = wide;
  }
  std::vector<float> values(static_cast<std::size_t>(size));
  Download(floats, values.data(), values.size() * sizeof(float));
  ToRowMajor(from, values.data(), target);
}

void CudaBackend::FromDense(const float* source, const TensorDesc& to, void* target) {
  const std::int64_t size = to.elements();
  std::vector<float> values(static_cast<std::size_t>(size));
  FromRowMajor(to, source, values.data());
  if (to.dtype == DType::kFloat32) {
    Upload(values.data(), target, values.size() * sizeof(float));
    return;
  }
  float* wide = buffer_.Reserve<float>(size);
  Upload(values.data(), wide, values.size() * sizeof(float));
  Cast(device_, {.x = wide, .from = DType::kFloat32, .y = target, .to = to.dtype, .size = size});
}

}  // namespace

std::unique_ptr<Backend> MakeCudaBackend(int device, int devices, bool rounds_to_tf32) {
  try {
    return std::make_unique<CudaBackend>(device, devices, rounds_to_tf32);
  } catch (const DeviceError&) {
    if (cuda::HasKernels()) throw;
    throw NotBuiltForDevice(
        "back end cuda: this build has no kernels for GPUs; the preset `cuda` makes one that has");
  }
}

}  // namespace lockstep::train
