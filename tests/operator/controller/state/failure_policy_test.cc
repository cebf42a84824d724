#include "operator/controller/state/failure_policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/controller/rules/parts/status.h"
#include "tests/support/observed_builder.h"

namespace lockstep::controller {
namespace {

using api::ExitCodeOperator;
using api::FailureAction;
using api::PodFailureRuleSpec;
using api::RestartPolicy;
using api::RestartScope;
using api::Role;
using std::chrono::seconds;
using testing::Evicted;
using testing::Exited;
using testing::ExitedBefore;
using testing::Job;
using testing::kBeingDeleted;
using testing::kReady;
using testing::PodState;
using testing::Seen;

PodFailureRuleSpec OnCodes(FailureAction action, std::vector<int> codes,
                           ExitCodeOperator op = ExitCodeOperator::kIn) {
  return {.action = action,
          .roles = {},
          .on_exit_codes = api::ExitCodesSpec{op, std::move(codes)},
          .on_reasons = {}};
}

PodFailureRuleSpec OnReasons(FailureAction action, std::vector<std::string> reasons) {
  return {.action = action,
          .roles = {},
          .on_exit_codes = std::nullopt,
          .on_reasons = std::move(reasons)};
}

// A gang that brings its own image.
testing::JobBuilder Gang(std::vector<PodFailureRuleSpec> rules,
                         RestartPolicy policy = RestartPolicy::kExitCode) {
  auto job = Job("j").Chief().Workers(2).RestartScope(RestartScope::kGang);
  job.RestartPolicy(Role::kWorker, policy).RestartPolicy(Role::kChief, policy);
  job.With([&rules](api::TrainingJob& built) {
    built.spec.run_policy.pod_failure_policy = api::PodFailurePolicySpec{rules};
  });
  return job;
}

api::TrainingJobStatus StatusAfter(const testing::JobBuilder& job, const PodState& state) {
  Seen seen(job);
  seen.Running().Pod(Role::kChief, 0, kReady).Worker(0, kReady).Worker(1, state);
  return seen.Plan().status;
}

TEST(FailurePolicyTest, ARuleDecidesInsteadOfTheRestartPolicy) {
  const PodState spent = ExitedBefore(42);
  EXPECT_EQ(StatusAfter(Gang({}), spent).state, "Failed");
  const auto ignored = StatusAfter(Gang({OnCodes(FailureAction::kIgnore, {41, 42})}), spent);
  EXPECT_EQ(ignored.state, "Restarting");
  EXPECT_EQ(ignored.restarts, (api::RestartCounts{0, 1, 1}));
  const auto counted = StatusAfter(Gang({OnCodes(FailureAction::kCount, {42})}), spent);
  EXPECT_EQ(counted.state, "Restarting");
  EXPECT_EQ(counted.restarts, (api::RestartCounts{1, 0, 1}));
  const auto failed =
      StatusAfter(Gang({OnCodes(FailureAction::kFailJob, {42})}, RestartPolicy::kOnFailure), spent);
  EXPECT_EQ(failed.state, "Failed");
  EXPECT_EQ(FindCondition(failed, kFailed)->reason, "PodFailurePolicy");
  EXPECT_EQ(FindCondition(failed, kFailed)->message,
            "worker-1 exited with code 42, for which podFailurePolicy.rules[0] fails the job");
  EXPECT_EQ(failed.failure->exit_code, 42);
}

TEST(FailurePolicyTest, TheFirstRuleThatAppliesDecides) {
  const auto rules = {OnCodes(FailureAction::kFailJob, {7}), OnCodes(FailureAction::kIgnore, {42}),
                      OnCodes(FailureAction::kFailJob, {42})};
  EXPECT_EQ(StatusAfter(Gang(rules), ExitedBefore(42)).restarts.disruption, 1);
}

TEST(FailurePolicyTest, NotInIsAboutAllOtherExitCodes) {
  const auto job = Gang({OnCodes(FailureAction::kFailJob, {42, 137}, ExitCodeOperator::kNotIn)},
                        RestartPolicy::kOnFailure);
  EXPECT_EQ(StatusAfter(job, ExitedBefore(41)).state, "Failed");
  EXPECT_EQ(StatusAfter(job, ExitedBefore(42)).state, "Restarting");
  EXPECT_EQ(StatusAfter(job, ExitedBefore(137)).state, "Restarting");
  // A pod that failed without an exit code has none that could be another.
  EXPECT_EQ(StatusAfter(job, [](ObservedPod& pod) { pod.phase = PodPhase::kFailed; }).state,
            "Restarting");
}

TEST(FailurePolicyTest, ProgramsThatWereToldToEndAreNotJudgedByTheirExitCodes) {
  const auto job = Gang({OnCodes(FailureAction::kFailJob, {143, 137})}, RestartPolicy::kOnFailure);
  EXPECT_EQ(StatusAfter(job, kBeingDeleted).restarts, (api::RestartCounts{0, 1, 1}));
  const PodState drained = [](ObservedPod& pod) {
    Exited(143)(pod);
    pod.being_deleted = pod.disruption_target = true;
    pod.disruption_reason = "EvictionByEvictionAPI";
  };
  EXPECT_EQ(StatusAfter(job, drained).restarts, (api::RestartCounts{0, 1, 1}));
  EXPECT_EQ(StatusAfter(job, testing::EvictedForItsOwnLimit(137)).state, "Restarting");
  const auto by_reason = Gang({OnReasons(FailureAction::kFailJob, {"Error"})});
  const PodState drained_with_reason = [&drained](ObservedPod& pod) {
    drained(pod);
    pod.termination->reason = "Error";
  };
  EXPECT_EQ(StatusAfter(by_reason, drained_with_reason).restarts, (api::RestartCounts{0, 1, 1}));
  EXPECT_EQ(StatusAfter(job, ExitedBefore(137)).state, "Failed");
}

TEST(FailurePolicyTest, ReasonsAreThoseOfTheContainerThePodAndTheDisruption) {
  const PodState silent = [](ObservedPod& pod) {
    kReady(pod);
    pod.node_silent_since = Time(seconds(1'700'000'000)) - std::chrono::hours(1);
  };
  struct Case {
    const char* reason;
    PodState state;
  };
  const Case cases[] = {{"OOMKilled", Exited(137, "OOMKilled")},
                        {"Evicted", Evicted()},
                        {"TerminationByKubelet", Evicted()},
                        {"NodeLost", silent}};
  for (const Case& c : cases) {
    const auto status =
        StatusAfter(Gang({OnReasons(FailureAction::kFailJob, {"Other", c.reason})}), c.state);
    EXPECT_EQ(status.state, "Failed") << c.reason;
    const auto other = StatusAfter(Gang({OnReasons(FailureAction::kFailJob, {"Other"})}), c.state);
    EXPECT_NE(other.state, "Failed") << c.reason;
  }
  // Preemptions may cost something, too.
  const auto charged =
      StatusAfter(Gang({OnReasons(FailureAction::kCount, {"Evicted"})}), Evicted());
  EXPECT_EQ(charged.restarts, (api::RestartCounts{1, 0, 1}));
}

TEST(FailurePolicyTest, AllConditionsOfARuleMustHold) {
  PodFailureRuleSpec rule = OnCodes(FailureAction::kIgnore, {137});
  rule.on_reasons = {"OOMKilled"};
  EXPECT_EQ(StatusAfter(Gang({rule}), Exited(137, "OOMKilled")).restarts.disruption, 1);
  EXPECT_EQ(StatusAfter(Gang({rule}), Exited(137, "Error")).restarts.disruption, 0);
  EXPECT_EQ(StatusAfter(Gang({rule}), Exited(1, "OOMKilled")).restarts.disruption, 0);
  rule.roles = {Role::kChief, Role::kParameterServer};
  EXPECT_EQ(StatusAfter(Gang({rule}), Exited(137, "OOMKilled")).restarts.disruption, 0);
  rule.roles = {Role::kWorker};
  EXPECT_EQ(StatusAfter(Gang({rule}), Exited(137, "OOMKilled")).restarts.disruption, 1);
}

TEST(FailurePolicyTest, NoRuleIsAboutAnEvaluator) {
  auto job = Gang({OnCodes(FailureAction::kFailJob, {1})}).Evaluator();
  job.RestartPolicy(Role::kEvaluator, RestartPolicy::kOnFailure);
  Seen seen(job);
  seen.Running().Pod(Role::kChief, 0, kReady).Worker(0, kReady).Worker(1, kReady);
  const auto status = seen.Pod(Role::kEvaluator, 0, Exited(1)).Plan().status;
  EXPECT_FALSE(IsTrue(status, kFailed));
  EXPECT_EQ(status.restarts.evaluator, 1);  // as its restartPolicy says
}

TEST(FailurePolicyTest, PeersThatEndBecauseOfAnEndThatARuleNamesAreItsConsequences) {
  for (const auto& [action, state, restarts] :
       {std::tuple(FailureAction::kIgnore, "Restarting", api::RestartCounts{0, 1, 1}),
        std::tuple(FailureAction::kCount, "Restarting", api::RestartCounts{1, 0, 1}),
        std::tuple(FailureAction::kFailJob, "Failed", api::RestartCounts{})}) {
    Seen seen(Gang({OnCodes(action, {42})}));
    // A kubelet's clock is behind: the peer seems to have ended first.
    const Time now = Time(seconds(1'700'000'000));
    seen.Running().Pod(Role::kChief, 0, Exited(1, "Error", now - seconds(2)));
    seen.Worker(0, Exited(1, "Error", now)).Worker(1, Exited(42, "Error", now - seconds(1)));
    const auto status = seen.Plan().status;
    EXPECT_EQ(status.state, state);
    EXPECT_EQ(status.restarts, restarts) << state;
    EXPECT_EQ(status.failure->exit_code, 42);
  }
}

TEST(FailurePolicyTest, RulesAboutAllOtherEndsDoNotHideTheCause) {
  const Time now = Time(seconds(1'700'000'000));
  const auto after = [&now](std::vector<PodFailureRuleSpec> rules, const PodState& cause) {
    Seen seen(Gang(std::move(rules)));
    seen.Running().Pod(Role::kChief, 0, Exited(1, "Error", now));
    return seen.Worker(0, Exited(1, "Error", now)).Worker(1, cause).Plan().status;
  };
  const PodState spent = Exited(42, "Error", now);
  const auto failed = after({OnCodes(FailureAction::kFailJob, {42}),
                             OnCodes(FailureAction::kIgnore, {42}, ExitCodeOperator::kNotIn)},
                            spent);
  EXPECT_EQ(failed.state, "Failed");
  EXPECT_EQ(failed.failure->exit_code, 42);
  const auto counted = after({OnCodes(FailureAction::kCount, {42}),
                              OnCodes(FailureAction::kFailJob, {42}, ExitCodeOperator::kNotIn)},
                             spent);
  EXPECT_EQ(counted.restarts, (api::RestartCounts{1, 0, 1}));
  const auto charged = after({OnCodes(FailureAction::kIgnore, {1})}, Exited(137, "OOMKilled", now));
  EXPECT_EQ(charged.restarts, (api::RestartCounts{1, 0, 1}));
  EXPECT_EQ(charged.failure->exit_code, 137);
}

TEST(FailurePolicyTest, OfSeveralListedEndsTheOneOfTheEarliestRuleIsTheCause) {
  const Time now = Time(seconds(1'700'000'000));
  const PodFailureRuleSpec fail_42 = OnCodes(FailureAction::kFailJob, {42});
  PodFailureRuleSpec error_but_7 = OnReasons(FailureAction::kIgnore, {"Error"});
  error_but_7.on_exit_codes = api::ExitCodesSpec{ExitCodeOperator::kNotIn, {7}};
  struct Case {
    const char* name;
    std::vector<PodFailureRuleSpec> rules;
    Duration after;  // the end of worker-1 after those of its peers
    int charged;     // exit code
  };
  const Case cases[] = {
      {"in the same second", {fail_42, OnCodes(FailureAction::kIgnore, {1})}, seconds(0), 42},
      {"seen later", {fail_42, OnCodes(FailureAction::kIgnore, {1})}, seconds(1), 42},
      {"behind another rule", {OnCodes(FailureAction::kIgnore, {1}), fail_42}, seconds(0), 1},
      {"nor if earlier", {OnCodes(FailureAction::kIgnore, {1}), fail_42}, seconds(-1), 1},
      {"Error", {OnReasons(FailureAction::kIgnore, {"Error"}), fail_42}, seconds(0), 1},
      {"Error last", {fail_42, OnReasons(FailureAction::kIgnore, {"Error"})}, seconds(0), 42},
      {"Error lists none", {error_but_7, OnCodes(FailureAction::kFailJob, {7})}, seconds(0), 7},
      {"nor beside others",
       {OnReasons(FailureAction::kIgnore, {"Error", "StartError"}),
        OnReasons(FailureAction::kFailJob, {"Spent"})},
       seconds(0),
       13},
  };
  for (const Case& c : cases) {
    Seen seen(Gang(c.rules));
    seen.Running().Pod(Role::kChief, 0, Exited(1, "Error", now));
    seen.Worker(0, Exited(1, "Error", now));
    const char* reason = c.charged == 13 ? "Spent" : "Error";
    const int code = c.charged == 1 ? 42 : c.charged;
    const auto status = seen.Worker(1, Exited(code, reason, now + c.after)).Plan().status;
    ASSERT_TRUE(status.failure.has_value()) << c.name;
    EXPECT_EQ(status.failure->exit_code, c.charged) << c.name;
    EXPECT_EQ(status.state, c.charged == 1 ? "Restarting" : "Failed") << c.name;
  }
}

TEST(FailurePolicyTest, EndsThatRulesAreAboutSettleLikeOthers) {
  Seen seen(Gang({OnCodes(FailureAction::kIgnore, {1})}));
  seen.Running().Pod(Role::kChief, 0, kReady).Worker(0, ExitedBefore(1, seconds(4)));
  EXPECT_EQ(seen.Worker(1, kReady).Plan().requeue_after, Duration(seconds(6)));
}

TEST(FailurePolicyTest, APodOnASilentNodeThatAPeersEndRevealsHasTheReasonNodeLost) {
  const PodState silent = [](ObservedPod& pod) {
    kReady(pod);
    pod.node_silent_since = Time(seconds(1'700'000'000));
  };
  Seen seen(Gang({OnReasons(FailureAction::kCount, {"NodeLost"})}));
  seen.Running().Pod(Role::kChief, 0, ExitedBefore(1)).Worker(0, ExitedBefore(1));
  EXPECT_EQ(seen.Worker(1, silent).Plan().status.restarts, (api::RestartCounts{1, 0, 1}));
}

// One whose parameter server always runs.
testing::JobBuilder Serving(std::vector<PodFailureRuleSpec> rules, int backoff_limit = 6) {
  auto job = Job("j").Workers(2).ParameterServers(1).RestartScope(RestartScope::kPod);
  job.RestartPolicy(Role::kParameterServer, RestartPolicy::kAlways);
  job.RestartPolicy(Role::kWorker, RestartPolicy::kOnFailure);
  return job.With([&](api::TrainingJob& built) {
    built.spec.run_policy.backoff_limit = backoff_limit;
    built.spec.run_policy.pod_failure_policy = api::PodFailurePolicySpec{std::move(rules)};
  });
}

const PodState kServed = [](ObservedPod& pod) {
  Exited(0, "Completed")(pod);
  pod.starts_again = true;
};

// As the kubelet restarts it without rules: until backoffLimit is spent.
TEST(FailurePolicyTest, ARoleThatAlwaysRunsStartsAgainAfterASuccess) {
  Seen seen(Serving({OnCodes(FailureAction::kFailJob, {42})}, 1));
  seen.Running().Worker(0, kReady).Worker(1, kReady);
  seen.Pod(Role::kParameterServer, 0, kServed).Write();
  EXPECT_FALSE(seen.Build().job.status.failure.has_value()) << "a success is none";
  EXPECT_EQ(seen.Build().job.status.restarts, (api::RestartCounts{1, 0, 1}));
  EXPECT_EQ(seen.Build().job.status.replica_statuses.at(Role::kParameterServer).succeeded, 0);
  EXPECT_THAT(seen.Plan().actions, ::testing::ElementsAre(DeletePod{"j-ps-0", "j-ps-0-uid"}));
  seen.With([](Observed& observed) {
    for (ObservedPod& pod : observed.pods) pod.uid += "-successor";
  });
  const auto status = seen.Plan().status;
  ASSERT_TRUE(IsTrue(status, kFailed));
  EXPECT_EQ(FindCondition(status, kFailed)->reason, "BackoffLimitExceeded");
  EXPECT_FALSE(status.failure.has_value());
}

TEST(FailurePolicyTest, ASuccessOfARoleThatAlwaysRunsHidesNoFailure) {
  const auto rules = {OnCodes(FailureAction::kFailJob, {42})};
  Seen at_once(Serving(rules));
  at_once.Running().Worker(0, ExitedBefore(42)).Worker(1, kReady);
  at_once.Pod(Role::kParameterServer, 0, kServed);
  Seen before(Serving(rules));
  before.Running().Worker(1, kReady).Pod(Role::kParameterServer, 0, kServed);
  before.Worker(0, kReady).Write().Later(seconds(5));
  before.With([](Observed& observed) {
    for (ObservedPod& pod : observed.pods) {
      if (pod.name == "j-worker-0") ExitedBefore(42)(pod);
    }
  });
  for (Seen* seen : {&at_once, &before}) {
    const auto status = seen->Plan().status;
    ASSERT_TRUE(IsTrue(status, kFailed)) << status.state;
    EXPECT_EQ(FindCondition(status, kFailed)->reason, "PodFailurePolicy");
    EXPECT_EQ(status.failure->exit_code, 42);
  }
}

TEST(FailurePolicyTest, ASuccessIsChargedByItselfAfterTheFailuresSeenWithIt) {
  Seen seen(Serving({OnCodes(FailureAction::kFailJob, {42})}));
  seen.Running().Worker(0, ExitedBefore(1, seconds(4))).Worker(1, kReady);
  seen.Pod(Role::kParameterServer, 0, kServed);
  EXPECT_EQ(seen.Plan().requeue_after, Duration(seconds(6))) << "its cause may yet show";
  seen.Later(seconds(6)).Write();
  EXPECT_EQ(seen.Build().job.status.restarts.application, 1);
  EXPECT_EQ(seen.Build().job.status.failure->exit_code, 1);
  seen.Write();
  EXPECT_EQ(seen.Build().job.status.restarts.application, 2);
  EXPECT_EQ(seen.Build().job.status.failure->exit_code, 1) << "the latest failure";
  EXPECT_EQ(seen.Plan().actions.size(), 2U);
}

TEST(FailurePolicyTest, ASuccessThatARuleIsAboutIsReportedAsItsFailure) {
  Seen seen(Serving({OnReasons(FailureAction::kFailJob, {"Completed"})}));
  seen.Running().Worker(0, kReady).Worker(1, kReady).Pod(Role::kParameterServer, 0, kServed);
  const auto status = seen.Plan().status;
  ASSERT_TRUE(IsTrue(status, kFailed));
  EXPECT_EQ(status.failure->reason, "Completed");
}

TEST(FailurePolicyTest, APodThatEndsWithSuccessBecauseItsNodeIsDrainedIsACause) {
  const PodState drained = [](ObservedPod& pod) {
    kServed(pod);
    pod.being_deleted = pod.disruption_target = true;
  };
  Seen seen(Serving({OnCodes(FailureAction::kFailJob, {1})}));
  seen.Running().Worker(0, Exited(1)).Worker(1, kReady);
  const auto status = seen.Pod(Role::kParameterServer, 0, drained).Plan().status;
  EXPECT_FALSE(IsTrue(status, kFailed));
  EXPECT_EQ(status.restarts, (api::RestartCounts{0, 1, 1}));
}

TEST(FailurePolicyTest, AnEndThatFollowsFromALostPeerIsNotJudged) {
  Seen seen(Gang({OnCodes(FailureAction::kFailJob, {1})}));
  seen.Running().Pod(Role::kChief, 0, Exited(1)).Worker(0, Evicted()).Worker(1, Exited(1));
  const auto status = seen.Plan().status;
  EXPECT_EQ(status.state, "Restarting");
  EXPECT_EQ(status.restarts, (api::RestartCounts{0, 1, 1}));
}

}  // namespace
}  // namespace lockstep::controller
