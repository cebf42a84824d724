// Counts that are summed over ranks as floats, which hold every whole number only up to 2^24.
#pragma once

#include <cmath>

namespace lockstep::train {

// A count is high * kCountLimb + low. Sums of limbs are exact for up to 4096 ranks.
inline constexpr double kCountLimb = 4096;
struct CountLimbs {
  float high = 0, low = 0;
};
inline CountLimbs SplitCount(double count) {
  return {.high = static_cast<float>(std::floor(count / kCountLimb)),
          .low = static_cast<float>(std::fmod(count, kCountLimb))};
}
inline double JoinCount(const CountLimbs& limbs) {
  return static_cast<double>(limbs.high) * kCountLimb + static_cast<double>(limbs.low);
}

}  // namespace lockstep::train
