// Ioffe and Szegedy, "Batch normalization", 2015.
#include <cmath>

#include "trainer/backend/parameters.h"
#include "trainer/backend/reference/bound_op.h"
#include "trainer/backend/reference/ops.h"

namespace lockstep::train::reference {
namespace {

// y = gamma[c] * x_hat + beta[c] with x_hat = (x - mean[c]) / sqrt(variance[c] + epsilon); mean and
// variance are those of the valid rows, or the moving averages in evaluation.
class BatchNorm final : public BoundOp {
 public:
  explicit BatchNorm(const BatchNormSpec& spec)
      : BoundOp("batch_norm", spec.x, spec.x.shape),
        spec_(spec),
        batch_(spec.x.shape[0]),
        channels_(spec.x.shape[1]),
        area_(spec.x.shape.elements() / (batch_ * channels_)) {}

  std::vector<ParameterDesc> Parameters() const override { return ParametersOf(spec_); }
  std::vector<ParameterDesc> States() const override { return StatesOf(spec_); }
  // mean[c] and 1 / sqrt(variance[c] + epsilon) of the step.
  std::size_t WorkspaceBytes() const override {
    return static_cast<std::size_t>(2 * channels_) * sizeof(double);
  }

  void Forward(Mode mode, const StepContext& step) override {
    for (std::int64_t c = 0; c < channels_; ++c) {
      const Moments moments = mode == Mode::kTraining && step.valid > 0
                                  ? MeasureAndTrack(c, step.valid)
                                  : Moments{.mean = state(0)[c], .variance = state(1)[c]};
      mean(c) = moments.mean;
      inverse_deviation(c) = 1 / std::sqrt(moments.variance + spec_.epsilon);
    }
    Normalize(step);
  }
  void Restore(const StepContext& step) override { Normalize(step); }

  // dbeta = sum dy, dgamma = sum dy * x_hat, both over the valid rows (m elements per channel), and
  // dx = gamma / sqrt(variance + epsilon) * (dy - dbeta / m - x_hat * dgamma / m)
  void Backward(const StepContext& step) override {
    const double count = static_cast<double>(step.valid * area_);
    for (std::int64_t c = 0; c < channels_; ++c) {
      double dgamma = 0, dbeta = 0;
      ForEachElement(c, step.valid, [&](std::int64_t i) {
        dgamma += Gradient(i) * Normalized(c, i);
        dbeta += Gradient(i);
      });
      gradient(0)[c] = static_cast<float>(dgamma);
      gradient(1)[c] = static_cast<float>(dbeta);
      if (dx() == nullptr) continue;
      const double scale = parameter(0)[c] * inverse_deviation(c);
      ForEachElement(c, step.valid, [&](std::int64_t i) {
        dx()[i] = static_cast<float>(
            scale * (Gradient(i) - dbeta / count - Normalized(c, i) * dgamma / count));
      });
    }
    if (dx() != nullptr) ZeroPaddingRows(step, dx());
  }

 private:
  void Normalize(const StepContext& step) const {
    for (std::int64_t c = 0; c < channels_; ++c) {
      ForEachElement(c, step.valid, [&](std::int64_t i) {
        const auto value = static_cast<float>(
            parameter(0)[c] * (x()[i] - mean(c)) * inverse_deviation(c) + parameter(1)[c]);
        y()[i] = spec_.relu && value < 0 ? 0.0f : value;  // NaN is kept
      });
    }
    ZeroPaddingRows(step, y());
  }

  struct Moments {
    double mean = 0, variance = 0;
  };

  // Visits the index of every element of channel `c` in the first `rows` rows.
  template <typename Visit>
  void ForEachElement(std::int64_t c, std::int64_t rows, Visit visit) const {
    for (std::int64_t n = 0; n < rows; ++n) {
      for (std::int64_t i = 0; i < area_; ++i) visit((n * channels_ + c) * area_ + i);
    }
  }

  void ZeroPaddingRows(const StepContext& step, float* target) const {
    const std::int64_t row = channels_ * area_;
    std::fill_n(target + step.valid * row, (batch_ - step.valid) * row, 0.0f);
  }

  Moments MeasureAndTrack(std::int64_t c, std::int64_t valid) {
    const double count = static_cast<double>(valid * area_);
    Moments moments;
    ForEachElement(c, valid, [&](std::int64_t i) { moments.mean += x()[i] / count; });
    ForEachElement(c, valid, [&](std::int64_t i) {
      const double centered = x()[i] - moments.mean;
      moments.variance += centered * centered / count;
    });
    const double keep = spec_.momentum;
    state(0)[c] = static_cast<float>(keep * state(0)[c] + (1 - keep) * moments.mean);
    state(1)[c] = static_cast<float>(keep * state(1)[c] + (1 - keep) * moments.variance);
    return moments;
  }

  double& mean(std::int64_t c) const { return workspace<double>()[c]; }
  double& inverse_deviation(std::int64_t c) const { return workspace<double>()[channels_ + c]; }
  // The gradient of the normalization's result, before the relu.
  float Gradient(std::int64_t i) const { return spec_.relu && !(y()[i] > 0) ? 0.0f : dy()[i]; }
  double Normalized(std::int64_t c, std::int64_t i) const {
    return (x()[i] - mean(c)) * inverse_deviation(c);
  }

  BatchNormSpec spec_;
  std::int64_t batch_, channels_, area_;
};

}  // namespace

std::unique_ptr<Op> MakeOp(const BatchNormSpec& spec) {
  LOCKSTEP_CHECK(spec.x.shape.rank() == 4 || spec.x.shape.rank() == 2,
                 "batch_norm: x has shape {}, expected N,C,H,W or N,C", spec.x.shape.ToString());
  return std::make_unique<BatchNorm>(spec);
}

}  // namespace lockstep::train::reference
