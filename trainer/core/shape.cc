#include "trainer/core/shape.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace lockstep::train {

std::int64_t Shape::elements() const {
  std::int64_t product = 1;
  for (const std::int64_t dim : dims_) product *= dim;
  return product;
}

std::string Shape::ToString() const {
  return fmt::format("[{}]", fmt::join(dims_, ","));
}

}  // namespace lockstep::train
