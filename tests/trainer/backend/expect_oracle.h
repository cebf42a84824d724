// How close tests expect what an op makes of an oracle's inputs to be to what the oracle gave.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include "tests/trainer/backend/expect_close.h"
#include "trainer/check/oracle_run.h"
#include "trainer/check/run_op.h"

namespace lockstep::train {

// Compares y. Padding rows may be anything finite.
inline void ExpectValidRows(std::vector<float> found, std::vector<float> expected,
                            const OracleRun& run, float tolerance = kFloat32Tolerance) {
  ASSERT_EQ(found.size(), expected.size());
  for (const float value : found) ASSERT_TRUE(std::isfinite(value)) << "y was not written";
  const std::int64_t valid = run.output.elements() / run.output[0] * run.step.valid;
  found.resize(static_cast<std::size_t>(valid));
  expected.resize(found.size());
  ExpectClose(found, expected, "y", tolerance);
}

inline void ExpectAllClose(const std::vector<std::vector<float>>& found,
                           const std::vector<std::vector<float>>& expected, const std::string& what,
                           float tolerance) {
  ASSERT_EQ(found.size(), expected.size()) << what;
  for (std::size_t i = 0; i < found.size(); ++i) {
    ExpectClose(found[i], expected[i], what + " " + std::to_string(i), tolerance);
  }
}

// Compares what a training step has written.
inline void ExpectTraining(const OpOutputs& found, const OracleRun& run,
                           float tolerance = kFloat32Tolerance) {
  EXPECT_EQ(found.padding_fault, "");
  EXPECT_EQ(found.restore_fault, "");
  ExpectValidRows(found.y, run.training.y, run, tolerance);
  ExpectClose(found.dx, run.training.dx, "dx", tolerance);
  ExpectAllClose(found.gradients, run.training.gradients, "gradient", tolerance);
  ExpectAllClose(found.states, run.training.states, "state", tolerance);
}

}  // namespace lockstep::train
