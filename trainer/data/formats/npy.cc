#include "trainer/data/formats/npy.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/status.h"
#include "trainer/data/channels_first.h"
#include "trainer/data/check_finite.h"
#include "trainer/data/folder.h"
#include "trainer/data/formats/npy_array.h"
#include "trainer/data/memory_cache.h"

namespace lockstep::train {
namespace {

template <class T>
std::int64_t Item(const std::uint8_t* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof value);
  constexpr auto kMost = std::numeric_limits<std::int64_t>::max();
  return std::cmp_greater(value, kMost) ? kMost : static_cast<std::int64_t>(value);
}

std::int64_t LabelAt(const NpyArray& labels, std::size_t index) {
  const std::string& dtype = labels.header.dtype;
  const std::size_t size = ItemBytes(dtype);
  const std::uint8_t* item = labels.data().data() + index * size;
  if (dtype[1] == 'u') {
    if (size == 1) return Item<std::uint8_t>(item);
    if (size == 2) return Item<std::uint16_t>(item);
    return size == 4 ? Item<std::uint32_t>(item) : Item<std::uint64_t>(item);
  }
  if (size == 1) return Item<std::int8_t>(item);
  if (size == 2) return Item<std::int16_t>(item);
  return size == 4 ? Item<std::int32_t>(item) : Item<std::int64_t>(item);
}

// Labels are copied: they are small, and all must be checked anyway.
absl::StatusOr<std::vector<std::int32_t>> ReadLabels(const NpyArray& labels,
                                                     const NpyArray& samples) {
  const Shape& shape = labels.header.shape;
  const bool is_column = shape.rank() == 1 || (shape.rank() == 2 && shape[1] == 1);
  if (!is_column || shape[0] != samples.header.shape[0]) {
    return absl::DataLossError(
        fmt::format("{}: found an array of {}, expected [{}], one label for each sample of {}",
                    labels.path, shape.ToString(), samples.header.shape[0], samples.path));
  }
  if (labels.header.dtype == "<f4") {
    return absl::DataLossError(
        fmt::format("{}: labels are float32, expected integers", labels.path));
  }
  std::vector<std::int32_t> read(static_cast<std::size_t>(shape[0]));
  for (std::size_t i = 0; i < read.size(); ++i) {
    const std::int64_t label = LabelAt(labels, i);
    if (label < 0 || label > kMaxLabel) {
      return absl::DataLossError(
          fmt::format("{}: label of sample {} at offset {} is {}, expected 0 to {}", labels.path, i,
                      labels.header.offset + i * ItemBytes(labels.header.dtype), label, kMaxLabel));
    }
    read[i] = static_cast<std::int32_t>(label);
  }
  return read;
}

struct Labels {
  std::vector<std::int32_t> classes;  // empty if they are numbers
  std::vector<float> numbers;         // N,targets; empty if they are classes
  std::int64_t targets = 0;
  std::string path;
};

float NumberAt(const NpyArray& labels, std::size_t index) {
  if (labels.header.dtype != "<f4") return static_cast<float>(LabelAt(labels, index));
  float value = 0;
  std::memcpy(&value, labels.data().data() + index * sizeof value, sizeof value);
  return value;
}

absl::StatusOr<Labels> ReadNumbers(const NpyArray& labels, const NpyArray& samples) {
  const Shape& shape = labels.header.shape;
  if (shape.rank() < 1 || shape.rank() > 2 || shape[0] != samples.header.shape[0]) {
    return absl::DataLossError(fmt::format(
        "{}: found an array of {}, expected [{}] or [{},numbers], a label for each sample of {}",
        labels.path, shape.ToString(), samples.header.shape[0], samples.header.shape[0],
        samples.path));
  }
  Labels read{.numbers = std::vector<float>(static_cast<std::size_t>(shape.elements())),
              .targets = shape.rank() == 2 ? shape[1] : 1};
  for (std::size_t i = 0; i < read.numbers.size(); ++i) {
    read.numbers[i] = NumberAt(labels, i);
    if (std::isfinite(read.numbers[i])) continue;
    return absl::DataLossError(
        fmt::format("{}: label of sample {} at offset {} is {}, expected finite numbers",
                    labels.path, i / static_cast<std::size_t>(read.targets),
                    labels.header.offset + i * ItemBytes(labels.header.dtype), read.numbers[i]));
  }
  return read;
}

absl::StatusOr<Labels> ReadLabelsOf(LabelKind kind, const NpyArray& labels,
                                    const NpyArray& samples) {
  Labels read;
  if (kind == LabelKind::kNumbers) {
    LOCKSTEP_ASSIGN_OR_RETURN(read, ReadNumbers(labels, samples));
  } else {
    LOCKSTEP_ASSIGN_OR_RETURN(read.classes, ReadLabels(labels, samples));
  }
  read.path = labels.path;
  return read;
}

absl::StatusOr<Shape> SampleShape(const NpyArray& samples, bool channels_last) {
  std::vector<std::int64_t> dims = samples.header.shape.dims();
  const std::string& dtype = samples.header.dtype;
  if (dims.size() < 2 || (dtype != "|u1" && dtype != "<f4")) {
    return absl::DataLossError(
        fmt::format("{}: found {} of {}, expected uint8 (|u1) or float32 (<f4) of at least two "
                    "dimensions, the samples first",
                    samples.path, dtype, samples.header.shape.ToString()));
  }
  dims.erase(dims.begin());
  if (dims.size() == 2) dims.insert(dims.begin(), 1);
  if (dims.size() == 3 && channels_last && samples.header.shape.rank() == 4) {
    std::rotate(dims.begin(), dims.begin() + 2, dims.end());
  }
  return Shape(std::move(dims));
}

class NpyDataset final : public Dataset {
 public:
  struct Form {
    Shape sample;
    bool is_channels_last = false;
    bool in_memory = false;
    bool is_read_ahead = false;
  };
  NpyDataset(NpyArray samples, Labels labels, Form form)
      : samples_(std::move(samples)),
        labels_(std::move(labels)),
        form_(std::move(form)),
        classes_(labels_.classes.empty() ? 1 : *std::ranges::max_element(labels_.classes) + 1) {
    if (form_.is_read_ahead) samples_.file.Prefetch();
  }

