#include "trainer/backend/parameters.h"
#include "trainer/backend/reference/bound_op.h"
#include "trainer/backend/reference/ops.h"

namespace lockstep::train::reference {
namespace {

// y[n,u] = act(b[u] + sum over i of x[n,i] * weight[u,i])
class Dense final : public BoundOp {
 public:
  explicit Dense(const DenseSpec& spec)
      : BoundOp("dense", spec.x, {spec.x.shape[0], spec.units}),
        spec_(spec),
        batch_(spec.x.shape[0]),
        inputs_(spec.x.shape.elements() / spec.x.shape[0]) {}

  std::vector<ParameterDesc> Parameters() const override { return ParametersOf(spec_); }

  void Forward(Mode, const StepContext&) override {
    for (std::int64_t n = 0; n < batch_; ++n) {
      for (std::int64_t u = 0; u < spec_.units; ++u) {
        const float* weight = parameter(0) + u * inputs_;
        double sum = spec_.bias ? parameter(1)[u] : 0.0;
        for (std::int64_t i = 0; i < inputs_; ++i) {
          sum += static_cast<double>(x()[n * inputs_ + i]) * static_cast<double>(weight[i]);
        }
        const float value = static_cast<float>(sum);
        y()[n * spec_.units + u] = spec_.relu && value < 0 ? 0.0f : value;
      }
    }
  }

  // dweight[u,i] = sum over n of dy[n,u] * x[n,i]   dbias[u] = sum over n of dy[n,u]
  // dx[n,i] = sum over u of dy[n,u] * weight[u,i]
  void Backward(const StepContext&) override {
    if (spec_.relu) MaskByRelu(y(), dy(), batch_ * spec_.units);
    for (std::int64_t u = 0; u < spec_.units; ++u) {
      for (std::int64_t i = 0; i < inputs_; ++i) {
        double sum = 0;
        for (std::int64_t n = 0; n < batch_; ++n) {
          sum += static_cast<double>(dy()[n * spec_.units + u]) *
                 static_cast<double>(x()[n * inputs_ + i]);
        }
        gradient(0)[u * inputs_ + i] = static_cast<float>(sum);
      }
      if (!spec_.bias) continue;
      double sum = 0;
      for (std::int64_t n = 0; n < batch_; ++n) sum += dy()[n * spec_.units + u];
      gradient(1)[u] = static_cast<float>(sum);
    }
    if (spec_.input_gradient && dx() != nullptr) BackwardInput();
  }

 private:
  void BackwardInput() {
    for (std::int64_t n = 0; n < batch_; ++n) {
      for (std::int64_t i = 0; i < inputs_; ++i) {
        double sum = 0;
        for (std::int64_t u = 0; u < spec_.units; ++u) {
          sum += static_cast<double>(dy()[n * spec_.units + u]) *
                 static_cast<double>(parameter(0)[u * inputs_ + i]);
        }
        dx()[n * inputs_ + i] = static_cast<float>(sum);
      }
    }
  }

  DenseSpec spec_;
  std::int64_t batch_, inputs_;
};

}  // namespace

std::unique_ptr<Op> MakeOp(const DenseSpec& spec) {
  LOCKSTEP_CHECK(spec.x.shape.rank() >= 2 && spec.units > 0,
                 "dense: {} units on x of shape {}, expected at least 1 on N,…", spec.units,
                 spec.x.shape.ToString());
  return std::make_unique<Dense>(spec);
}

}  // namespace lockstep::train::reference
