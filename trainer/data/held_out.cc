#include "trainer/data/held_out.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "trainer/core/rng.h"
#include "trainer/data/sampler.h"

namespace lockstep::train {
namespace {

// Apart from the streams that order the epochs.
constexpr std::uint64_t kHeldOutStream = 0x486C;

// The samples at positions [first, first + size) of a permutation.
class PartOfDataset final : public Dataset {
 public:
  PartOfDataset(std::shared_ptr<const Dataset> whole, const Permutation& order, std::int64_t first,
                std::int64_t size)
      : whole_(std::move(whole)), order_(order), first_(first), size_(size) {}

  std::int64_t size() const override { return size_; }
  const Shape& sample_shape() const override { return whole_->sample_shape(); }
  DType element() const override { return whole_->element(); }
  std::int64_t classes() const override { return whole_->classes(); }
  std::int64_t targets() const override { return whole_->targets(); }
  void ReadTargets(std::int64_t index, std::span<float> numbers) const override {
    LOCKSTEP_CHECK(index >= 0 && index < size_, "sample {} of {}", index, size_);
    whole_->ReadTargets(order_(first_ + index), numbers);
  }
  std::string PlaceOf(std::int64_t index) const override {
    LOCKSTEP_CHECK(index >= 0 && index < size_, "sample {} of {}", index, size_);
    return whole_->PlaceOf(order_(first_ + index));
  }
  std::int64_t files() const override { return whole_->files(); }
  std::int64_t FileOf(std::int64_t index) const override {
    LOCKSTEP_CHECK(index >= 0 && index < size_, "sample {} of {}", index, size_);
    return whole_->FileOf(order_(first_ + index));
  }
  bool InMemory() const override { return whole_->InMemory(); }
  absl::StatusOr<std::int32_t> LabelOf(std::int64_t index) const override {
    LOCKSTEP_CHECK(index >= 0 && index < size_, "sample {} of {}", index, size_);
    return whole_->LabelOf(order_(first_ + index));
  }
  absl::StatusOr<std::uint64_t> DigestOf(std::int64_t index, std::uint64_t before) const override {
    LOCKSTEP_CHECK(index >= 0 && index < size_, "sample {} of {}", index, size_);
    return whole_->DigestOf(order_(first_ + index), before);
  }
  absl::StatusOr<std::int32_t> Read(std::int64_t index,
                                    std::span<std::uint8_t> sample) const override {
    LOCKSTEP_CHECK(index >= 0 && index < size_, "sample {} of {}", index, size_);
    return whole_->Read(order_(first_ + index), sample);
  }

 private:
  const std::shared_ptr<const Dataset> whole_;
  const Permutation order_;
  const std::int64_t first_, size_;
};

}  // namespace

absl::StatusOr<TrainAndTest> DivideDataset(const std::shared_ptr<const Dataset>& whole,
                                           double fraction, std::uint64_t seed) {
  const std::int64_t size = whole->size();
  if (size < 2) {
    return absl::DataLossError(
        fmt::format("{}: found no other sample, expected at least 2 to hold some out for "
                    "spec.training.dataset.validationFraction",
                    whole->PlaceOf(0)));
  }
  const auto share = std::llround(fraction * static_cast<double>(size));
  const std::int64_t held_out = std::clamp<std::int64_t>(share, 1, size - 1);
  const Permutation order(DeriveKey(seed, kHeldOutStream), 0, size);
  return TrainAndTest{
      .train = std::make_unique<PartOfDataset>(whole, order, held_out, size - held_out),
      .test = std::make_unique<PartOfDataset>(whole, order, 0, held_out)};
}

}  // namespace lockstep::train
