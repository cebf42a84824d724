#include "trainer/data/check_finite.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>

namespace lockstep::train {

absl::Status CheckFinite(std::span<const std::uint8_t> sample) {
  for (std::size_t at = 0; at < sample.size(); at += sizeof(float)) {
    float value = 0;
    std::memcpy(&value, sample.data() + at, sizeof value);
    if (std::isfinite(value)) continue;
    return absl::DataLossError(
        fmt::format("element {} is {}, expected a finite number", at / sizeof(float), value));
  }
  return absl::OkStatus();
}

}  // namespace lockstep::train
