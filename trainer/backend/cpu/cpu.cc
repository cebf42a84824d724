#include "trainer/backend/cpu/cpu.h"

#include "trainer/backend/cpu/ops.h"

namespace lockstep::train {
namespace {

class CpuBackend final : public Backend {
 public:
  explicit CpuBackend(int threads) : device_(threads) { device_.Enter(); }
  std::string Name() const override { return "cpu"; }
  std::string Device() const override { return std::string("cpu:") + cpu::NameOf(device_.isa); }
  std::unique_ptr<Op> MakeConv2d(const Conv2dSpec& spec) override {
    return cpu::MakeConv2d(device_, spec);
  }
  std::unique_ptr<Op> MakeDense(const DenseSpec& spec) override {
    return cpu::MakeDense(device_, spec);
  }
  std::unique_ptr<Op> MakePool2d(const Pool2dSpec& spec) override {
    return cpu::MakePool2d(device_, spec);
  }
  std::unique_ptr<Op> MakeGlobalAveragePool2d(const TensorDesc& x) override {
    return cpu::MakeGlobalAveragePool2d(device_, x);
  }
  std::unique_ptr<Op> MakeBatchNorm(const BatchNormSpec& spec) override {
    return cpu::MakeBatchNorm(device_, spec);
  }
  std::unique_ptr<Op> MakeRelu(const TensorDesc& x) override { return cpu::MakeRelu(device_, x); }
  std::unique_ptr<Op> MakeDropout(const DropoutSpec& spec) override {
    return cpu::MakeDropout(device_, spec);
  }
  std::unique_ptr<LossOp> MakeSoftmaxCrossEntropy(std::int64_t rows,
                                                  std::int64_t classes) override {
    return cpu::MakeSoftmaxCrossEntropy(device_, rows, classes);
  }
  std::unique_ptr<OptimizerOp> MakeSgd(const SgdSpec& spec) override {
    return cpu::MakeSgd(device_, spec);
  }
  std::unique_ptr<OptimizerOp> MakeAdam(const AdamSpec& spec) override {
    return cpu::MakeAdam(device_, spec);
  }
  void ConvertInput(const std::uint8_t* x, float* y, std::int64_t size, float scale) override {
    cpu::ConvertInput(device_, x, y, size, scale);
  }
  double SquaredNorm(const float* values, std::int64_t size) override {
    return cpu::SquaredNorm(device_, values, size);
  }
  void ToDense(const TensorDesc& from, const void* source, float* target) override {
    cpu::ToDense(device_, from, source, target);
  }
  void FromDense(const float* source, const TensorDesc& to, void* target) override {
    cpu::FromDense(device_, source, to, target);
  }

 private:
  cpu::Device device_;
};

}  // namespace

std::unique_ptr<Backend> MakeCpuBackend(int threads) {
  return std::make_unique<CpuBackend>(threads);
}

}  // namespace lockstep::train
