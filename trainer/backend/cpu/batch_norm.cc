// Ioffe and Szegedy, "Batch normalization", 2015. See BatchNormSpec.
#include <algorithm>
#include <cmath>

#include "trainer/backend/cpu/bound_op.h"
#include "trainer/backend/cpu/ops.h"
#include "trainer/backend/parameters.h"

namespace lockstep::train::cpu {
namespace {

// Channels are processed in groups adjacent in memory, so that loops over a group vectorize.
constexpr std::int64_t kGroup = kBatchNormChannels;

struct Group {
  std::int64_t channel;  // the first one
  std::int64_t size;     // padding channels included
  std::int64_t used;     // without them
  std::int64_t at;       // offset of the first channel's first float in a row
};

// A share of the valid rows, of which other threads may have others.
struct Slice {
  std::int64_t index, first_row, last_row;
};

void Merge(const BatchNormMoments& part, BatchNormMoments& all) {
  const double count = all.count + part.count;
  if (part.count == 0) return;
  for (std::size_t i = 0; i < kGroup; ++i) {
    const double distance = part.mean[i] - all.mean[i];
    all.mean[i] += distance * (part.count / count);
    all.squares[i] += part.squares[i] + distance * distance * (all.count * part.count / count);
  }
  all.count = count;
}

void Merge(const BatchNormSums& part, BatchNormSums& all) {
  for (std::size_t i = 0; i < kGroup; ++i) {
    all.dgamma[i] += part.dgamma[i];
    all.dbeta[i] += part.dbeta[i];
  }
}

// y = x * a[c] + b[c]. The workspace holds two doubles per channel: mean and
// 1 / sqrt(variance + epsilon).
//
// A thread takes all rows of a group of channels, which it reads again while they are still in its
// cache. Where there are too few groups for all threads, the rows are divided, too.
class BatchNorm final : public BoundOp {
 public:
  BatchNorm(const Device& device, const BatchNormSpec& spec)
      : BoundOp(device, spec.x, spec.x),
        spec_(spec),
        view_(ViewOf(spec.x)),
        // A dense matrix N,K is one block of K adjacent channels.
        inner_(view_.area() == 1 ? view_.outer * view_.inner : view_.inner),
        blocks_(view_.outer * view_.inner / inner_),
        groups_(blocks_ * ((inner_ + kGroup - 1) / kGroup)),
        threads_(ThreadsFor(device.threads, view_.floats())),
        slices_(SlicesFor(groups_, threads_, view_.rows)) {}

  std::vector<ParameterDesc> Parameters() const override { return ParametersOf(spec_); }
  std::vector<ParameterDesc> States() const override { return StatesOf(spec_); }
  std::size_t WorkspaceBytes() const override {
    return static_cast<std::size_t>(2 * view_.channels) * sizeof(double);
  }
  // What each slice of each group adds up, where there are several.
  std::size_t ScratchBytes() const override {
    if (slices_ == 1) return 0;
    return static_cast<std::size_t>(groups_ * slices_) *
           std::max(sizeof(BatchNormMoments), sizeof(BatchNormSums));
  }

  BackwardReads Reads() const override { return {.x = true, .y = false}; }
  void Forward(Mode mode, const StepContext& step) override {
    const std::int64_t valid = step.valid;
    const bool measures = mode == Mode::kTraining && valid > 0;
    if (!measures) TakeMovingAverages();
    if (measures && slices_ > 1) MeasureSlices(valid);
    ForSlices(valid, [&](const Group& group, const Slice& slice) {
      if (measures && slices_ == 1) Track(group, Measure(group, slice));
      Normalize(group, slice, valid);
    });
  }
  void Restore(const StepContext& step) override {
    ForSlices(step.valid,
              [&](const Group& group, const Slice& slice) { Normalize(group, slice, step.valid); });
  }

  // dbeta = sum dy, dgamma = sum dy * x_hat, both over the valid rows (m elements per channel), and
  // dx = gamma / sqrt(variance + epsilon) * (dy - dbeta / m - x_hat * dgamma / m)
  void Backward(const StepContext& step) override {
    const std::int64_t valid = step.valid;
    if (slices_ > 1) SumSlices(valid);
    ForSlices(valid, [&](const Group& group, const Slice& slice) {
      if (slices_ > 1) return WriteDx(group, slice, SumsOf(slice), valid);
      const BatchNormSums sums = Sum(group, slice);
      KeepGradients(group, sums);
      WriteDx(group, slice, sums, valid);
    });
  }

