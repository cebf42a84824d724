#include "trainer/data/gather.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "base/status.h"

namespace lockstep::train {

Batch MakeBatch(const Dataset& dataset, const StepPlan& plan) {
  const auto rows = static_cast<std::size_t>(plan.LocalBatch());
  Batch batch;
  batch.pixels.resize(rows * static_cast<std::size_t>(dataset.sample_shape().elements()));
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
  const auto sample_bytes = static_cast<std::size_t>(dataset.sample_shape().elements());

  batch.step = step;
  batch.first_position = slice.begin;
  batch.valid = slice.end - slice.begin;
  batch.hash_sum = 0;
  std::span<std::uint8_t> pixels(batch.pixels);
  for (std::int64_t position = slice.begin; position < slice.end; ++position) {
    const std::int64_t index = order(position);
    const auto row = static_cast<std::size_t>(position - slice.begin);
    LOCKSTEP_ASSIGN_OR_RETURN(
        batch.labels[row], dataset.Read(index, pixels.subspan(row * sample_bytes, sample_bytes)));
    if (batch.labels[row] < 0 || batch.labels[row] >= dataset.classes()) {
      return absl::DataLossError(fmt::format("sample {}: label {}, expected 0 to {}", index,
                                             batch.labels[row], dataset.classes() - 1));
    }
    batch.weights[row] = 1.0f;
    batch.hash_sum += SampleHash(index);
  }
  const auto valid = static_cast<std::ptrdiff_t>(batch.valid);
  const auto padding = static_cast<std::size_t>(batch.valid) * sample_bytes;
  std::fill(batch.pixels.begin() + static_cast<std::ptrdiff_t>(padding), batch.pixels.end(),
            std::uint8_t{0});
  std::fill(batch.labels.begin() + valid, batch.labels.end(), 0);
  std::fill(batch.weights.begin() + valid, batch.weights.end(), 0.0f);
  return absl::OkStatus();
}

}  // namespace lockstep::train
