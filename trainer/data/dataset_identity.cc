#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/digest.h"
#include "base/status.h"
#include "trainer/data/dataset.h"

namespace lockstep::train {
namespace {

constexpr std::int64_t kMostSamplesOfIdentity = 256;

template <typename T>
std::string_view BytesOf(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

}  // namespace

absl::StatusOr<std::string> IdentityOf(const Dataset& data) {
  std::vector<std::uint8_t> sample(data.sample_bytes());
  std::vector<float> numbers(static_cast<std::size_t>(data.targets()));
  const std::int64_t count = std::min(data.size(), kMostSamplesOfIdentity);
  std::uint64_t digest = kEmptyDigest;
  for (std::int64_t i = 0; i < count; ++i) {
    // The first and the last are among them.
    const std::int64_t index = count == 1 ? 0 : i * (data.size() - 1) / (count - 1);
    LOCKSTEP_ASSIGN_OR_RETURN(const std::int32_t label, data.Read(index, sample));
    if (!numbers.empty()) data.ReadTargets(index, numbers);
    digest = Digest(BytesOf(sample), digest);
    digest = Digest(BytesOf(numbers), digest);
    digest = Digest(fmt::format("{};", label), digest);
  }
  return fmt::format("{} of {} {}, {} classes, {} numbers, {:016x}", data.size(),
                     DTypeName(data.element()), data.sample_shape().ToString(), data.classes(),
                     data.targets(), digest);
}

}  // namespace lockstep::train
