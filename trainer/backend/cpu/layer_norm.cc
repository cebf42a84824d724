// Ba, Kiros and Hinton, "Layer normalization", 2016. See LayerNormSpec.
#include <algorithm>

#include "trainer/backend/cpu/bound_op.h"
#include "trainer/backend/cpu/ops.h"
#include "trainer/backend/parameters.h"

namespace lockstep::train::cpu {
namespace {

// The workspace holds two floats for each pixel: its mean and 1 / sqrt(variance + epsilon).
class LayerNorm final : public BoundOp {
 public:
  LayerNorm(const Device& device, const LayerNormSpec& spec)
      : BoundOp(device, spec.x, spec.x),
        spec_(spec),
        view_(ViewOf(spec.x)),
        // A row without an image is one block of adjacent channels.
        shape_{.channels = view_.channels,
               .inner = view_.area() == 1 ? view_.row_floats() : view_.inner,
               .block = view_.area() * view_.inner,
               .step = view_.area() == 1 ? view_.row_floats() : view_.inner,
               .epsilon = spec.epsilon},
        parts_(ThreadsFor(device.threads, view_.floats())),
        ones_(static_cast<std::size_t>(spec.scale ? 0 : view_.channels), 1.0f),
        zeros_(static_cast<std::size_t>(spec.center ? 0 : view_.channels), 0.0f) {}

  std::vector<ParameterDesc> Parameters() const override { return ParametersOf(spec_); }
  std::size_t WorkspaceBytes() const override {
    return static_cast<std::size_t>(2 * Pixels()) * sizeof(float);
  }
  // Each part's sums for the gradients.
  std::size_t ScratchBytes() const override {
    return static_cast<std::size_t>(parts_ * 2 * view_.channels) * sizeof(double);
  }

  BackwardReads Reads() const override { return {.x = true, .y = false}; }
  void Forward(Mode, const StepContext&) override {
    ForParts([this](std::int64_t, const Run& run) {
      device().kernels.layer_norm(shape_, {.count = run.pixels,
                                           .x = x() + run.at,
                                           .gamma = gamma(),
                                           .beta = beta(),
                                           .y = y() + run.at,
                                           .moments = moments() + 2 * run.first});
    });
  }

  void Backward(const StepContext&) override {
    std::fill_n(sums(0), parts_ * 2 * view_.channels, 0.0);
    ForParts([this](std::int64_t part, const Run& run) {
      device().kernels.layer_norm_backward(shape_, {.count = run.pixels,
                                                    .x = x() + run.at,
                                                    .dy = dy() + run.at,
                                                    .gamma = gamma(),
                                                    .moments = moments() + 2 * run.first,
                                                    .dx = dx() == nullptr ? nullptr : dx() + run.at,
                                                    .dgamma = sums(part),
                                                    .dbeta = sums(part) + view_.channels});
    });
    if (spec_.scale) SumParts(0, memory().gradients[0]);
    if (spec_.center) SumParts(view_.channels, memory().gradients[spec_.scale ? 1 : 0]);
  }

 private:
  // Adjacent pixels of one row.
  struct Run {
    std::int64_t first;   // counted over all rows
    std::int64_t pixels;  // how many
    std::int64_t at;      // the offset of the first one's first channel
  };

  // Calls body(part, run). The parts, and so the order of the sums, depend only on the number of
  // threads that the device is given.
  template <typename Body>
  void ForParts(Body body) const {
    ParallelFor(parts_, parts_, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t part = begin; part < end; ++part) {
        const std::int64_t last = Pixels() * (part + 1) / parts_;
        for (std::int64_t first = Pixels() * part / parts_; first < last;) {
          const std::int64_t row = first / view_.area(), pixel = first % view_.area();
          const std::int64_t pixels = std::min(last - first, view_.area() - pixel);
          body(part, Run{first, pixels, row * view_.row_floats() + pixel * view_.inner});
          first += pixels;
        }
      }
    });
  }

  void SumParts(std::int64_t at, float* gradient) const {
    for (std::int64_t c = 0; c < view_.channels; ++c) {
      double sum = 0;
      for (std::int64_t part = 0; part < parts_; ++part) sum += sums(part)[at + c];
      gradient[c] = static_cast<float>(sum);
    }
  }

  std::int64_t Pixels() const { return view_.rows * view_.area(); }
  const float* gamma() const { return spec_.scale ? memory().parameters[0] : ones_.data(); }
  const float* beta() const {
    return spec_.center ? memory().parameters[spec_.scale ? 1 : 0] : zeros_.data();
  }
  float* moments() const { return static_cast<float*>(memory().workspace); }
  double* sums(std::int64_t part) const {
    return static_cast<double*>(memory().scratch) + part * 2 * view_.channels;
  }

  LayerNormSpec spec_;
  ImageView view_;
  LayerNormShape shape_;
  int parts_;
  std::vector<float> ones_, zeros_;  // instead of the parameters that it does not have
};

}  // namespace

std::unique_ptr<Op> MakeOp(const Device& device, const LayerNormSpec& spec) {
  LOCKSTEP_CHECK(spec.x.shape.rank() == 4 || spec.x.shape.rank() == 2,
                 "layer_norm: x has shape {}, expected N,C,H,W or N,C", spec.x.shape.ToString());
  return std::make_unique<LayerNorm>(device, spec);
}

}  // namespace lockstep::train::cpu
