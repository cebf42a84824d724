// Ba, Kiros and Hinton, "Layer normalization", 2016. See LayerNormSpec.
#include <cmath>

#include "trainer/backend/parameters.h"
#include "trainer/backend/reference/bound_op.h"
#include "trainer/backend/reference/ops.h"

namespace lockstep::train::reference {
namespace {

// y = gamma[c] * x_hat + beta[c] with x_hat = (x - mean) / sqrt(variance + epsilon); mean and
// variance are those of the C channels of one pixel, or of one row of a matrix.
class LayerNorm final : public BoundOp {
 public:
  explicit LayerNorm(const LayerNormSpec& spec)
      : BoundOp("layer_norm", spec.x, spec.x.shape),
        spec_(spec),
        channels_(spec.x.shape[1]),
        pixels_(spec.x.shape.elements() / channels_),
        area_(pixels_ / spec.x.shape[0]) {}

  std::vector<ParameterDesc> Parameters() const override { return ParametersOf(spec_); }
  // mean and 1 / sqrt(variance + epsilon) of each pixel.
  std::size_t WorkspaceBytes() const override {
    return static_cast<std::size_t>(2 * pixels_) * sizeof(double);
  }

  void Forward(Mode, const StepContext&) override {
    for (std::int64_t pixel = 0; pixel < pixels_; ++pixel) {
      double mean = 0, variance = 0;
      ForEachChannel(pixel, [&](std::int64_t, std::int64_t i) { mean += x()[i] / count(); });
      ForEachChannel(pixel, [&](std::int64_t, std::int64_t i) {
        variance += (x()[i] - mean) * (x()[i] - mean) / count();
      });
      this->mean(pixel) = mean;
      inverse_deviation(pixel) = 1 / std::sqrt(variance + spec_.epsilon);
      ForEachChannel(pixel, [&](std::int64_t c, std::int64_t i) {
        y()[i] = static_cast<float>(gamma(c) * Normalized(pixel, i) + beta(c));
      });
    }
  }

  // With g = gamma * dy and means over the channels:
  //   dx = (g - mean(g) - x_hat * mean(g * x_hat)) / sqrt(variance + epsilon)
  //   dgamma = sum of dy * x_hat, dbeta = sum of dy, both over the pixels
  void Backward(const StepContext&) override {
    std::vector<double> dgamma(static_cast<std::size_t>(channels_)), dbeta(dgamma.size());
    for (std::int64_t pixel = 0; pixel < pixels_; ++pixel) {
      double mean_g = 0, mean_gx = 0;
      ForEachChannel(pixel, [&](std::int64_t c, std::int64_t i) {
        const double x_hat = Normalized(pixel, i);
        dgamma[static_cast<std::size_t>(c)] += dy()[i] * x_hat;
        dbeta[static_cast<std::size_t>(c)] += dy()[i];
        mean_g += gamma(c) * dy()[i] / count();
        mean_gx += gamma(c) * dy()[i] * x_hat / count();
      });
      if (dx() == nullptr) continue;
      ForEachChannel(pixel, [&](std::int64_t c, std::int64_t i) {
        dx()[i] = static_cast<float>(inverse_deviation(pixel) * (gamma(c) * dy()[i] - mean_g -
                                                                 Normalized(pixel, i) * mean_gx));
      });
    }
    if (spec_.scale) std::ranges::copy(dgamma, gradient(0));
    if (spec_.center) std::ranges::copy(dbeta, gradient(spec_.scale ? 1 : 0));
  }

 private:
  // Calls visit(channel, index of its element) for every channel of a pixel.
  template <typename Visit>
  void ForEachChannel(std::int64_t pixel, Visit visit) const {
    const std::int64_t first = pixel / area_ * channels_ * area_ + pixel % area_;
    for (std::int64_t c = 0; c < channels_; ++c) visit(c, first + c * area_);
  }

  double count() const { return static_cast<double>(channels_); }
  double gamma(std::int64_t c) const { return spec_.scale ? parameter(0)[c] : 1.0; }
  double beta(std::int64_t c) const {
    return spec_.center ? parameter(spec_.scale ? 1 : 0)[c] : 0.0;
  }
  double& mean(std::int64_t pixel) const { return workspace<double>()[pixel]; }
  double& inverse_deviation(std::int64_t pixel) const {
    return workspace<double>()[pixels_ + pixel];
  }
  double Normalized(std::int64_t pixel, std::int64_t i) const {
    return (x()[i] - mean(pixel)) * inverse_deviation(pixel);
  }

  LayerNormSpec spec_;
  std::int64_t channels_, pixels_, area_;
};

}  // namespace

std::unique_ptr<Op> MakeOp(const LayerNormSpec& spec) {
  LOCKSTEP_CHECK(spec.x.shape.rank() == 4 || spec.x.shape.rank() == 2,
                 "layer_norm: x has shape {}, expected N,C,H,W or N,C", spec.x.shape.ToString());
  return std::make_unique<LayerNorm>(spec);
}

}  // namespace lockstep::train::reference
