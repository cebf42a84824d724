#include "trainer/data/gather.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "base/status.h"

namespace lockstep::train {
namespace {

// All samples of a batch, whatever their elements are.
std::span<std::uint8_t> BytesOf(Batch& batch) {
  if (batch.features.empty()) return batch.pixels;
  return {reinterpret_cast<std::uint8_t*>(batch.features.data()),
          batch.features.size() * sizeof(float)};
}

}  // namespace

Batch MakeBatch(const Dataset& dataset, const StepPlan& plan) {
  const auto rows = static_cast<std::size_t>(plan.LocalBatch());
  Batch batch;
  const std::size_t elements = rows * static_cast<std::size_t>(dataset.sample_shape().elements());
  if (dataset.element() == DType::kFloat32) {
    batch.features.resize(elements);
  } else {
    batch.pixels.resize(elements);
  }
  batch.labels.resize(rows);
  batch.weights.resize(rows);
  return batch;
}

absl::Status Gather(const Dataset& dataset, const LoaderOptions& options, std::int64_t step,
                    Batch& batch) {
  const StepPlan& plan = options.plan;
  const Slice slice = RankSlice(plan, step, options.rank);
  const auto epoch = static_cast<std::uint64_t>(plan.Epoch(step));
  const Permutation order(options.seed, epoch, plan.examples, options.shuffle);
  const std::size_t sample_bytes = dataset.sample_bytes();

  batch.step = step;
  batch.first_position = slice.begin;
  batch.valid = slice.end - slice.begin;
  batch.hash_sum = 0;
  const std::span<std::uint8_t> samples = BytesOf(batch);
  for (std::int64_t position = slice.begin; position < slice.end; ++position) {
    const std::int64_t index = order(position);
    const auto row = static_cast<std::size_t>(position - slice.begin);
    LOCKSTEP_ASSIGN_OR_RETURN(
        batch.labels[row], dataset.Read(index, samples.subspan(row * sample_bytes, sample_bytes)));
    if (batch.labels[row] < 0 || batch.labels[row] >= dataset.classes()) {
      return absl::DataLossError(fmt::format("sample {}: label {}, expected 0 to {}", index,
                                             batch.labels[row], dataset.classes() - 1));
    }
    batch.weights[row] = 1.0f;
    batch.hash_sum += SampleHash(index);
  }
  const auto valid = static_cast<std::ptrdiff_t>(batch.valid);
  // Padding is zero: the bytes of 0.0f, too.
  std::ranges::fill(samples.subspan(static_cast<std::size_t>(batch.valid) * sample_bytes),
                    std::uint8_t{0});
  std::fill(batch.labels.begin() + valid, batch.labels.end(), 0);
  std::fill(batch.weights.begin() + valid, batch.weights.end(), 0.0f);
  return absl::OkStatus();
}

}  // namespace lockstep::train
