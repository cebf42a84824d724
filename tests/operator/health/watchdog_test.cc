#include "operator/health/watchdog.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/kube/stream_end.h"
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
  Watchdog watchdog{clock};

  void Fail(const kube::Kind& kind) {
    watchdog.OnCall(Verb::kList, kind, "", absl::UnavailableError("no connection"), seconds(1));
  }
};

TEST_F(WatchdogTest, AKindThatIsSilentForTooLongIsNamed) {
  watchdog.Expect(kPodKind, "", minutes(8));
  watchdog.Expect(kServiceKind, "", minutes(8));
  clock.Advance(minutes(5));
  watchdog.OnWatchEvent(kServiceKind, "");
  EXPECT_TRUE(watchdog.Check().ok());
  clock.Advance(minutes(4));
  const std::string said(watchdog.Check().message());
  EXPECT_THAT(said, HasSubstr("pods: no progress for 540 s, expected some every 480 s"));
  EXPECT_THAT(said, Not(HasSubstr("services")));
}

TEST_F(WatchdogTest, ACallThatFailsIsASignOfLifeToo) {
  watchdog.Expect(kPodKind, "", minutes(8));
  for (int i = 0; i < 3; ++i) {
    clock.Advance(minutes(7));
    Fail(kPodKind);
    EXPECT_TRUE(watchdog.Check().ok());
  }
}

// As by a proxy that accepts streams and passes nothing on.
TEST_F(WatchdogTest, WatchesThatAreSilentToTheirEndAreNoSignsOfLife) {
  const auto silent_watch = [this] {
    watchdog.OnWatchStart(kPodKind, "");
    clock.Advance(seconds(255));
    watchdog.OnCall(Verb::kWatch, kPodKind, "",
                    kube::MarkSilent(absl::UnavailableError("nothing came for too long")),
                    seconds(255));
  };
  watchdog.Expect(kPodKind, "", minutes(8));
  silent_watch();
  EXPECT_TRUE(watchdog.Check().ok());
  silent_watch();
  EXPECT_THAT(watchdog.Check().message(), HasSubstr("pods: no progress for 510 s"));
  watchdog.OnWatchEvent(kPodKind, "");
  EXPECT_TRUE(watchdog.Check().ok());
  silent_watch();
  Fail(kPodKind);  // it cannot reach the server: a restart would not help
  silent_watch();
  EXPECT_TRUE(watchdog.Check().ok());
}

TEST_F(WatchdogTest, OnlyExpectedKindsAreChecked) {
  watchdog.OnWatchStart(kPodKind, "");
  clock.Advance(minutes(60));
  EXPECT_TRUE(watchdog.Check().ok());
}

TEST_F(WatchdogTest, ANamespaceThatIsSilentIsNotHiddenByAnother) {
  watchdog.Expect(kPodKind, "team-a", minutes(8));
  watchdog.Expect(kPodKind, "team-b", minutes(8));
  clock.Advance(minutes(9));
  watchdog.OnWatchEvent(kPodKind, "team-b");
  watchdog.OnCall(Verb::kCreate, kPodKind, "team-c", absl::OkStatus(), seconds(1));
  EXPECT_EQ(watchdog.Check().message(),
            "pods in team-a: no progress for 540 s, expected some every 480 s");
}

// With --namespace, the namespace of a pod that a worker creates is that of a watch.
TEST_F(WatchdogTest, AWatchThatIsSilentIsNotHiddenByCallsOfOtherThreads) {
  watchdog.Expect(kPodKind, "team-a", minutes(8));
  clock.Advance(minutes(9));
  for (const Verb verb :
       {Verb::kGet, Verb::kCreate, Verb::kUpdate, Verb::kUpdateStatus, Verb::kDelete}) {
    watchdog.OnCall(verb, kPodKind, "team-a", absl::OkStatus(), seconds(1));
    EXPECT_FALSE(watchdog.Check().ok()) << kube::VerbName(verb);
  }
  watchdog.OnCall(Verb::kWatch, kPodKind, "team-a", absl::OkStatus(), seconds(1));
  EXPECT_TRUE(watchdog.Check().ok());
}

TEST_F(WatchdogTest, AThreadThatWatchesNothingShowsByAnyCallThatItLives) {
  watchdog.ExpectCalls(kPodKind, "", minutes(8));
  clock.Advance(minutes(9));
  EXPECT_FALSE(watchdog.Check().ok());
  watchdog.OnCall(Verb::kUpdate, kPodKind, "", absl::OkStatus(), seconds(1));
  EXPECT_TRUE(watchdog.Check().ok());
  EXPECT_EQ(watchdog.SinceSuccess(kPodKind, ""), seconds(0));
}

TEST_F(WatchdogTest, RemembersTheLastSuccessAndTheErrorSince) {
  watchdog.Expect(kPodKind, "", minutes(8));
  EXPECT_EQ(watchdog.SinceSuccess(kPodKind, ""), std::nullopt);
  watchdog.OnCall(Verb::kList, kPodKind, "", absl::OkStatus(), seconds(1));
  clock.Advance(seconds(3));
  Fail(kPodKind);
  EXPECT_EQ(watchdog.SinceSuccess(kPodKind, ""), seconds(3));
  EXPECT_EQ(watchdog.LastError(kPodKind, ""), "no connection");
  watchdog.OnCall(Verb::kList, kPodKind, "", absl::OkStatus(), seconds(1));
  EXPECT_EQ(watchdog.LastError(kPodKind, ""), "");
}

}  // namespace
}  // namespace lockstep::health
