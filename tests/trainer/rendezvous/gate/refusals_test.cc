#include "trainer/rendezvous/gate/refusals.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/fake_clock.h"

namespace lockstep::train {
namespace {

using ::testing::HasSubstr;
using ::testing::internal::CaptureStderr;
using ::testing::internal::GetCapturedStderr;

TEST(RefusalsTest, EachReasonIsLoggedEveryTenSecondsWhateverTheOthersDo) {
  testing::FakeClock clock;
  Refusals refusals(clock);
  CaptureStderr();
  refusals.Add(Refusal::kNoToken, "Join");
  EXPECT_THAT(GetCapturedStderr(),
              HasSubstr("refused a caller that does not know the job's token"));
  CaptureStderr();
  refusals.Add(Refusal::kDialledElsewhere, "Join");
  EXPECT_THAT(GetCapturedStderr(), HasSubstr("refused a caller that has dialled another address"));
  clock.Advance(std::chrono::milliseconds(9999));
  CaptureStderr();
  refusals.Add(Refusal::kNoToken, "Join");
  EXPECT_EQ(GetCapturedStderr(), "");
  clock.Advance(std::chrono::milliseconds(1));
  CaptureStderr();
  refusals.Add(Refusal::kNoToken, "Put or Get");
  const std::string log = GetCapturedStderr();
  EXPECT_THAT(log, HasSubstr("Put or Get"));
  EXPECT_THAT(log, HasSubstr("\"refusals\":3"));
  EXPECT_EQ(refusals.count(), 4);
}

}  // namespace
}  // namespace lockstep::train
