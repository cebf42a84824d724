// One case of a check: compares what a device gives with what is expected, and enters what differs
// into a group.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "trainer/check/check_report.h"
#include "trainer/core/dtype.h"

namespace lockstep::train {

struct Difference {
  // ||found - expected|| / ||expected||; infinite where one of both is not a number, or they do not
  // have the same size. What is expected counts as at least 1e-3 in the mean square.
  double error = 0;
  // The largest |found - expected| of an element, relative to the largest |expected|.
  double of_element = 0;
  std::size_t element = 0;
};
Difference Compare(std::span<const float> found, std::span<const float> expected);

// The largest error that the rounding of `type` explains, with factors that are numbers of that
// type. A single element may have twice that.
double ToleranceOf(DType type);

class CheckCase {
 public:
  // Counts as a case of the group. Requires: the group outlives it.
  CheckCase(CheckGroup& group, std::string name, std::string input = "");

  void Close(const std::string& what, std::span<const float> found,
             std::span<const float> expected);
  // The same bits.
  void Same(const std::string& what, std::span<const float> found, std::span<const float> expected);
  void Fail(std::string problem);

  // Runs `work`, and enters what it throws: a device that refuses one op may do others.
  void Run(const std::function<void()>& work);

 private:
  CheckGroup& group_;
  const std::string name_, input_;
};

}  // namespace lockstep::train
