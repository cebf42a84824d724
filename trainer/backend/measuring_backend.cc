#include "trainer/backend/measuring_backend.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace lockstep::train {
namespace {

[[noreturn]] void Refuse(const char* what) {
  ThrowCheckFailure(__FILE_NAME__, __LINE__, what,
                    "measuring back end: its memory has no content to work on");
}

class MeasuringBackend final : public Backend {
 public:
  MeasuringBackend(std::unique_ptr<Backend> host, ReservedMemory& memory)
      : host_(std::move(host)), memory_(memory) {}

  std::string Name() const override { return host_->Name(); }
  std::string Device() const override { return host_->Device(); }
  bool Computes(DType type) const override { return host_->Computes(type); }
  bool IsHost() const override { return true; }
  MemorySource& memory() override { return memory_; }

  std::unique_ptr<Op> MakeOp(const OpSpec& spec) override { return host_->MakeOp(spec); }
  std::unique_ptr<Op> MakeCast(const TensorDesc& x, DType to) override {
    return host_->MakeCast(x, to);
  }
  std::unique_ptr<LossOp> MakeSoftmaxCrossEntropy(const SoftmaxCrossEntropySpec& spec) override {
    return host_->MakeSoftmaxCrossEntropy(spec);
  }
  std::unique_ptr<LossOp> MakeElementwiseLoss(const ElementwiseLossSpec& spec) override {
    return host_->MakeElementwiseLoss(spec);
  }
  std::unique_ptr<OptimizerOp> MakeOptimizer(const OptimizerRule& rule) override {
    return host_->MakeOptimizer(rule);
  }
  Stream& stream() override { return host_->stream(); }
  std::unique_ptr<Stream> MakeStream() override { return host_->MakeStream(); }

  void Upload(const void*, void*, std::size_t) override {}
  void Copy(const void*, void*, std::size_t) override {}
  void Zero(void*, std::size_t) override {}
  void FromDense(const float*, const TensorDesc&, void*) override {}
  void Synchronize() override {}

  void Download(const void*, void*, std::size_t) override { Refuse("Download"); }
  void ToDense(const TensorDesc&, const void*, float*) override { Refuse("ToDense"); }
  bool AllFinite(const float*, std::int64_t) override { Refuse("AllFinite"); }
  void ConvertInput(const std::uint8_t*, float*, std::int64_t, const InputScaling&) override {
    Refuse("ConvertInput");
  }
  void Accumulate(const void*, void*, std::int64_t, DType) override { Refuse("Accumulate"); }
  void Scale(const float*, float*, std::int64_t, float) override { Refuse("Scale"); }
  void Multiply(float&, const float&) override { Refuse("Multiply"); }
  void WriteTail(const LossTotals&, StepTail&) override { Refuse("WriteTail"); }
  void DecideUpdate(const UpdateMemory&) override { Refuse("DecideUpdate"); }

 private:
  const std::unique_ptr<Backend> host_;
  ReservedMemory& memory_;
};

}  // namespace

std::byte* ReservedMemory::Allocate(std::size_t bytes) {
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  LOCKSTEP_CHECK(memory != MAP_FAILED, "reserved memory: found no room for {} bytes: {}", bytes,
                 std::strerror(errno));
  bytes_ += bytes;
  return static_cast<std::byte*>(memory);
}

void ReservedMemory::Free(std::byte* memory, std::size_t bytes) {
  ::munmap(memory, bytes);
  bytes_ -= bytes;
}

std::unique_ptr<Backend> MakeMeasuringBackend(std::unique_ptr<Backend> host,
                                              ReservedMemory& memory) {
  LOCKSTEP_CHECK(host->IsHost(), "measuring back end: found the device {}, expected a host's",
                 host->Device());
  return std::make_unique<MeasuringBackend>(std::move(host), memory);
}

}  // namespace lockstep::train
