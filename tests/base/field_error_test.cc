#include "base/field_error.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(ToStatusTest, OneLineForEachFault) {
  EXPECT_TRUE(ToStatus({}).ok());
  const absl::Status status = ToStatus({{"a.b", "found 1"}, {"", "found nothing"}});
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_EQ(status.message(), "a.b: found 1\nfound nothing");
}

}  // namespace
}  // namespace lockstep