 private:
  // Few slices, such that all threads have about as much to do.
  static std::int64_t SlicesFor(std::int64_t groups, int threads, std::int64_t rows) {
    std::int64_t slices = 1;
    while (groups * slices % threads != 0 && groups * slices < 4 * threads && slices < rows)
      ++slices;
    return slices;
  }

  // Calls body(group, slice) for all slices of all groups, in parallel.
  template <typename Body>
  void ForSlices(std::int64_t valid, Body body) const {
    ParallelFor(threads_, groups_ * slices_, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t part = i % slices_;
        body(GroupAt(i / slices_), Slice{.index = i,
                                         .first_row = valid * part / slices_,
                                         .last_row = valid * (part + 1) / slices_});
      }
    });
  }

  // Calls body(group, index of its first slice), one after the other.
  template <typename Body>
  void ForGroups(Body body) const {
    for (std::int64_t i = 0; i < groups_; ++i) body(GroupAt(i), i * slices_);
  }

  Group GroupAt(std::int64_t i) const {
    const std::int64_t in_block = groups_ / blocks_;
    const std::int64_t block = i / in_block, first = i % in_block * kGroup;
    const std::int64_t channel = block * inner_ + first;
    const std::int64_t size = std::min(kGroup, inner_ - first);
    return {.channel = channel,
            .size = size,
            .used = std::max<std::int64_t>(0, std::min(size, view_.channels - channel)),
            .at = block * view_.area() * inner_ + first};
  }

  // Calls body(run, offset of its first float) for the pixels of the slice's rows.
  template <typename Body>
  void ForRuns(const Group& group, const Slice& slice, Body body) const {
    BatchNormRun run{
        .pixels = view_.area(), .step = inner_, .channels = group.size, .relu = spec_.relu};
    std::int64_t rows = 1;
    if (blocks_ == 1) {  // the rows are one behind the other
      rows = slice.last_row - slice.first_row;
      run.pixels *= rows;
    }
    for (std::int64_t n = slice.first_row; n < slice.last_row; n += rows) {
      body(run, n * view_.row_floats() + group.at);
    }
  }

  void MeasureSlices(std::int64_t valid) const {
    auto* const parts = static_cast<BatchNormMoments*>(memory().scratch);
    ForSlices(valid, [&](const Group& group, const Slice& slice) {
      parts[slice.index] = Measure(group, slice);
    });
    ForGroups([&](const Group& group, std::int64_t first) {
      for (std::int64_t i = 1; i < slices_; ++i) Merge(parts[first + i], parts[first]);
      Track(group, parts[first]);
    });
  }

  // The sums of each group are then in the place of its first slice.
  void SumSlices(std::int64_t valid) const {
    ForSlices(valid, [&](const Group& group, const Slice& slice) {
      sums()[slice.index] = Sum(group, slice);
    });
    ForGroups([&](const Group& group, std::int64_t first) {
      for (std::int64_t i = 1; i < slices_; ++i) Merge(sums()[first + i], sums()[first]);
      KeepGradients(group, sums()[first]);
    });
  }
  const BatchNormSums& SumsOf(const Slice& slice) const {
    return sums()[slice.index / slices_ * slices_];
  }

  BatchNormMoments Measure(const Group& group, const Slice& slice) const {
    BatchNormMoments moments{};
    ForRuns(group, slice, [&](const BatchNormRun& run, std::int64_t at) {
      device().kernels.batch_norm_measure(run, x() + at, moments);
    });
    return moments;
  }

  void Track(const Group& group, const BatchNormMoments& measured) const {
    const double keep = spec_.momentum;
    for (std::int64_t i = 0; i < group.used; ++i) {
      const std::int64_t c = group.channel + i;
      const double mean = measured.mean[i], variance = measured.squares[i] / measured.count;
      KeepMoments(c, mean, variance);
      float& moving_mean = memory().states[0][c];
      float& moving_variance = memory().states[1][c];
      moving_mean = static_cast<float>(keep * moving_mean + (1 - keep) * mean);
      moving_variance = static_cast<float>(keep * moving_variance + (1 - keep) * variance);
    }
  }

