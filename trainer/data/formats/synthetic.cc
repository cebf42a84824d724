#include "trainer/data/formats/synthetic.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/status.h"
#include "trainer/core/rng.h"

namespace lockstep::train {
namespace {

constexpr std::int64_t kMaxSampleBytes = std::int64_t{1} << 26;
constexpr std::int64_t kMaxCachedBytes = std::int64_t{1} << 26;
constexpr std::int64_t kMaxPatternBytes = std::int64_t{1} << 28;
// Streams of DeriveKey: patterns and both splits' noise are independent.
constexpr std::uint64_t kPatternStream = 0x5061, kTrainStream = 0x5472, kTestStream = 0x5465;

// Fills `bytes` with the random bytes of row `row` under `key`, sixteen per Philox block.
void FillRandom(std::uint64_t key, std::uint64_t row, std::span<std::uint8_t> bytes) {
  std::uint64_t block = 0;
  for (std::size_t begin = 0; begin < bytes.size(); begin += sizeof(PhiloxBlock), ++block) {
    const PhiloxBlock words = Philox(key, block, row);
    std::memcpy(bytes.data() + begin, words.data(), std::min(sizeof words, bytes.size() - begin));
  }
}

class SyntheticDataset final : public Dataset {
 public:
  SyntheticDataset(const api::SyntheticSpec& spec, Split split, std::uint64_t seed,
                   LabelKind labels)
      : labels_(labels),
        shape_(spec.shape),
        sample_bytes_(static_cast<std::size_t>(shape_.elements())),
        classes_(spec.classes),
        size_(split == Split::kTrain ? spec.train_examples : spec.test_examples),
        noise_key_(DeriveKey(seed, split == Split::kTrain ? kTrainStream : kTestStream)),
        patterns_(sample_bytes_ * static_cast<std::size_t>(spec.classes)) {
    for (std::size_t label = 0; label < static_cast<std::size_t>(spec.classes); ++label) {
      FillRandom(DeriveKey(seed, kPatternStream), label,
                 std::span(patterns_).subspan(label * sample_bytes_, sample_bytes_));
    }
  }

  void Cache() {
    std::vector<std::uint8_t> samples(sample_bytes_ * static_cast<std::size_t>(size_));
    for (std::int64_t index = 0; index < size_; ++index) {
      Make(index, std::span(samples).subspan(static_cast<std::size_t>(index) * sample_bytes_,
                                             sample_bytes_));
    }
    samples_ = std::move(samples);
  }

  std::int64_t size() const override { return size_; }
  const Shape& sample_shape() const override { return shape_; }
  std::int64_t classes() const override { return classes_; }
  std::int64_t targets() const override { return labels_ == LabelKind::kNumbers ? 1 : 0; }
  void ReadTargets(std::int64_t index, std::span<float> numbers) const override {
    LOCKSTEP_CHECK(index >= 0 && index < size_ && numbers.size() == 1, "sample {} of {}", index,
                   size_);
    numbers[0] = static_cast<float>(Label(index)) / static_cast<float>(classes_);
  }
  bool InMemory() const override { return !samples_.empty(); }

  absl::StatusOr<std::int32_t> Read(std::int64_t index,
                                    std::span<std::uint8_t> pixels) const override {
    LOCKSTEP_CHECK(index >= 0 && index < size_, "sample {} of {}", index, size_);
    LOCKSTEP_CHECK(pixels.size() == sample_bytes_, "room for {} bytes, a sample has {}",
                   pixels.size(), sample_bytes_);
    if (samples_.empty()) {
      Make(index, pixels);
    } else {
      std::memcpy(pixels.data(), samples_.data() + static_cast<std::size_t>(index) * sample_bytes_,
                  sample_bytes_);
    }
    return targets() > 0 ? 0 : Label(index);
  }

 private:
  std::int32_t Label(std::int64_t index) const {
    return static_cast<std::int32_t>(index % classes_);
  }

  // Half pattern, half noise: a single pixel hardly identifies the class, but all together do.
  void Make(std::int64_t index, std::span<std::uint8_t> pixels) const {
    FillRandom(noise_key_, static_cast<std::uint64_t>(index), pixels);
    const std::uint8_t* pattern =
        patterns_.data() + static_cast<std::size_t>(Label(index)) * sample_bytes_;
    for (std::size_t i = 0; i < sample_bytes_; ++i) {
      pixels[i] = static_cast<std::uint8_t>((pixels[i] + pattern[i]) / 2);
    }
  }

  const LabelKind labels_;
  const Shape shape_;
  const std::size_t sample_bytes_;
  const std::int64_t classes_, size_;
  const std::uint64_t noise_key_;
  std::vector<std::uint8_t> patterns_;  // classes,C,H,W
  std::vector<std::uint8_t> samples_;   // size,C,H,W; empty: generated in Read
};

absl::Status Validate(const api::SyntheticSpec& spec) {
  const auto error = [](const char* field, const std::string& found, const std::string& expected) {
    return absl::InvalidArgumentError(
        fmt::format("dataset.synthetic.{}: found {}, expected {}", field, found, expected));
  };
  const std::vector<std::int64_t>& shape = spec.shape;
  // Bound each extent first, so that the product cannot overflow.
  if (shape.size() != 3 ||
      std::any_of(shape.begin(), shape.end(), [](auto d) { return d < 1 || d > (1 << 20); }) ||
      Shape(shape).elements() > kMaxSampleBytes) {
    return error("shape", fmt::format("[{}]", fmt::join(shape, ",")),
                 fmt::format("channels, height and width, at least 1 each and at most {} in all",
                             kMaxSampleBytes));
  }
  if (spec.classes < 2 || spec.classes * Shape(shape).elements() > kMaxPatternBytes) {
    return error("classes", std::to_string(spec.classes),
                 fmt::format("2 to {}", kMaxPatternBytes / Shape(shape).elements()));
  }
  if (spec.train_examples < 1) {
    return error("trainExamples", std::to_string(spec.train_examples), "at least 1");
  }
  if (spec.test_examples < 1) {
    return error("testExamples", std::to_string(spec.test_examples), "at least 1");
  }
  return absl::OkStatus();
}

}  // namespace

bool KeepsSynthetic(std::size_t sample_bytes, std::int64_t samples, bool cache) {
  return cache && samples <= kMaxCachedBytes / static_cast<std::int64_t>(sample_bytes);
}

std::size_t BytesOfSynthetic(std::int64_t classes, std::size_t sample_bytes, std::int64_t samples,
                             bool cache) {
  const std::int64_t kept = KeepsSynthetic(sample_bytes, samples, cache) ? samples : 0;
  return static_cast<std::size_t>(classes + kept) * sample_bytes;
}

absl::StatusOr<std::unique_ptr<Dataset>> MakeSynthetic(const api::SyntheticSpec& spec, Split split,
                                                       std::uint64_t seed, bool cache,
                                                       LabelKind labels) {
  LOCKSTEP_RETURN_IF_ERROR(Validate(spec));
  auto dataset = std::make_unique<SyntheticDataset>(spec, split, seed, labels);
  if (KeepsSynthetic(dataset->sample_bytes(), dataset->size(), cache)) {
    dataset->Cache();
  }
  return dataset;
}

}  // namespace lockstep::train
