#include "trainer/strategy/member_callers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::train {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

Membership Of(const std::vector<std::string>& addresses) {
  Membership membership;
  for (const std::string& address : addresses) membership.members.emplace_back().address = address;
  return membership;
}

TEST(MemberCallersTest, AreTheMembersAddressesIfAllAreKnownAndOfOneFamily) {
  MemberCallers callers;
  EXPECT_THAT(callers.Of(Of({"10.0.0.1", "10.0.0.2"})), ElementsAre("10.0.0.1", "10.0.0.2"));
  EXPECT_THAT(callers.Of(Of({"fd00::1", "fd00::2"})), ElementsAre("fd00::1", "fd00::2"));
  for (const auto& unknown : std::vector<std::vector<std::string>>{
           {"10.0.0.1", ""}, {"10.0.0.1", "node-7"}, {"10.0.0.1", "fd00::1"}}) {
    EXPECT_THAT(callers.Of(Of(unknown)), IsEmpty());
  }
}

TEST(MemberCallersTest, AfterAGroupThatCouldNotConnectAnybodyMay) {
  const Membership membership = Of({"10.0.0.1", "10.0.0.2"});
  MemberCallers callers;
  callers.Of(membership);
  callers.Note(absl::OkStatus(), std::chrono::hours(1));
  callers.Note(absl::CancelledError("a member has died"), std::chrono::seconds(6));
  EXPECT_THAT(callers.Of(membership), SizeIs(2));
  callers.Note(absl::CancelledError("the generation has ended"), MemberCallers::kPatience);
  EXPECT_THAT(callers.Of(membership), IsEmpty());
  callers.Note(absl::OkStatus(), Duration::zero());
  EXPECT_THAT(callers.Of(membership), IsEmpty());
  callers.Note(absl::UnavailableError("no route"), MemberCallers::kPatience);
  EXPECT_THAT(callers.Of(membership), SizeIs(2)) << "they were not the reason";
}

}  // namespace
}  // namespace lockstep::train
