// How close tests expect an op's numbers to be to those of another implementation.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

namespace lockstep::train {

// Float32 rounding of sums of up to a few thousand terms.
inline constexpr float kFloat32Tolerance = 2e-5f;

// `tolerance` is relative to the largest of the tensor.
inline void ExpectClose(const std::vector<float>& found, const std::vector<float>& expected,
                        const std::string& what, float tolerance = kFloat32Tolerance) {
  ASSERT_EQ(found.size(), expected.size()) << what;
  float largest = 1e-3f;
  for (const float value : expected) largest = std::max(largest, std::abs(value));
  for (std::size_t i = 0; i < found.size(); ++i) {
    ASSERT_TRUE(std::isfinite(found[i])) << what << "[" << i << "] was not written";
    ASSERT_NEAR(found[i], expected[i], tolerance * largest) << what << "[" << i << "]";
  }
}

}  // namespace lockstep::train
