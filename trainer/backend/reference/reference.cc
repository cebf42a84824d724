#include "trainer/backend/reference/reference.h"

#include "trainer/backend/reference/ops.h"
#include "trainer/core/squared_norm.h"

namespace lockstep::train {
namespace {

class ReferenceBackend final : public Backend {
 public:
  std::string Name() const override { return "reference"; }
  std::unique_ptr<Op> MakeConv2d(const Conv2dSpec& spec) override {
    return reference::MakeConv2d(spec);
  }
  std::unique_ptr<Op> MakeDense(const DenseSpec& spec) override {
    return reference::MakeDense(spec);
  }
  std::unique_ptr<Op> MakePool2d(const Pool2dSpec& spec) override {
    return reference::MakePool2d(spec);
  }
  std::unique_ptr<Op> MakeGlobalAveragePool2d(const TensorDesc& x) override {
    return reference::MakeGlobalAveragePool2d(x);
  }
  std::unique_ptr<Op> MakeBatchNorm(const BatchNormSpec& spec) override {
    return reference::MakeBatchNorm(spec);
  }
  std::unique_ptr<Op> MakeRelu(const TensorDesc& x) override { return reference::MakeRelu(x); }
  std::unique_ptr<Op> MakeDropout(const DropoutSpec& spec) override {
    return reference::MakeDropout(spec);
  }
  std::unique_ptr<LossOp> MakeSoftmaxCrossEntropy(std::int64_t rows,
                                                  std::int64_t classes) override {
    return reference::MakeSoftmaxCrossEntropy(rows, classes);
  }
  std::unique_ptr<OptimizerOp> MakeSgd(const SgdSpec& spec) override {
    return reference::MakeSgd(spec);
  }
  std::unique_ptr<OptimizerOp> MakeAdam(const AdamSpec& spec) override {
    return reference::MakeAdam(spec);
  }
  void ConvertInput(const std::uint8_t* x, float* y, std::int64_t size, float scale) override {
    reference::ConvertInput(x, y, size, scale);
  }
  double SquaredNorm(const float* values, std::int64_t size) override {
    return train::SquaredNorm({values, static_cast<std::size_t>(size)});
  }
  void ToDense(const TensorDesc& from, const void* source, float* target) override {
    reference::CopyDense(from, source, target);
  }
  void FromDense(const float* source, const TensorDesc& to, void* target) override {
    reference::CopyDense(to, source, target);
  }
};

}  // namespace

std::unique_ptr<Backend> MakeReferenceBackend() {
  return std::make_unique<ReferenceBackend>();
}

}  // namespace lockstep::train
