#include "trainer/core/shape.h"

#include <gtest/gtest.h>

namespace lockstep::train {
namespace {

TEST(ShapeTest, CountsAndPrintsItsExtents) {
  const Shape shape{128, 1, 28, 28};
  EXPECT_EQ(shape.elements(), 128 * 28 * 28);
  EXPECT_EQ(shape.ToString(), "[128,1,28,28]");
  EXPECT_EQ(Shape{}.elements(), 1);
}

}  // namespace
}  // namespace lockstep::train
