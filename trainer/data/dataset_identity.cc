#include "trainer/data/dataset_identity.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/digest.h"
#include "base/status.h"

namespace lockstep::train {
namespace {

constexpr std::int64_t kMostSamples = 256;
constexpr std::int64_t kMostDigestedBytes = std::int64_t{64} << 20;

}  // namespace

absl::StatusOr<std::uint64_t> DigestOfSamples(const Dataset& data) {
  const auto sample_bytes = static_cast<std::int64_t>(data.sample_bytes());
  const std::int64_t most =
      std::clamp(kMostDigestedBytes / sample_bytes, std::int64_t{2}, kMostSamples);
  const std::int64_t count = std::min(data.size(), most);
  std::uint64_t digest = kEmptyDigest;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t index = count == 1 ? 0 : i * (data.size() - 1) / (count - 1);
    LOCKSTEP_ASSIGN_OR_RETURN(digest, data.DigestOf(index, digest));
  }
  return digest;
}

absl::StatusOr<std::string> IdentityOf(const Dataset& data) {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::uint64_t digest, DigestOfSamples(data));
  return fmt::format("{} of {} {}, {} classes, {} numbers, {:016x}", data.size(),
                     DTypeName(data.element()), data.sample_shape().ToString(), data.classes(),
                     data.targets(), digest);
}

}  // namespace lockstep::train
