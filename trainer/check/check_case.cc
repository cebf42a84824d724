#include "trainer/check/check_case.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

namespace lockstep::train {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();
constexpr double kSmallest = 1e-3;  // of the values that are expected

std::string Element(const std::string& what, std::size_t i, float found, float expected) {
  return fmt::format("{}[{}] is {:.9g}, expected {:.9g}", what, i, found, expected);
}

}  // namespace

Difference Compare(std::span<const float> found, std::span<const float> expected) {
  if (found.size() != expected.size()) return {.error = kInfinite, .of_element = kInfinite};
  Difference difference;
  double squares = 0, differing = 0, largest = kSmallest, largest_differing = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double value = static_cast<double>(expected[i]);
    double apart = std::abs(static_cast<double>(found[i]) - value);
    // Infinities of the same sign are equal, and their difference is not a number.
    if (found[i] == expected[i]) apart = 0;
    if (std::isnan(apart)) apart = kInfinite;
    squares += value * value;
    differing += apart * apart;
    largest = std::max(largest, std::abs(value));
    if (apart > largest_differing) {
      largest_differing = apart;
      difference.element = i;
    }
  }
  if (differing == 0) return difference;
  const double least = kSmallest * std::sqrt(static_cast<double>(expected.size()));
  difference.error = std::sqrt(differing) / std::max(std::sqrt(squares), least);
  difference.of_element = largest_differing / largest;
  if (std::isnan(difference.error)) difference.error = kInfinite;
  if (std::isnan(difference.of_element)) difference.of_element = kInfinite;
  return difference;
}

double ToleranceOf(DType type) {
  switch (type) {
    case DType::kBFloat16:
      return 0x1p-7;
    case DType::kFloat16:
      return 0x1p-10;
    default:
      return 1e-5;  // of sums of thousands of products
  }
}

CheckCase::CheckCase(CheckGroup& group, std::string name, std::string input)
    : group_(group), name_(std::move(name)), input_(std::move(input)) {
  ++group_.cases;
}

void CheckCase::Close(const std::string& what, std::span<const float> found,
                      std::span<const float> expected) {
  if (found.size() != expected.size()) {
    return Fail(fmt::format("{} has {} values, expected {}", what, found.size(), expected.size()));
  }
  const Difference difference = Compare(found, expected);
  if (difference.error > group_.worst) {
    group_.worst = difference.error;
    group_.worst_case = name_;
  }
  if (difference.error <= group_.tolerance && difference.of_element <= 2 * group_.tolerance) return;
  const std::size_t i = difference.element;
  Fail(
      fmt::format("{}; the error is {:.2g} of the norm and {:.2g} of the largest element, "
                  "expected at most {:.2g} and {:.2g}",
                  Element(what, i, found[i], expected[i]), difference.error, difference.of_element,
                  group_.tolerance, 2 * group_.tolerance));
}

void CheckCase::Same(const std::string& what, std::span<const float> found,
                     std::span<const float> expected) {
  if (found.size() != expected.size()) {
    return Fail(fmt::format("{} has {} values, expected {}", what, found.size(), expected.size()));
  }
  if (std::memcmp(found.data(), expected.data(), found.size_bytes()) == 0) return;
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (std::memcmp(&found[i], &expected[i], sizeof(float)) == 0) continue;
    return Fail(Element(what, i, found[i], expected[i]) + ", the same bits");
  }
}

void CheckCase::Fail(std::string problem) {
  group_.faults.push_back({.test_case = name_, .input = input_, .problem = std::move(problem)});
}

void CheckCase::Run(const std::function<void()>& work) {
  try {
    work();
  } catch (const DeviceError& error) {
    Fail(error.what());
  }
}

}  // namespace lockstep::train
