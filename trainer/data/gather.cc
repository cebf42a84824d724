#include "trainer/data/gather.h"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <span>

#include "base/status.h"
#include "trainer/data/augment.h"

namespace lockstep::train {
namespace {

// All samples of a batch, whatever their elements are.
std::span<std::uint8_t> BytesOf(Batch& batch) {
  if (batch.features.empty()) return batch.pixels;
  return {reinterpret_cast<std::uint8_t*>(batch.features.data()),
          batch.features.size() * sizeof(float)};
}

std::span<float> TargetsOf(Batch& batch, std::size_t row) {
  const std::size_t each = batch.targets.size() / batch.labels.size();
  return std::span(batch.targets).subspan(row * each, each);
}

// As Dataset::Read. Memory that a sample needs, and that is not there now, may be there later.
absl::StatusOr<std::int32_t> ReadSample(const Dataset& dataset, std::int64_t index,
                                        std::span<std::uint8_t> sample) {
  try {
    return dataset.Read(index, sample);
  } catch (const std::bad_alloc&) {
    return absl::UnavailableError(fmt::format("{}: no memory to read it", dataset.PlaceOf(index)));
  }
}

absl::Status FillRow(const Dataset& dataset, std::int64_t index, std::span<std::uint8_t> sample,
                     std::int32_t& label) {
  LOCKSTEP_ASSIGN_OR_RETURN(label, ReadSample(dataset, index, sample));
  if (label >= 0 && label < dataset.classes()) return absl::OkStatus();
  return absl::DataLossError(fmt::format("{}: label {}, expected 0 to {}", dataset.PlaceOf(index),
                                         label, dataset.classes() - 1));
}

// Rows differ in time (JPEG files of many sizes), so a thread takes the next row when it is done
// with one. Copies of data in memory take less time than waking a thread.
template <class Fill>
absl::Status ForEachRow(const Dataset& dataset, const ReadingThreads& threads, std::size_t rows,
                        const Fill& fill) {
  if (threads.count > 1 && !dataset.InMemory()) {
    return threads.pool->ForEach(rows, static_cast<std::size_t>(threads.count), fill);
  }
  for (std::size_t row = 0; row < rows; ++row) LOCKSTEP_RETURN_IF_ERROR(fill(row));
  return absl::OkStatus();
}

// Calls `visit(member, elements)` for each list of a batch that has elements.
template <class Visit>
void ForEachList(const Dataset& dataset, const StepPlan& plan, const Visit& visit) {
  const auto rows = static_cast<std::size_t>(plan.LocalBatch());
  const std::size_t elements = rows * static_cast<std::size_t>(dataset.sample_shape().elements());
  if (dataset.element() == DType::kFloat32) {
    visit(&Batch::features, elements);
  } else {
    visit(&Batch::pixels, elements);
  }
  visit(&Batch::labels, rows);
  visit(&Batch::targets, rows * static_cast<std::size_t>(dataset.targets()));
  visit(&Batch::weights, rows);
}

EpochOrder OrderOf(const LoaderOptions& options, std::int64_t epoch) {
  const auto& shards = epoch == options.begun_epoch ? options.begun_shards : options.shards;
  return {shards.get(), options.seed, static_cast<std::uint64_t>(epoch), options.plan.examples,
          options.shuffle};
}

}  // namespace

Batch MakeBatch(const Dataset& dataset, const StepPlan& plan) {
  Batch batch;
  ForEachList(dataset, plan,
              [&](auto list, std::size_t elements) { (batch.*list).resize(elements); });
  return batch;
}

std::size_t BatchBytes(const Dataset& dataset, const StepPlan& plan) {
  std::size_t bytes = 0;
  ForEachList(dataset, plan, [&](auto list, std::size_t elements) {
    bytes += elements * sizeof((Batch().*list)[0]);
  });
  return bytes;
}

absl::Status Gather(const Dataset& dataset, const LoaderOptions& options, std::int64_t step,
                    Batch& batch) {
  const StepPlan& plan = options.plan;
  const Slice slice = RankSlice(plan, step, options.rank);
  const auto epoch = static_cast<std::uint64_t>(plan.Epoch(step));
  const EpochOrder order = OrderOf(options, plan.Epoch(step));
  const std::size_t sample_bytes = dataset.sample_bytes();

  batch.step = step;
  batch.first_position = slice.begin;
  batch.valid = slice.end - slice.begin;
  const auto rows = static_cast<std::size_t>(batch.valid);
  const std::span<std::uint8_t> samples = BytesOf(batch);
  const Shape& shape = dataset.sample_shape();
  const auto fill = [&](std::size_t row) -> absl::Status {
    const std::int64_t position = slice.begin + static_cast<std::int64_t>(row);
    const std::span<std::uint8_t> sample = samples.subspan(row * sample_bytes, sample_bytes);
    const std::int64_t index = order(position) % dataset.size();  // in whichever copy of the set
    LOCKSTEP_RETURN_IF_ERROR(FillRow(dataset, index, sample, batch.labels[row]));
    if (!batch.targets.empty()) dataset.ReadTargets(index, TargetsOf(batch, row));
    if (!options.augment) return absl::OkStatus();
    Augment(DrawAugmentation(*options.augment, shape, options.seed, epoch, position), shape,
            sample);
    return absl::OkStatus();
  };
  LOCKSTEP_RETURN_IF_ERROR(ForEachRow(dataset, options.threads, rows, fill));
  batch.hash_sum = 0;
  for (std::int64_t position = slice.begin; position < slice.end; ++position) {
    batch.hash_sum += SampleHash(order(position));
  }
  const auto valid = static_cast<std::ptrdiff_t>(batch.valid);
  // Padding is zero: the bytes of 0.0f, too.
  std::ranges::fill(samples.subspan(rows * sample_bytes), std::uint8_t{0});
  std::fill(batch.labels.begin() + valid, batch.labels.end(), 0);
  std::fill(batch.targets.begin() + valid * dataset.targets(), batch.targets.end(), 0.0f);
  std::fill(batch.weights.begin(), batch.weights.begin() + valid, 1.0f);
  std::fill(batch.weights.begin() + valid, batch.weights.end(), 0.0f);
  return absl::OkStatus();
}

}  // namespace lockstep::train
