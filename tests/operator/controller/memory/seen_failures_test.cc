#include "operator/controller/memory/seen_failures.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/observed_builder.h"

namespace lockstep::controller {
namespace {

using api::RestartPolicy;
using api::RestartScope;
using api::Role;
using std::chrono::seconds;
using testing::ExitedBefore;
using ::testing::IsEmpty;
using testing::Job;
using testing::kReady;
using testing::PodState;
using testing::Seen;
using ::testing::SizeIs;

Observed NotedBy(SeenFailures& failures, Seen& seen) {
  Observed observed = seen.Build();
  failures.AddGone(observed);
  failures.Record(observed);
  return observed;
}

// Two workers run, and then the second has failed just now.
Seen HasOneThatFailed(RestartScope scope, RestartPolicy policy,
                      const PodState& state = ExitedBefore(1, seconds(0))) {
  Seen seen(Job("j").Workers(2).RestartScope(scope).RestartPolicy(Role::kWorker, policy));
  seen.Running().Worker(0, kReady).Worker(1, state);
  return seen;
}
Seen HasOneThatFailed() {
  return HasOneThatFailed(RestartScope::kPod, RestartPolicy::kOnFailure);
}

TEST(SeenFailuresTest, AFailureWhosePodIsDeletedBeforeItIsJudgedIsChargedAllTheSame) {
  struct Case {
    RestartScope scope;
    RestartPolicy policy;
    bool fails_job;
  };
  for (const Case& c : {Case{RestartScope::kGang, RestartPolicy::kOnFailure, false},
                        Case{RestartScope::kPod, RestartPolicy::kOnFailure, false},
                        Case{RestartScope::kGang, RestartPolicy::kExitCode, true},
                        Case{RestartScope::kPod, RestartPolicy::kNever, true}}) {
    SCOPED_TRACE(static_cast<int>(c.scope) * 10 + static_cast<int>(c.policy));
    SeenFailures failures;
    Seen seen = HasOneThatFailed(c.scope, c.policy);
    NotedBy(failures, seen);
    seen.NoPods().Worker(0, kReady).Later(seconds(9));
    const Plan waiting = MakePlan(NotedBy(failures, seen));
    EXPECT_THAT(waiting.actions, IsEmpty());
    EXPECT_EQ(waiting.status.restarts, api::RestartCounts{});
    EXPECT_EQ(waiting.requeue_after, seconds(1));
    seen.Later(seconds(1));
    const Plan plan = MakePlan(NotedBy(failures, seen));
    EXPECT_EQ(plan.status.state == "Failed", c.fails_job);
    EXPECT_EQ(plan.status.restarts.application, c.fails_job ? 0 : 1);
    ASSERT_TRUE(plan.status.failure);
    EXPECT_EQ(plan.status.failure->exit_code, 1);
  }
}

TEST(SeenFailuresTest, AFailureThatIsCountedIsForgotten) {
  SeenFailures failures;
  Seen seen = HasOneThatFailed();
  NotedBy(failures, seen);
  seen.With([](Observed& observed) { observed.job.status.counted_pods = {"j-worker-1-uid"}; });
  NotedBy(failures, seen);
  seen.NoPods().Worker(0, kReady);
  seen.With([](Observed& observed) { observed.job.status.counted_pods.clear(); });
  EXPECT_THAT(NotedBy(failures, seen).pods, SizeIs(1));
}

TEST(SeenFailuresTest, OnlyMembersOfTheAttemptAreRemembered) {
  const std::pair<const char*, std::function<void(Observed&)>> changes[] = {
      {"the next attempt", [](Observed& observed) { ++observed.job.status.attempt; }},
      {"a smaller job",
       [](Observed& observed) { observed.job.spec.replica_specs[Role::kWorker].replicas = 1; }},
  };
  for (const auto& [name, change] : changes) {
    SeenFailures failures;
    Seen seen = HasOneThatFailed();
    NotedBy(failures, seen);
    seen.NoPods().With(change);
    EXPECT_THAT(NotedBy(failures, seen).pods, IsEmpty()) << name;
  }
  SeenFailures failures;
  Seen evaluator(Job("j").Workers(1).Evaluator());
  evaluator.Pod(Role::kEvaluator, 0, ExitedBefore(1));
  NotedBy(failures, evaluator);
  EXPECT_THAT(NotedBy(failures, evaluator.NoPods()).pods, IsEmpty()) << "SeenEvaluator counts it";
}

TEST(SeenFailuresTest, APodThatFailedBecauseItWasDeletedWasDisruptedAndIsNotDeletedAgain) {
  SeenFailures failures;
  Seen seen = HasOneThatFailed(RestartScope::kPod, RestartPolicy::kNever, [](ObservedPod& pod) {
    ExitedBefore(1, seconds(0))(pod);
    pod.being_deleted = true;
    pod.deleting_since = *pod.failed_since;
    pod.deletion = Deletion{*pod.failed_since + seconds(30), 30};
  });
  NotedBy(failures, seen);
  seen.NoPods().Worker(0, kReady).Later(std::chrono::hours(1));
  const Observed observed = NotedBy(failures, seen);
  EXPECT_EQ(MakePlan(observed).status.restarts.disruption, 1);
  ASSERT_THAT(observed.pods, SizeIs(2));
  ASSERT_TRUE(observed.pods[1].deletion);
  EXPECT_EQ(observed.pods[1].deletion->grace_seconds, 0);
  EXPECT_EQ(observed.pods[1].deletion->RequestedAt(), *observed.pods[1].failed_since);
}

}  // namespace
}  // namespace lockstep::controller
