#include "trainer/backend/async_reference/async_reference.h"

#include <cstring>
#include <utility>
#include <vector>

#include "base/check.h"
#include "trainer/backend/async_reference/async_ops.h"

namespace lockstep::train {
namespace {

using async_reference::DeviceMemory;
using async_reference::WorkQueue;

class AsyncReferenceBackend final : public Backend {
 public:
  explicit AsyncReferenceBackend(std::unique_ptr<Backend> host)
      : host_(std::move(host)), queue_(memory_) {
    LOCKSTEP_CHECK(host_->IsHost(), "async-reference: {} is no host back end", host_->Name());
  }
  std::string Name() const override { return "async-reference"; }
  std::unique_ptr<Op> MakeOp(const OpSpec& spec) override {
    return MakeAsync(device_, host_->MakeOp(spec));
  }
  std::unique_ptr<Op> MakeCast(const TensorDesc& x, DType to) override {
    return MakeAsync(device_, host_->MakeCast(x, to));
  }
  std::unique_ptr<LossOp> MakeSoftmaxCrossEntropy(const SoftmaxCrossEntropySpec& spec) override {
    return MakeAsync(device_, host_->MakeSoftmaxCrossEntropy(spec));
  }
  std::unique_ptr<LossOp> MakeElementwiseLoss(const ElementwiseLossSpec& spec) override {
    return MakeAsync(device_, host_->MakeElementwiseLoss(spec));
  }
  std::unique_ptr<OptimizerOp> MakeOptimizer(const OptimizerRule& rule) override {
    return MakeAsync(device_, host_->MakeOptimizer(rule));
  }

  bool IsHost() const override { return false; }
  MemorySource& memory() override { return memory_; }
  void Upload(const void* host, void* device, std::size_t bytes) override {
    if (bytes == 0) return;
    const auto* first = static_cast<const std::byte*>(host);
    queue_.Enqueue([data = std::vector<std::byte>(first, first + bytes), to = Real(device)] {
      std::memcpy(to, data.data(), data.size());
    });
  }
  void Download(const void* device, void* host, std::size_t bytes) override {
    queue_.Download(device, host, bytes);
    queue_.Synchronize();
  }
  void Copy(const void* from, void* to, std::size_t bytes) override {
    if (bytes == 0) return;
    queue_.Enqueue([from = Real(from), to = Real(to), bytes] { std::memcpy(to, from, bytes); });
  }
  void Zero(void* memory, std::size_t bytes) override {
    if (bytes == 0) return;
    queue_.Enqueue([real = Real(memory), bytes] { std::memset(real, 0, bytes); });
  }
  Stream& stream() override { return queue_; }
  std::unique_ptr<Stream> MakeStream() override { return std::make_unique<WorkQueue>(memory_); }

  void ConvertInput(const std::uint8_t* x, float* y, std::int64_t size,
                    const InputScaling& scaling) override {
    queue_.Enqueue([this, data = std::vector<std::uint8_t>(x, x + size), y = Real(y), scaling] {
      host_->ConvertInput(data.data(), y, static_cast<std::int64_t>(data.size()), scaling);
    });
  }
  using Backend::Accumulate;
  void Accumulate(const void* x, void* y, std::int64_t size, DType type) override {
    queue_.Enqueue(
        [this, x = Real(x), y = Real(y), size, type] { host_->Accumulate(x, y, size, type); });
  }
  void Scale(const float* x, float* y, std::int64_t size, float factor) override {
    queue_.Enqueue(
        [this, x = Real(x), y = Real(y), size, factor] { host_->Scale(x, y, size, factor); });
  }
  void Multiply(float& value, const float& factor) override {
    queue_.Enqueue([value = Real(&value), factor = Real(&factor)] { *value *= *factor; });
  }
  bool Computes(DType type) const override { return host_->Computes(type); }
  void WriteTail(const LossTotals& totals, StepTail& tail) override {
    queue_.Enqueue(
        [this, totals = Real(&totals), tail = Real(&tail)] { host_->WriteTail(*totals, *tail); });
  }
  void DecideUpdate(const UpdateMemory& memory) override {
    const UpdateMemory real{.settings = Real(memory.settings),
                            .is_summed = Real(memory.is_summed),
                            .gradients = Real(memory.gradients),
                            .size = memory.size,
                            .tail = Real(memory.tail),
                            .gate = Real(memory.gate),
                            .update = Real(memory.update),
                            .result = Real(memory.result),
                            .states = Real(memory.states),
                            .summed_states = Real(memory.summed_states),
                            .saved_states = Real(memory.saved_states),
                            .states_size = memory.states_size};
    queue_.Enqueue([this, real] { host_->DecideUpdate(real); });
  }
  bool AllFinite(const float* values, std::int64_t size) override {
    bool result = false;
    queue_.Enqueue([&, this, real = Real(values)] { result = host_->AllFinite(real, size); });
    queue_.Synchronize();
    return result;
  }
  void ToDense(const TensorDesc& from, const void* source, float* target) override {
    queue_.Enqueue([&, this, real = Real(source)] { host_->ToDense(from, real, target); });
    queue_.Synchronize();
  }
  void FromDense(const float* source, const TensorDesc& to, void* target) override {
    queue_.Enqueue([&, this, real = Real(target)] { host_->FromDense(source, to, real); });
    queue_.Synchronize();
  }
  void Synchronize() override { queue_.Synchronize(); }

 private:
  template <typename T>
  T* Real(T* pointer) const {
    return memory_.Real(pointer);
  }

  const std::unique_ptr<Backend> host_;
  DeviceMemory memory_;
  WorkQueue queue_;
  const async_reference::Device device_{.memory = memory_, .queue = queue_};
};

}  // namespace

std::unique_ptr<Backend> MakeAsyncReferenceBackend(std::unique_ptr<Backend> host) {
  return std::make_unique<AsyncReferenceBackend>(std::move(host));
}

}  // namespace lockstep::train
