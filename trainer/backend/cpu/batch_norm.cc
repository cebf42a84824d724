// Ioffe and Szegedy, "Batch normalization", 2015. See BatchNormSpec.
#include <algorithm>
#include <array>
#include <cmath>

#include "trainer/backend/cpu/bound_op.h"
#include "trainer/backend/cpu/ops.h"
#include "trainer/backend/parameters.h"

namespace lockstep::train::cpu {
namespace {

// Channels are processed in groups adjacent in memory, so that loops over a group vectorize.
constexpr std::int64_t kGroup = 16;
using GroupSums = std::array<double, kGroup>;

struct Group {
  std::int64_t channel;  // the first one
  std::int64_t size;     // padding channels included
  std::int64_t used;     // without them
  std::int64_t at;       // offset of the first channel's first float in a row
};

// y = x * a[c] + b[c]. The workspace holds two doubles per channel: mean and
// 1 / sqrt(variance + epsilon).
class BatchNorm final : public BoundOp {
 public:
  BatchNorm(const Device& device, const BatchNormSpec& spec)
      : BoundOp(device, spec.x, spec.x),
        spec_(spec),
        view_(ViewOf(spec.x)),
        // A dense matrix N,K is one block of K adjacent channels.
        inner_(view_.area() == 1 ? view_.outer * view_.inner : view_.inner) {}

  std::vector<ParameterDesc> Parameters() const override { return ParametersOf(spec_); }
  std::vector<ParameterDesc> States() const override { return StatesOf(spec_); }
  std::size_t WorkspaceBytes() const override {
    return static_cast<std::size_t>(2 * view_.channels) * sizeof(double);
  }

  void Forward(Mode mode, const StepContext& step) override {
    const bool measure = mode == Mode::kTraining && step.valid > 0;
    ForGroups([&](const Group& group) {
      if (measure) {
        MeasureAndTrack(group, step.valid);
      } else {
        TakeMovingAverages(group);
      }
      Normalize(group, step.valid);
      ZeroPaddingRows(group, step.valid, y());
    });
  }

  // dbeta = sum dy, dgamma = sum dy * x_hat, both over the valid rows (m elements per channel), and
  // dx = gamma / sqrt(variance + epsilon) * (dy - dbeta / m - x_hat * dgamma / m)
  void Backward(const StepContext& step) override {
    ForGroups([&](const Group& group) { BackwardGroup(group, step.valid); });
  }

 private:
  template <typename Body>
  void ForGroups(Body body) const {
    const std::int64_t in_block = (inner_ + kGroup - 1) / kGroup;
    const std::int64_t blocks = view_.outer * view_.inner / inner_;
    ParallelFor(ThreadsFor(device().threads, view_.floats()), blocks * in_block,
                [&](std::int64_t begin, std::int64_t end) {
                  for (std::int64_t i = begin; i < end; ++i) {
                    body(GroupAt(i / in_block, i % in_block * kGroup));
                  }
                });
  }

  Group GroupAt(std::int64_t block, std::int64_t first) const {
    const std::int64_t channel = block * inner_ + first;
    const std::int64_t size = std::min(kGroup, inner_ - first);
    return {.channel = channel,
            .size = size,
            .used = std::max<std::int64_t>(0, std::min(size, view_.channels - channel)),
            .at = block * view_.area() * inner_ + first};
  }

  // Calls body(index of the group's first float) for every pixel of the first `rows` rows.
  template <typename Body>
  void ForPixels(const Group& group, std::int64_t rows, Body body) const {
    for (std::int64_t n = 0; n < rows; ++n) {
      const std::int64_t row = n * view_.row_floats() + group.at;
      for (std::int64_t pixel = 0; pixel < view_.area(); ++pixel) body(row + pixel * inner_);
    }
  }

  void MeasureAndTrack(const Group& group, std::int64_t valid) {
    const double count = static_cast<double>(valid * view_.area());
    GroupSums sum{}, square{};
    ForPixels(group, valid, [&](std::int64_t at) {
      for (std::int64_t i = 0; i < group.size; ++i) sum[index(i)] += x()[at + i];
    });
    for (double& value : sum) value /= count;
    ForPixels(group, valid, [&](std::int64_t at) {
      for (std::int64_t i = 0; i < group.size; ++i) {
        const double centered = x()[at + i] - sum[index(i)];
        square[index(i)] += centered * centered;
      }
    });
    const double keep = spec_.momentum;
    for (std::int64_t i = 0; i < group.used; ++i) {
      const std::int64_t c = group.channel + i;
      const double variance = square[index(i)] / count;
      KeepMoments(c, sum[index(i)], variance);
      float& moving_mean = memory().states[0][c];
      float& moving_variance = memory().states[1][c];
      moving_mean = static_cast<float>(keep * moving_mean + (1 - keep) * sum[index(i)]);
      moving_variance = static_cast<float>(keep * moving_variance + (1 - keep) * variance);
    }
  }

