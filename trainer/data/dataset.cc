#include "trainer/data/dataset.h"

#include <fmt/format.h>

#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/digest.h"
#include "base/status.h"

namespace lockstep::train {
namespace {

template <typename T>
std::string_view BytesOf(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

}  // namespace

std::string Dataset::PlaceOf(std::int64_t index) const {
  return fmt::format("sample {}", index);
}

absl::StatusOr<std::int32_t> Dataset::LabelOf(std::int64_t index) const {
  std::vector<std::uint8_t> sample(sample_bytes());
  return Read(index, sample);
}

std::int64_t Dataset::FileOf(std::int64_t /*index*/) const {
  return 0;
}

std::string PlaceBeyond(std::int64_t classes, const Dataset& data) {
  std::int64_t index = 0;
  absl::StatusOr<std::int32_t> label = data.LabelOf(index);
  while (index + 1 < data.size() && (!label.ok() || *label < classes)) {
    label = data.LabelOf(++index);
  }
  return fmt::format("{}: label {}", data.PlaceOf(index), label.value_or(-1));
}

void Dataset::ReadTargets(std::int64_t index, std::span<float> /*numbers*/) const {
  LOCKSTEP_CHECK(false, "the label of sample {} is a class, expected numbers", index);
}

absl::StatusOr<std::uint64_t> Dataset::DigestOf(std::int64_t index, std::uint64_t before) const {
  std::vector<std::uint8_t> sample(sample_bytes());
  LOCKSTEP_ASSIGN_OR_RETURN(const std::int32_t label, Read(index, sample));
  std::vector<float> numbers(static_cast<std::size_t>(targets()));
  if (!numbers.empty()) ReadTargets(index, numbers);
  return Digest(fmt::format("{};", label),
                Digest(BytesOf(numbers), Digest(BytesOf(sample), before)));
}

}  // namespace lockstep::train
