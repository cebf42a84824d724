// How long a job waits for its last evaluation. What else ends the wait is in finish_rule_test.cc.
#include "operator/controller/rules/last_evaluation.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <optional>

#include "operator/controller/rules/parts/status.h"
#include "tests/support/observed_builder.h"

namespace lockstep::controller {
namespace {

using api::Role;
using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;
using ::testing::Contains;
using ::testing::ElementsAre;
using testing::Exited;
using ::testing::IsEmpty;
using testing::Job;
using testing::kReady;
using testing::Seen;

const Time kTrained = Time(seconds(1'700'000'000));  // Seen's first `now`

// Training has just ended, and the Evaluator runs.
Seen Trained(testing::JobBuilder job = Job("j")) {
  Seen seen(job.Workers(1).Evaluator().Training());
  return seen.Running().Worker(0, Exited(0, "", kTrained)).Pod(Role::kEvaluator, 0, kReady);
}

// The Evaluator told this long ago that it has evaluated more.
Seen& Worked(Seen& seen, Duration ago) {
  return seen.With([ago](Observed& observed) { observed.group.since_evaluation = ago; });
}

std::string State(Seen& seen) {
  return seen.Plan().status.state;
}

TEST(LastEvaluationTest, AnEvaluatorThatWorksIsWaitedForHoweverLongItTakes) {
  Seen seen = Trained();
  for (int hour = 1; hour <= 24; ++hour) {
    Worked(seen.Later(hours(1)), minutes(4));
    ASSERT_EQ(State(seen), "Running") << hour;
    EXPECT_LE(seen.Plan().requeue_after, minutes(1));
  }
  seen.With([](Observed& observed) { Exited(0)(observed.pods.back()); });
  const Plan plan = seen.Plan();
  EXPECT_EQ(plan.status.state, "Succeeded");
  EXPECT_EQ(FindCondition(plan.status, kSucceeded)->message, "worker-0 has finished");
}

TEST(LastEvaluationTest, OneThatStopsWorkingHasTheGraceFromThen) {
  Seen seen = Trained();
  Worked(seen.Later(hours(1)), minutes(5) - seconds(1));
  EXPECT_EQ(State(seen), "Running");
  EXPECT_EQ(seen.Plan().requeue_after, seconds(1));
  Worked(seen, minutes(5));
  const Plan plan = seen.Plan();
  EXPECT_EQ(plan.status.state, "Succeeded");
  EXPECT_EQ(FindCondition(plan.status, kSucceeded)->message,
            "worker-0 has finished; the Evaluator has not finished");
}

// It was asked while no leading pod ran, in an earlier attempt perhaps.
TEST(LastEvaluationTest, AnEvaluationDuringTrainingShortensNothing) {
  Seen seen = Trained();
  Worked(seen.Later(minutes(4)), hours(1));
  EXPECT_EQ(State(seen), "Running");
  Worked(seen.Later(minutes(1)), hours(1));
  EXPECT_EQ(State(seen), "Succeeded");
}

TEST(LastEvaluationTest, AnOperatorThatHasJustStartedFirstAsksTheEvaluator) {
  Seen seen = Trained();
  seen.Later(hours(1)).With([](Observed& observed) { observed.first_seen = observed.now; });
  EXPECT_EQ(State(seen.Later(seconds(14))), "Running");
  EXPECT_EQ(seen.Plan().requeue_after, seconds(1));
  Seen answered = seen;
  EXPECT_EQ(State(Worked(answered.Later(seconds(1)), seconds(3))), "Running");
  EXPECT_EQ(State(seen.Later(seconds(1))), "Succeeded");
}

// The leading pod's node, or the API server, could not be reached for an hour; or the node's clock
// is an hour behind.
TEST(LastEvaluationTest, AnOperatorThatLearnsLateOfTheEndFirstAsksTheEvaluator) {
  Seen seen = Trained();
  seen.Later(hours(1)).With([](Observed& observed) { observed.training_end_seen = observed.now; });
  EXPECT_EQ(State(seen.Later(seconds(14))), "Running");
  EXPECT_EQ(seen.Plan().requeue_after, seconds(1));
  Seen answered = seen;
  EXPECT_EQ(State(Worked(answered.Later(seconds(1)), seconds(3))), "Running");
  EXPECT_EQ(State(seen.Later(seconds(1))), "Succeeded");
}

// Its pod of the attempt before terminates, and its node is silent or its deletion is stuck.
TEST(LastEvaluationTest, AnEarlierPodThatHasTheNameIsDeletedByForce) {
  const auto state = [](const std::function<void(ObservedPod&)>& change) {
    Seen seen(Job("j").Workers(1).Evaluator().Training());
    seen.With([](Observed& observed) { observed.job.status.attempt = 1; });
    seen.Running().Worker(0, Exited(0, "", kTrained));
    seen.Pod(Role::kEvaluator, 0, [&change](ObservedPod& pod) {
      kReady(pod);
      pod.attempt = 0;
      change(pod);
    });
    return seen;
  };
  const std::string name = "j-evaluator-0", uid = "j-evaluator-0-uid";
  Seen there = state([](ObservedPod&) {});
  EXPECT_THAT(there.Plan().actions, ElementsAre(DeletePod{name, uid}));
  const auto deleted = [](ObservedPod& pod) {
    pod.being_deleted = true;
    pod.deleting_since = kTrained;
    pod.deletion = {kTrained + seconds(30), 30};
  };
  Seen leaves = state(deleted);
  EXPECT_THAT(leaves.Plan().actions, IsEmpty());
  EXPECT_THAT(leaves.Later(seconds(90)).Plan().actions,
              ElementsAre(DeletePod{name, uid, /*force=*/true}));
  Seen silent = state([&deleted](ObservedPod& pod) {
    deleted(pod);
    pod.node_silent_since = kTrained;
  });
  EXPECT_THAT(silent.Later(seconds(30)).Plan().actions,
              ElementsAre(DeletePod{name, uid, /*force=*/true}));
  EXPECT_THAT(silent.With([](Observed& observed) { observed.pods.pop_back(); }).Plan().actions,
              Contains(CreatePod{Role::kEvaluator, 0, 1}));
}

TEST(LastEvaluationTest, TheJobsDeadlineEndsTheWaitAndDoesNotFailTheJob) {
  Seen seen = Trained(Job("j").ActiveDeadlineSeconds(3600));
  Worked(seen.Later(seconds(3599)), seconds(1));
  EXPECT_EQ(State(seen), "Running");
  EXPECT_EQ(seen.Plan().requeue_after, seconds(1));
  EXPECT_EQ(State(seen.Later(seconds(1))), "Succeeded");
}

// Each works for an hour, and runs out of memory. During training that costs nobody anything.
TEST(LastEvaluationTest, OneThatFailsAgainAndAgainIsNotWaitedForForEver) {
  Seen seen = Trained();
  int pods = 1;
  for (; pods < 100; ++pods) {
    Worked(seen.Later(hours(1)), seconds(1)).With([](Observed& observed) {
      Exited(137, "OOMKilled")(observed.pods.back());
    });
    seen.Write();
    if (State(seen) == "Succeeded") break;
    seen.With([due = *seen.Build().evaluator_due, pods](Observed& observed) {
      *observed.group.since_evaluation += std::max(due - observed.now, Duration::zero());
      observed.now = std::max(due, observed.now);
      ObservedPod& pod = observed.pods.back();
      pod.uid = fmt::format("successor-{}", pods);
      pod.termination.reset();
      kReady(pod);
    });
    ASSERT_EQ(State(seen), "Running") << pods;
  }
  EXPECT_EQ(pods, 7);
}

}  // namespace
}  // namespace lockstep::controller