  std::int64_t size() const override { return samples_.header.shape[0]; }
  const Shape& sample_shape() const override { return form_.sample; }
  DType element() const override {
    return samples_.header.dtype == "<f4" ? DType::kFloat32 : DType::kUInt8;
  }
  std::int64_t classes() const override { return classes_; }
  std::int64_t targets() const override { return labels_.targets; }
  void ReadTargets(std::int64_t index, std::span<float> numbers) const override {
    LOCKSTEP_CHECK(index >= 0 && index < size(), "sample {} of {}", index, size());
    LOCKSTEP_CHECK(std::ssize(numbers) == targets(), "room for {} numbers, a label has {}",
                   numbers.size(), targets());
    std::copy_n(labels_.numbers.begin() + index * targets(), numbers.size(), numbers.begin());
  }
  std::string PlaceOf(std::int64_t index) const override {
    return fmt::format("{}: sample {}", labels_.path, index);
  }
  bool InMemory() const override { return form_.in_memory; }

  absl::StatusOr<std::int32_t> Read(std::int64_t index,
                                    std::span<std::uint8_t> sample) const override {
    LOCKSTEP_CHECK(index >= 0 && index < size(), "sample {} of {}", index, size());
    LOCKSTEP_CHECK(sample.size() == sample_bytes(), "room for {} bytes, a sample has {}",
                   sample.size(), sample_bytes());
    const auto row = static_cast<std::size_t>(index);
    const auto stored = samples_.data().subspan(row * sample.size(), sample.size());
    if (form_.is_channels_last) {
      ToChannelsFirst(stored, form_.sample, SizeOf(element()), sample);
    } else {
      std::memcpy(sample.data(), stored.data(), stored.size());
    }
    if (element() == DType::kFloat32) {
      if (absl::Status finite = CheckFinite(sample); !finite.ok()) {
        return absl::DataLossError(
            fmt::format("{}: sample {}: {}", samples_.path, index, std::string(finite.message())));
      }
    }
    return labels_.classes.empty() ? 0 : labels_.classes[row];
  }

 private:
  const NpyArray samples_;
  const Labels labels_;
  const Form form_;
  const std::int64_t classes_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Dataset>> OpenNpy(const std::string& folder,
                                                 const api::NpySpec& spec, Split split, bool cache,
                                                 LabelKind kind) {
  const std::string name = split == Split::kTrain ? "train" : "test";
  LOCKSTEP_ASSIGN_OR_RETURN(
      const std::string samples_path,
      FindDataFile(folder, name + " samples", {fmt::format("x_{}.npy", name)}));
  LOCKSTEP_ASSIGN_OR_RETURN(
      const std::string labels_path,
      FindDataFile(folder, name + " labels", {fmt::format("y_{}.npy", name)}));
  LOCKSTEP_ASSIGN_OR_RETURN(NpyArray samples, OpenNpyArray(samples_path));
  LOCKSTEP_ASSIGN_OR_RETURN(const NpyArray labels, OpenNpyArray(labels_path));
  LOCKSTEP_ASSIGN_OR_RETURN(Shape shape, SampleShape(samples, spec.channels_last));
  LOCKSTEP_ASSIGN_OR_RETURN(Labels read, ReadLabelsOf(kind, labels, samples));
  const bool is_channels_last = spec.channels_last && samples.header.shape.rank() == 4;
  const bool in_memory = cache && CountsAsInMemory(samples.data().size());
  return std::make_unique<NpyDataset>(std::move(samples), std::move(read),
                                      NpyDataset::Form{.sample = std::move(shape),
                                                       .is_channels_last = is_channels_last,
                                                       .in_memory = in_memory,
                                                       .is_read_ahead = cache});
}

}  // namespace lockstep::train
