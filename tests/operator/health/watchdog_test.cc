#include "operator/health/watchdog.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/fake_clock.h"

namespace lockstep::health {
namespace {

using kube::kPodKind;
using kube::kServiceKind;
using kube::Verb;
using std::chrono::minutes;
using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::Not;

struct WatchdogTest : ::testing::Test {
  testing::FakeClock clock;
  Watchdog headway{clock};

  void Fail(const kube::Kind& kind) {
    headway.OnCall(Verb::kList, kind, "", absl::UnavailableError("no connection"), seconds(1));
  }
};

TEST_F(WatchdogTest, AKindThatIsSilentForTooLongIsNamed) {
  headway.Expect(kPodKind, "", minutes(8));
  headway.Expect(kServiceKind, "", minutes(8));
  clock.Advance(minutes(5));
  headway.OnWatchEvent(kServiceKind, "");
  EXPECT_TRUE(headway.Check().ok());
  clock.Advance(minutes(4));
  const std::string said(headway.Check().message());
  EXPECT_THAT(said, HasSubstr("pods: no headway for 540 s, expected some every 480 s"));
  EXPECT_THAT(said, Not(HasSubstr("services")));
}

TEST_F(WatchdogTest, ACallThatFailsIsASignOfLifeToo) {
  headway.Expect(kPodKind, "", minutes(8));
  for (int i = 0; i < 3; ++i) {
    clock.Advance(minutes(7));
    Fail(kPodKind);
    EXPECT_TRUE(headway.Check().ok());
  }
}

TEST_F(WatchdogTest, OnlyExpectedKindsAreChecked) {
  headway.OnWatchStart(kPodKind, "");
  clock.Advance(minutes(60));
  EXPECT_TRUE(headway.Check().ok());
}

TEST_F(WatchdogTest, ANamespaceThatIsSilentIsNotHiddenByAnother) {
  headway.Expect(kPodKind, "team-a", minutes(8));
  headway.Expect(kPodKind, "team-b", minutes(8));
  clock.Advance(minutes(9));
  headway.OnWatchEvent(kPodKind, "team-b");
  headway.OnCall(Verb::kCreate, kPodKind, "team-c", absl::OkStatus(), seconds(1));
  EXPECT_EQ(headway.Check().message(),
            "pods in team-a: no headway for 540 s, expected some every 480 s");
}

TEST_F(WatchdogTest, RemembersTheLastSuccessAndTheErrorSince) {
  headway.Expect(kPodKind, "", minutes(8));
  EXPECT_EQ(headway.SinceSuccess(kPodKind, ""), std::nullopt);
  headway.OnCall(Verb::kList, kPodKind, "", absl::OkStatus(), seconds(1));
  clock.Advance(seconds(3));
  Fail(kPodKind);
  EXPECT_EQ(headway.SinceSuccess(kPodKind, ""), seconds(3));
  EXPECT_EQ(headway.LastError(kPodKind, ""), "no connection");
  headway.OnCall(Verb::kList, kPodKind, "", absl::OkStatus(), seconds(1));
  EXPECT_EQ(headway.LastError(kPodKind, ""), "");
}

}  // namespace
}  // namespace lockstep::health
