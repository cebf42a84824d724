#include <cmath>
#include <numbers>

#include "trainer/backend/reference/bound_op.h"
#include "trainer/backend/reference/ops.h"

namespace lockstep::train::reference {
namespace {

struct Point {
  double y, slope;  // the function's value and derivative
};

Point Gelu(double x) {
  const double cdf = std::erfc(-x / std::numbers::sqrt2) / 2;
  const double density = std::exp(-x * x / 2) * std::numbers::inv_sqrtpi / std::numbers::sqrt2;
  return {x * cdf, cdf + x * density};
}

Point Silu(double x) {
  const double sigmoid = 1 / (1 + std::exp(-x));
  return {x * sigmoid, sigmoid * (1 + x * (1 - sigmoid))};
}

Point Tanh(double x) {
  const double y = std::tanh(x);
  return {y, 1 - y * y};
}

Point LeakyRelu(double x, double slope) {
  return x < 0 ? Point{slope * x, slope} : Point{x, x > 0 ? 1.0 : slope};  // NaN is kept
}

Point At(Activation activation, double slope, double x) {
  switch (activation) {
    case Activation::kRelu:
      return x < 0 ? Point{0, 0} : Point{x, x > 0 ? 1.0 : 0.0};  // NaN is kept
    case Activation::kGelu:
      return Gelu(x);
    case Activation::kSilu:
      return Silu(x);
    case Activation::kTanh:
      return Tanh(x);
    case Activation::kLeakyRelu:
      return LeakyRelu(x, slope);
  }
  LOCKSTEP_CHECK(false, "activation: found number {}, expected one of kActivations",
                 static_cast<int>(activation));
  return {};
}

class ActivationOp final : public BoundOp {
 public:
  explicit ActivationOp(const ActivationSpec& spec)
      : BoundOp("activation", spec.x, spec.x.shape),
        activation_(spec.activation),
        slope_(spec.slope) {}
  bool BackwardInPlace() const override { return true; }

  // y = f(x)
  void Forward(Mode, const StepContext&) override {
    for (std::int64_t i = 0; i < input().shape.elements(); ++i) {
      y()[i] = static_cast<float>(At(activation_, slope_, x()[i]).y);
    }
  }

  // dx = dy * f'(x), and 0 where f' is, whatever dy is
  void Backward(const StepContext&) override {
    if (dx() == nullptr) return;
    for (std::int64_t i = 0; i < input().shape.elements(); ++i) {
      const double slope = At(activation_, slope_, x()[i]).slope;
      dx()[i] = slope == 0 ? 0.0f : static_cast<float>(dy()[i] * slope);
    }
  }

 private:
  Activation activation_;
  double slope_;
};

}  // namespace

std::unique_ptr<Op> MakeOp(const ActivationSpec& spec) {
  return std::make_unique<ActivationOp>(spec);
}

}  // namespace lockstep::train::reference