  void TakeMovingAverages() const {
    for (std::int64_t c = 0; c < view_.channels; ++c) {
      KeepMoments(c, memory().states[0][c], memory().states[1][c]);
    }
  }

  void KeepMoments(std::int64_t c, double mean, double variance) const {
    moments()[c] = mean;
    moments()[view_.channels + c] = 1 / std::sqrt(variance + spec_.epsilon);
  }

  BatchNormFactors FactorsOf(const Group& group) const {
    BatchNormFactors factors{};
    for (std::int64_t i = 0; i < group.used; ++i) {
      const std::int64_t c = group.channel + i;
      const double inverse = moments()[view_.channels + c];
      factors.mean[i] = static_cast<float>(moments()[c]);
      factors.inverse[i] = static_cast<float>(inverse);
      factors.scale[i] = static_cast<float>(memory().parameters[0][c] * inverse);
      factors.shift[i] = memory().parameters[1][c];
    }
    return factors;
  }

  void Normalize(const Group& group, const Slice& slice, std::int64_t valid) const {
    const BatchNormFactors factors = FactorsOf(group);
    ForRuns(group, slice, [&](const BatchNormRun& run, std::int64_t at) {
      device().kernels.batch_norm(run, factors, x() + at, y() + at);
    });
    if (slice.index % slices_ == 0) ZeroPaddingRows(group, valid, y());
  }

  BatchNormSums Sum(const Group& group, const Slice& slice) const {
    const BatchNormFactors factors = FactorsOf(group);
    BatchNormSums sums{};
    ForRuns(group, slice, [&](const BatchNormRun& run, std::int64_t at) {
      device().kernels.batch_norm_sums(run, factors, x() + at, dy() + at, sums);
    });
    return sums;
  }

  void KeepGradients(const Group& group, const BatchNormSums& sums) const {
    for (std::int64_t i = 0; i < group.used; ++i) {
      memory().gradients[0][group.channel + i] = static_cast<float>(sums.dgamma[i]);
      memory().gradients[1][group.channel + i] = static_cast<float>(sums.dbeta[i]);
    }
  }

  void WriteDx(const Group& group, const Slice& slice, const BatchNormSums& sums,
               std::int64_t valid) const {
    if (dx() == nullptr) return;
    BatchNormFactors factors = FactorsOf(group);
    const double count = static_cast<double>(valid * view_.area());
    for (std::int64_t i = 0; i < group.used && valid > 0; ++i) {
      factors.offset[i] = static_cast<float>(sums.dbeta[i] / count);
      factors.slope[i] = static_cast<float>(sums.dgamma[i] / count) * factors.inverse[i];
    }
    ForRuns(group, slice, [&](const BatchNormRun& run, std::int64_t at) {
      device().kernels.batch_norm_backward(run, factors, x() + at, dy() + at, dx() + at);
    });
    if (slice.index % slices_ == 0) ZeroPaddingRows(group, valid, dx());
  }

  void ZeroPaddingRows(const Group& group, std::int64_t valid, float* target) const {
    for (std::int64_t n = valid; n < view_.rows; ++n) {
      for (std::int64_t pixel = 0; pixel < view_.area(); ++pixel) {
        std::fill_n(target + n * view_.row_floats() + group.at + pixel * inner_, group.size, 0.0f);
      }
    }
  }

  BatchNormSums* sums() const { return static_cast<BatchNormSums*>(memory().scratch); }
  double* moments() const { return static_cast<double*>(memory().workspace); }

  BatchNormSpec spec_;
  ImageView view_;
  std::int64_t inner_;   // adjacent channels
  std::int64_t blocks_;  // of so many channels in a row
  std::int64_t groups_;
  int threads_;
  std::int64_t slices_;  // of each group's rows
};

}  // namespace

std::unique_ptr<Op> MakeOp(const Device& device, const BatchNormSpec& spec) {
  LOCKSTEP_CHECK(spec.x.shape.rank() == 4 || spec.x.shape.rank() == 2,
                 "batch_norm: x has shape {}, expected N,C,H,W or N,C", spec.x.shape.ToString());
  return std::make_unique<BatchNorm>(device, spec);
}

}  // namespace lockstep::train::cpu
