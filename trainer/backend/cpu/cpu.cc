#include "trainer/backend/cpu/cpu.h"

#include "trainer/backend/cpu/half_product.h"
#include "trainer/backend/cpu/ops.h"
#include "trainer/backend/host_backend.h"

#include <string>

namespace lockstep::train {
namespace {

class CpuBackend final : public HostBackend {
 public:
  explicit CpuBackend(int threads) : device_(threads) { device_.Enter(); }
  std::string Name() const override { return "cpu"; }
  std::string Device() const override { return std::string("cpu:") + cpu::NameOf(device_.isa); }
  std::vector<DeviceFact> Facts() const override {
    return {{"instruction set", cpu::NameOf(device_.isa)},
            {"threads", std::to_string(device_.threads)}};
  }
  bool Computes(DType type) const override { return cpu::Computes(device_, type); }
  std::unique_ptr<LossOp> MakeSoftmaxCrossEntropy(const SoftmaxCrossEntropySpec& spec) override {
    return cpu::MakeSoftmaxCrossEntropy(device_, spec);
  }
  std::unique_ptr<LossOp> MakeElementwiseLoss(const ElementwiseLossSpec& spec) override {
    return cpu::MakeElementwiseLoss(device_, spec);
  }
  std::unique_ptr<OptimizerOp> MakeOptimizer(const OptimizerRule& rule) override {
    return std::visit([this](const auto& spec) { return cpu::MakeOptimizerOf(device_, spec); },
                      rule);
  }
  void ConvertInput(const std::uint8_t* x, float* y, std::int64_t size,
                    const InputScaling& scaling) override {
    cpu::ConvertInput(device_, x, y, size, scaling);
  }
  void Scale(const float* x, float* y, std::int64_t size, float factor) override {
    cpu::Scale(device_, x, y, size, factor);
  }

 protected:
  std::unique_ptr<Op> FloatOp(const OpSpec& spec) override {
    return std::visit([this](const auto& op) { return cpu::MakeOpOf(device_, op); }, spec);
  }
  void AccumulateFloats(const float* x, float* y, std::int64_t size) override {
    cpu::Accumulate(device_, x, y, size);
  }
  void FloatsToDense(const TensorDesc& from, const void* source, float* target) override {
    cpu::ToDense(device_, from, source, target);
  }
  void FloatsFromDense(const float* source, const TensorDesc& to, void* target) override {
    cpu::FromDense(device_, source, to, target);
  }
  std::unique_ptr<Op> NativeOp(const OpSpec& spec) override {
    return cpu::MakeHalfProduct(device_, spec);
  }
  void Cast(const CastOperands& operands) override { cpu::Cast(device_, operands); }
  double SquaredNormOf(const float* values, std::int64_t size) override {
    return cpu::SquaredNorm(device_, values, size);
  }

 private:
  cpu::Device device_;
};

}  // namespace

std::unique_ptr<Backend> MakeCpuBackend(int threads) {
  return std::make_unique<CpuBackend>(threads);
}

}  // namespace lockstep::train