  void TakeMovingAverages(const Group& group) {
    for (std::int64_t c = group.channel; c < group.channel + group.used; ++c) {
      KeepMoments(c, memory().states[0][c], memory().states[1][c]);
    }
  }

  void KeepMoments(std::int64_t c, double mean, double variance) {
    moments()[c] = mean;
    moments()[view_.channels + c] = 1 / std::sqrt(variance + spec_.epsilon);
  }

  void Normalize(const Group& group, std::int64_t valid) {
    std::array<float, kGroup> mean{}, scale{}, shift{};
    for (std::int64_t i = 0; i < group.used; ++i) {
      const std::int64_t c = group.channel + i;
      mean[index(i)] = static_cast<float>(moments()[c]);
      scale[index(i)] =
          static_cast<float>(memory().parameters[0][c] * moments()[view_.channels + c]);
      shift[index(i)] = memory().parameters[1][c];
    }
    ForPixels(group, valid, [&](std::int64_t at) {
      for (std::int64_t i = 0; i < group.size; ++i) {
        const float value = (x()[at + i] - mean[index(i)]) * scale[index(i)] + shift[index(i)];
        y()[at + i] = spec_.relu && value < 0 ? 0.0f : value;  // NaN is kept
      }
    });
  }

  void BackwardGroup(const Group& group, std::int64_t valid) {
    std::array<float, kGroup> mean{}, inverse{}, factor{}, offset{}, slope{};
    for (std::int64_t i = 0; i < group.used; ++i) {
      const std::int64_t c = group.channel + i;
      mean[index(i)] = static_cast<float>(moments()[c]);
      inverse[index(i)] = static_cast<float>(moments()[view_.channels + c]);
    }
    GroupSums dgamma{}, dbeta{};
    ForPixels(group, valid, [&](std::int64_t at) {
      for (std::int64_t i = 0; i < group.size; ++i) {
        const float normalized = (x()[at + i] - mean[index(i)]) * inverse[index(i)];
        const float gradient = Gradient(at + i);
        dgamma[index(i)] += gradient * normalized;
        dbeta[index(i)] += gradient;
      }
    });
    const double count = static_cast<double>(valid * view_.area());
    for (std::int64_t i = 0; i < group.used; ++i) {
      const std::int64_t c = group.channel + i;
      memory().gradients[0][c] = static_cast<float>(dgamma[index(i)]);
      memory().gradients[1][c] = static_cast<float>(dbeta[index(i)]);
      if (valid == 0) continue;
      factor[index(i)] = memory().parameters[0][c] * inverse[index(i)];
      offset[index(i)] = static_cast<float>(dbeta[index(i)] / count);
      slope[index(i)] = static_cast<float>(dgamma[index(i)] / count) * inverse[index(i)];
    }
    if (dx() == nullptr) return;
    ForPixels(group, valid, [&](std::int64_t at) {
      for (std::int64_t i = 0; i < group.size; ++i) {
        const float centered = x()[at + i] - mean[index(i)];
        dx()[at + i] =
            factor[index(i)] * (Gradient(at + i) - offset[index(i)] - centered * slope[index(i)]);
      }
    });
    ZeroPaddingRows(group, valid, dx());
  }

  void ZeroPaddingRows(const Group& group, std::int64_t valid, float* target) const {
    for (std::int64_t n = valid; n < view_.rows; ++n) {
      for (std::int64_t pixel = 0; pixel < view_.area(); ++pixel) {
        std::fill_n(target + n * view_.row_floats() + group.at + pixel * inner_, group.size, 0.0f);
      }
    }
  }

  // Of the normalization's result, before the relu.
  float Gradient(std::int64_t at) const { return spec_.relu && !(y()[at] > 0) ? 0.0f : dy()[at]; }
  static std::size_t index(std::int64_t i) { return static_cast<std::size_t>(i); }
  double* moments() const { return static_cast<double*>(memory().workspace); }

  BatchNormSpec spec_;
  ImageView view_;
  std::int64_t inner_;
};

}  // namespace

std::unique_ptr<Op> MakeOp(const Device& device, const BatchNormSpec& spec) {
  LOCKSTEP_CHECK(spec.x.shape.rank() == 4 || spec.x.shape.rank() == 2,
                 "batch_norm: x has shape {}, expected N,C,H,W or N,C", spec.x.shape.ToString());
  return std::make_unique<BatchNorm>(device, spec);
}

}  // namespace lockstep::train::cpu
