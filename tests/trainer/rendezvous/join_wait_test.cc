#include "trainer/rendezvous/join_wait.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/fake_clock.h"

namespace lockstep::train {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::EndsWith;

// An address that has a host: DNS does not say that its pod is missing.
constexpr char kLeader[] = "127.0.0.1:2222";

proto::Waiting WaitingFor(const std::vector<std::string>& missing, unsigned count,
                          const std::vector<std::string>& absent = {}) {
  proto::Waiting waiting;
  for (const std::string& name : missing) waiting.add_missing(name);
  for (const std::string& name : absent) waiting.add_absent(name);
  waiting.set_missing_count(count);
  return waiting;
}

class JoinWaitTest : public ::testing::Test {
 protected:
  explicit JoinWaitTest(bool operated = false) : operated_(operated) { wait_.Begin(); }

  // Returns the status after this time.
  absl::Status After(Duration time) {
    clock_.Advance(time);
    return wait_.Check();
  }

  const bool operated_;
  testing::FakeClock clock_;
  JoinWait wait_{
      kLeader, {.timeout = 10s, .successors_come = operated_, .given_up_within = 60s}, clock_};
};

class OperatedJoinWaitTest : public JoinWaitTest {
 protected:
  OperatedJoinWaitTest() : JoinWaitTest(/*operated=*/true) {}
};

TEST_F(JoinWaitTest, TheTimeoutNamesALeaderThatDoesNotAnswerAndWhy) {
  EXPECT_TRUE(After(9s).ok());
  wait_.SetBrokenReason("connection refused");
  const absl::Status late = After(1s);
  EXPECT_TRUE(absl::IsDeadlineExceeded(late));
  EXPECT_EQ(late.message(),
            "rendezvous at 127.0.0.1:2222: not complete after 10 s: its leader does not answer "
            "(connection refused)");
}

TEST_F(JoinWaitTest, ANewJoinHasAllOfTheTimeout) {
  EXPECT_TRUE(After(9s).ok());
  wait_.Begin();
  EXPECT_TRUE(After(9s).ok());
}

TEST_F(JoinWaitTest, SomeMissingMembersAreNamedAndTheOthersCounted) {
  wait_.OnMessage();
  EXPECT_EQ(wait_.WaitingFor(), "waiting for the leader's answer");
  wait_.OnWaiting(WaitingFor({"worker 1", "worker 2"}, 2));
  EXPECT_EQ(wait_.WaitingFor(), "waiting for worker 1, worker 2");
  wait_.OnWaiting(WaitingFor({"worker 1", "worker 2"}, 8));
  EXPECT_EQ(wait_.WaitingFor(), "waiting for worker 1, worker 2 and 6 others");
  wait_.OnSilence();
  EXPECT_THAT(wait_.WaitingFor(), EndsWith("does not answer (not reached yet)"));
}

TEST_F(JoinWaitTest, WhatStaysAsItIsIsLoggedEverMoreRarely) {
  const auto lines_of = [this](std::chrono::seconds time) {
    std::vector<int> logged;
    for (int second = 1; second <= time.count(); ++second) {
      clock_.Advance(1s);
      if (wait_.LogNowAndThen()) logged.push_back(second);
    }
    return logged;
  };
  wait_.OnMessage();
  wait_.OnWaiting(WaitingFor({"worker 1", "worker 2"}, 2));
  EXPECT_THAT(lines_of(250s), ElementsAre(1, 3, 7, 15, 31, 63, 123, 183, 243));
  wait_.OnWaiting(WaitingFor({"worker 2"}, 1));
  EXPECT_THAT(lines_of(10s), ElementsAre(1, 3, 7)) << "of something new at once";
}

TEST_F(JoinWaitTest, WithoutAnOperatorTimeCountsThoughAPodIsMissing) {
  wait_.OnMessage();
  wait_.OnWaiting(WaitingFor({"worker 1"}, 1, {"worker 1"}));
  EXPECT_TRUE(absl::IsDeadlineExceeded(After(10s)));
}

TEST_F(JoinWaitTest, TimeDoesNotCountWhileAMissingMemberSaves) {
  proto::Waiting waiting = WaitingFor({"worker 0"}, 1);
  waiting.add_busy("worker 0");
  wait_.OnMessage();
  wait_.OnWaiting(waiting);
  EXPECT_TRUE(After(1h).ok());
  EXPECT_EQ(wait_.WaitingFor(), "waiting for worker 0; still saving or sharing state: worker 0");
  wait_.OnWaiting(WaitingFor({"worker 0"}, 1));
  EXPECT_TRUE(After(9s).ok());
  EXPECT_TRUE(absl::IsDeadlineExceeded(After(1s)));
}

TEST_F(OperatedJoinWaitTest, TimeCountsOnceEveryPodExists) {
  wait_.OnMessage();
  wait_.OnWaiting(WaitingFor({"worker 1"}, 1, {"worker 1"}));
  EXPECT_TRUE(After(1h).ok());
  wait_.OnWaiting(WaitingFor({"worker 1"}, 1));
  EXPECT_TRUE(After(9s).ok());
  EXPECT_TRUE(absl::IsDeadlineExceeded(After(1s)));
}

TEST_F(OperatedJoinWaitTest, ALeaderThatTookAJoinIsTakenForOneThatIsReplacedForAWhile) {
  wait_.OnMessage();
  wait_.OnAdmitted();
  wait_.OnSilence();
  EXPECT_TRUE(After(59s).ok());
  EXPECT_TRUE(After(9s).ok());
  EXPECT_TRUE(absl::IsDeadlineExceeded(After(1s)));
}

TEST_F(OperatedJoinWaitTest, ALeaderThatTurnsThisProcessAwayIsNot) {
  for (int second = 0; second < 9; ++second) {
    wait_.OnConnecting();
    wait_.OnMessage();  // its challenge
    wait_.OnSilence();
    EXPECT_TRUE(After(1s).ok());
  }
  EXPECT_TRUE(absl::IsDeadlineExceeded(After(1s)));
}

TEST_F(OperatedJoinWaitTest, AnEarlierConnectionOnWhichItWasAdmittedDoesNotCount) {
  wait_.OnConnecting();
  wait_.OnMessage();
  wait_.OnAdmitted();
  EXPECT_TRUE(wait_.admitted());
  wait_.OnSilence();
  EXPECT_TRUE(wait_.admitted());
  wait_.OnConnecting();
  EXPECT_FALSE(wait_.admitted());
  wait_.OnMessage();
  wait_.OnSilence();
  EXPECT_TRUE(absl::IsDeadlineExceeded(After(10s)));
}

TEST_F(OperatedJoinWaitTest, ALeaderThatNeverAnsweredIsNot) {
  wait_.OnSilence();
  EXPECT_TRUE(absl::IsDeadlineExceeded(After(10s)));
}

}  // namespace
}  // namespace lockstep::train
