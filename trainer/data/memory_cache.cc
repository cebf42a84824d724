#include "trainer/data/memory_cache.h"

#include <atomic>
#include <cstring>
#include <utility>
#include <vector>

#include "base/status.h"
#include "trainer/data/kept_dataset.h"

namespace lockstep::train {
namespace {

class MemoryCache final : public KeptDataset {
 public:
  explicit MemoryCache(std::unique_ptr<Dataset> source)
      : KeptDataset(*source),
        source_(std::move(source)),
        // Not zeroed, so that a page is used when its first sample is.
        samples_(std::make_unique_for_overwrite<std::uint8_t[]>(
            static_cast<std::size_t>(source_->size()) * source_->sample_bytes())),
        labels_(static_cast<std::size_t>(source_->size())) {
    for (std::atomic<std::int32_t>& label : labels_) label = kEmpty;
  }

  absl::StatusOr<std::int32_t> Read(std::int64_t index,
                                    std::span<std::uint8_t> sample) const override {
    const auto row = static_cast<std::size_t>(index);
    std::uint8_t* const kept = samples_.get() + row * sample.size();
    const std::int32_t label = labels_[row].load(std::memory_order_acquire);
    if (label >= 0) {
      std::memcpy(sample.data(), kept, sample.size());
      return label;
    }
    LOCKSTEP_ASSIGN_OR_RETURN(const std::int32_t read, source_->Read(index, sample));
    // One thread writes the row; another that has decoded it, too, leaves it alone.
    std::int32_t expected = kEmpty;
    if (labels_[row].compare_exchange_strong(expected, kFilling, std::memory_order_acquire)) {
      std::memcpy(kept, sample.data(), sample.size());
      labels_[row].store(read, std::memory_order_release);
    }
    return read;
  }

 private:
  static constexpr std::int32_t kEmpty = -1, kFilling = -2;

  const std::unique_ptr<Dataset> source_;
  const std::unique_ptr<std::uint8_t[]> samples_;
  mutable std::vector<std::atomic<std::int32_t>> labels_;
};

}  // namespace

bool CountsAsInMemory(std::uint64_t sample_bytes) {
  return sample_bytes <= std::uint64_t{kMostCachedBytes};
}

std::size_t BytesOfDecoded(std::int64_t samples, std::size_t sample_bytes) {
  if (samples > kMostCachedBytes / static_cast<std::int64_t>(sample_bytes)) return 0;
  return static_cast<std::size_t>(samples) * (sample_bytes + sizeof(std::int32_t));
}

std::unique_ptr<Dataset> CacheInMemory(std::unique_ptr<Dataset> source) {
  if (source->InMemory() || BytesOfDecoded(source->size(), source->sample_bytes()) == 0) {
    return source;
  }
  return std::make_unique<MemoryCache>(std::move(source));
}

}  // namespace lockstep::train
