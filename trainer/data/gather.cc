#include "trainer/data/gather.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <new>
#include <span>

#include "base/status.h"
#include "trainer/data/augment.h"
#include "trainer/data/mix_up.h"

namespace lockstep::train {
namespace {

// How many rows of a batch can have a partner outside of it: the first and the last one.
constexpr std::size_t kMostOutside = 2;

// All samples of a batch, whatever their elements are.
std::span<std::uint8_t> BytesOf(Batch& batch) {
  if (batch.features.empty()) return batch.pixels;
  return {reinterpret_cast<std::uint8_t*>(batch.features.data()),
          batch.features.size() * sizeof(float)};
}

// The real rows of a batch and, behind them, those of partners outside of it.
class Rows {
 public:
  Rows(const Dataset& dataset, const LoaderOptions& options, const Slice& slice, Batch& batch)
      : bytes_(dataset.sample_bytes()),
        numbers_(static_cast<std::size_t>(dataset.targets())),
        samples_(options.plan.examples),
        slice_(slice),
        batch_(batch) {
    if (!Mixes(options) || size() == 0) return;
    for (const std::int64_t position : {slice.begin, slice.end - 1}) {
      const std::int64_t partner = PartnerOf(position, samples_);
      if (!Has(partner)) outside_[outside_count_++] = partner;
    }
  }

  std::size_t size() const { return static_cast<std::size_t>(slice_.end - slice_.begin); }
  std::size_t size_with_outside() const { return size() + outside_count_; }
  // These are what row `i` has. Require: i < size_with_outside().
  std::int64_t position(std::size_t i) const {
    return i < size() ? slice_.begin + static_cast<std::int64_t>(i) : outside_[i - size()];
  }
  std::span<std::uint8_t> sample(std::size_t i) const {
    if (i < size()) return BytesOf(batch_).subspan(i * bytes_, bytes_);
    return std::span(batch_.outside.pixels).subspan((i - size()) * bytes_, bytes_);
  }
  std::int32_t& label(std::size_t i) const {
    return i < size() ? batch_.labels[i] : batch_.outside.labels[i - size()];
  }
  std::span<float> targets(std::size_t i) const {
    if (i < size()) return std::span(batch_.targets).subspan(i * numbers_, numbers_);
    return std::span(batch_.outside.targets).subspan((i - size()) * numbers_, numbers_);
  }
  // The row of the partner of row `i` below size().
  std::size_t partner(std::size_t i) const {
    const std::int64_t partner = PartnerOf(position(i), samples_);
    if (Has(partner)) return static_cast<std::size_t>(partner - slice_.begin);
    return size() + (outside_[0] == partner ? 0 : 1);
  }

 private:
  bool Has(std::int64_t position) const {
    return position >= slice_.begin && position < slice_.end;
  }

