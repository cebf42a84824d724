#include "trainer/backend/reference/reference.h"

#include "trainer/backend/host_backend.h"
#include "trainer/backend/reference/ops.h"
#include "trainer/core/squared_norm.h"

namespace lockstep::train {
namespace {

class ReferenceBackend final : public HostBackend {
 public:
  std::string Name() const override { return "reference"; }
  std::unique_ptr<LossOp> MakeSoftmaxCrossEntropy(const SoftmaxCrossEntropySpec& spec) override {
    return reference::MakeSoftmaxCrossEntropy(spec);
  }
  std::unique_ptr<LossOp> MakeElementwiseLoss(const ElementwiseLossSpec& spec) override {
    return reference::MakeElementwiseLoss(spec);
  }
  std::unique_ptr<OptimizerOp> MakeOptimizer(const OptimizerRule& rule) override {
    return std::visit([](const auto& spec) { return reference::MakeOptimizerOf(spec); }, rule);
  }
  void ConvertInput(const std::uint8_t* x, float* y, std::int64_t size,
                    const InputScaling& scaling) override {
    reference::ConvertInput(x, y, size, scaling);
  }
  void Scale(const float* x, float* y, std::int64_t size, float factor) override {
    reference::Scale(x, y, size, factor);
  }

 protected:
  std::unique_ptr<Op> FloatOp(const OpSpec& spec) override {
    return std::visit([](const auto& op) { return reference::MakeOpOf(op); }, spec);
  }
  void AccumulateFloats(const float* x, float* y, std::int64_t size) override {
    reference::Accumulate(x, y, size);
  }
  void FloatsToDense(const TensorDesc& from, const void* source, float* target) override {
    reference::CopyDense(from, source, target);
  }
  void FloatsFromDense(const float* source, const TensorDesc& to, void* target) override {
    reference::CopyDense(to, source, target);
  }
  void Cast(const CastOperands& operands) override { reference::Cast(operands); }
  double SquaredNormOf(const float* values, std::int64_t size) override {
    return SquaredNorm({values, static_cast<std::size_t>(size)});
  }
};

}  // namespace

std::unique_ptr<Backend> MakeReferenceBackend() {
  return std::make_unique<ReferenceBackend>();
}

}  // namespace lockstep::train