  const std::size_t bytes_, numbers_;
  const std::int64_t samples_;  // of the epoch
  const Slice slice_;
  Batch& batch_;
  std::array<std::int64_t, kMostOutside> outside_ = {};
  std::size_t outside_count_ = 0;
};

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

// Calls `visit(list, elements)` for each list of `batch` that has elements.
template <class Visit>
void ForEachList(const Dataset& dataset, const StepPlan& plan, bool mixes, Batch& batch,
                 const Visit& visit) {
  const auto rows = static_cast<std::size_t>(plan.LocalBatch());
  const std::size_t elements = rows * static_cast<std::size_t>(dataset.sample_shape().elements());
  if (dataset.element() == DType::kFloat32) {
    visit(batch.features, elements);
  } else {
    visit(batch.pixels, elements);
  }
  const auto numbers = static_cast<std::size_t>(dataset.targets());
  visit(batch.labels, rows);
  visit(batch.targets, rows * numbers);
  visit(batch.weights, rows);
  if (!mixes) return;
  if (numbers == 0) {
    visit(batch.shares, rows);
    visit(batch.partners, rows);
  }
  visit(batch.outside.pixels, kMostOutside * dataset.sample_bytes());
  visit(batch.outside.labels, kMostOutside);
  visit(batch.outside.targets, kMostOutside * numbers);
}

// Mixes a row with its partner, which stays as it is.
void MixRow(std::uint32_t weight, std::size_t row, const Rows& rows) {
  const std::size_t partner = rows.partner(row);
  MixBytes(weight, rows.sample(partner), rows.sample(row));
  MixNumbers(ShareOf(weight), rows.targets(partner), rows.targets(row));
}

void MixRows(std::uint32_t weight, std::uint32_t next_weight, std::size_t row, const Rows& rows) {
  MixPair(weight, next_weight, rows.sample(row), rows.sample(row + 1));
  const std::span<float> own = rows.targets(row), next = rows.targets(row + 1);
  for (std::size_t i = 0; i < own.size(); ++i) {
    const float before = own[i];
    MixNumbers(ShareOf(weight), next.subspan(i, 1), own.subspan(i, 1));
    MixNumbers(ShareOf(next_weight), {&before, 1}, next.subspan(i, 1));
  }
}

// Requires: all rows are as they are without mix-up. What changes a row comes after what reads it.
absl::Status MixBatch(const Dataset& dataset, const LoaderOptions& options, std::uint64_t epoch,
                      const Rows& rows, Batch& batch) {
  const auto weight = [&](std::size_t row) {
    return DrawMix(options.augment->mix_up->alpha, options.seed, epoch, rows.position(row));
  };
  for (std::size_t row = 0; row < batch.shares.size(); ++row) {
    const bool is_real = row < rows.size();
    batch.shares[row] = is_real ? ShareOf(weight(row)) : 1.0f;
    batch.partners[row] = is_real ? rows.label(rows.partner(row)) : 0;
  }
  std::size_t begin = 0, end = rows.size();
  if (end == 0) return absl::OkStatus();
  // The last of an odd number of samples reads a row that has another partner.
  const bool is_last_alone = rows.position(end - 1) % 2 == 0;
  if (is_last_alone) {
    MixRow(weight(end - 1), end - 1, rows);
    --end;
  }
  if (begin < end && rows.position(begin) % 2 != 0) {
    MixRow(weight(begin), begin, rows);
    ++begin;
  }
  return ForEachRow(dataset, options.threads, (end - begin) / 2, [&](std::size_t pair) {
    const std::size_t row = begin + 2 * pair;
    MixRows(weight(row), weight(row + 1), row, rows);
    return absl::OkStatus();
  });
}

// Padding is zero: the bytes of 0.0f, too.
void Pad(std::size_t sample_bytes, std::int64_t numbers, Batch& batch) {
  const auto valid = static_cast<std::ptrdiff_t>(batch.valid);
  std::ranges::fill(BytesOf(batch).subspan(sample_bytes), std::uint8_t{0});
  std::fill(batch.labels.begin() + valid, batch.labels.end(), 0);
  std::fill(batch.targets.begin() + valid * numbers, batch.targets.end(), 0.0f);
  std::fill(batch.weights.begin(), batch.weights.begin() + valid, 1.0f);
  std::fill(batch.weights.begin() + valid, batch.weights.end(), 0.0f);
}

}  // namespace

const EpochOrder& EpochOrders::Of(std::int64_t epoch) {
  if (order_ && epoch == epoch_) return *order_;
  const bool has_begun = epoch == options_.begun_epoch;
  const auto& shards = has_begun ? options_.begun_shards : options_.shards;
  epoch_ = epoch;
  return order_.emplace(shards.get(), options_.seed, static_cast<std::uint64_t>(epoch),
                        options_.plan.examples, options_.shuffle);
}

Batch MakeBatch(const Dataset& dataset, const StepPlan& plan, bool mixes) {
  Batch batch;
  ForEachList(dataset, plan, mixes, batch,
              [](auto& list, std::size_t elements) { list.resize(elements); });
  return batch;
}

std::size_t BatchBytes(const Dataset& dataset, const StepPlan& plan, bool mixes) {
  std::size_t bytes = 0;
  Batch empty;
  ForEachList(dataset, plan, mixes, empty,
              [&](auto& list, std::size_t elements) { bytes += elements * sizeof(list[0]); });
  return bytes;
}

absl::Status Gather(const Dataset& dataset, const LoaderOptions& options, std::int64_t step,
                    EpochOrders& orders, Batch& batch) {
  const StepPlan& plan = options.plan;
  const Slice slice = RankSlice(plan, step, options.rank);
  const auto epoch = static_cast<std::uint64_t>(plan.Epoch(step));
  const EpochOrder& order = orders.Of(plan.Epoch(step));

  batch.step = step;
  batch.first_position = slice.begin;
  batch.valid = slice.end - slice.begin;
  const Rows rows(dataset, options, slice, batch);
  const Shape& shape = dataset.sample_shape();
  const auto fill = [&](std::size_t row) -> absl::Status {
    const std::int64_t position = rows.position(row);
    const std::int64_t index = order(position) % dataset.size();  // in whichever copy of the set
    LOCKSTEP_RETURN_IF_ERROR(FillRow(dataset, index, rows.sample(row), rows.label(row)));
    if (!batch.targets.empty()) dataset.ReadTargets(index, rows.targets(row));
    if (!options.augment) return absl::OkStatus();
    Augment(DrawAugmentation(*options.augment, shape, options.seed, epoch, position), shape,
            rows.sample(row));
    return absl::OkStatus();
  };
  LOCKSTEP_RETURN_IF_ERROR(ForEachRow(dataset, options.threads, rows.size_with_outside(), fill));
  if (Mixes(options)) LOCKSTEP_RETURN_IF_ERROR(MixBatch(dataset, options, epoch, rows, batch));
  batch.hash_sum = 0;
  for (std::int64_t position = slice.begin; position < slice.end; ++position) {
    batch.hash_sum += SampleHash(order(position));
  }
  Pad(rows.size() * dataset.sample_bytes(), dataset.targets(), batch);
  return absl::OkStatus();
}

}  // namespace lockstep::train
