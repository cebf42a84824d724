// The order of the rules: for each reason that make_plan.cc gives, a job to which both rules apply.
#include "operator/controller/rules/make_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "operator/controller/children/kueue.h"
#include "operator/controller/children/pod_revision.h"
#include "operator/controller/rules/deadline_rule.h"
#include "operator/controller/rules/deleted_rule.h"
#include "operator/controller/rules/evaluator_rule.h"
#include "operator/controller/rules/finalize_plan.h"
#include "operator/controller/rules/finish_rule.h"
#include "operator/controller/rules/foreign_rule.h"
#include "operator/controller/rules/invalid_rule.h"
#include "operator/controller/rules/kueue_rule.h"
#include "operator/controller/rules/parts/status.h"
#include "operator/controller/rules/rejected_rule.h"
#include "operator/controller/rules/rescale_rule.h"
#include "operator/controller/rules/restart_rule.h"
#include "operator/controller/rules/running_rule.h"
#include "operator/controller/rules/shrunk_rule.h"
#include "operator/controller/rules/suspend_rule.h"
#include "tests/operator/controller/queued_job.h"
#include "tests/support/observed_builder.h"

namespace lockstep::controller {
namespace {

using api::Role;
using std::chrono::seconds;
using testing::Exited;
using ::testing::IsEmpty;
using testing::Job;
using testing::JobBuilder;
using testing::kReady;
using testing::Queued;
using testing::Seen;

using Change = std::function<void(Observed&)>;

// A job of two workers that runs, with both pods.
Seen Runs(const JobBuilder& job = Job("j").Workers(2)) {
  return Seen(job).Running().Worker(0, kReady).Worker(1, kReady);
}
Change Worker(std::size_t index, const testing::PodState& state) {
  return [=](Observed& observed) { state(observed.pods.at(index)); };
}
const Change kFirstIsDone = Worker(0, Exited(0));
const Change kSecondFails = Worker(1, Exited(137));
const Change kSuspends = [](Observed& observed) { observed.job.spec.suspend = true; };
const Change kResumes = [](Observed& observed) { observed.job.spec.suspend = false; };
const Change kIsInvalid = [](Observed& observed) { observed.invalid = "spec.x: found 1"; };
const Change kIsForeign = [](Observed& observed) {
  observed.job.spec.managed_by = "kueue.x-k8s.io/multikueue";
};
const Change kIsDeleted = [](Observed& observed) {
  observed.job.metadata.deletion_time = observed.now;
};
const Change kIsLate = [](Observed& observed) {
  observed.job.spec.run_policy.active_deadline_seconds = 60;
  observed.now += seconds(60);
};
const Change kIsStuck = [](Observed& observed) {
  observed.job.spec.run_policy.progress_deadline_seconds = 60;
  observed.complete_since = observed.now;
  observed.now += seconds(60);
  observed.group.in_step_for = seconds(60);
};
const Change kWorkersAreRejected = [](Observed& observed) {
  observed.create_fault = {
      .message = "image: Required value", .is_refusal = true, .invalid_pod = Role::kWorker};
};
// The pods were created with another size.
const Change kIsRescaled = [](Observed& observed) {
  for (ObservedPod& pod : observed.pods) pod.cluster_shape = "worker=7";
};
const Change kHasQueue = [](Observed& observed) {
  observed.settings = testing::kKueue;
  observed.job.metadata.labels = Queued().Build().metadata.labels;
};
const Change kIsAdmitted = [](Observed& observed) {
  ObservedWorkload workload;
  workload.templates = TemplatesHash(observed.job);
  workload.queue = QueueName(observed.job);
  workload.reserved = workload.admitted = true;
  for (const auto& [role, spec] : observed.job.spec.replica_specs) {
    workload.counts[role] = workload.granted[role].count = spec.replicas;
  }
  observed.workload = workload;
};
const Change kIsEvicted = [](Observed& observed) {
  kIsAdmitted(observed);
  observed.workload->evicted = true;
};

// An edit has left only the first worker, which has finished; the others' failures do not matter.
Seen IsShrunk() {
  Seen seen(
      Job("j").Workers(2).Evaluator().ParameterServers(1).RestartScope(api::RestartScope::kPod));
  seen.With([](Observed& observed) {
    observed.job.spec.success_policy = api::SuccessPolicy::kAllWorkers;
    observed.job.spec.elastic = api::ElasticSpec{1, 2};
  });
  seen.Running().Pod(Role::kParameterServer, 0, kReady).Pod(Role::kEvaluator, 0, kReady);
  seen.Worker(0, kReady).Worker(1, kReady).Write();
  return seen.With([](Observed& observed) {
    ++observed.job.metadata.generation;
    observed.job.spec.replica_specs[Role::kWorker].replicas = 1;
    for (ObservedPod& pod : observed.pods) {
      if (pod.role == Role::kWorker && pod.index == 0) Exited(0)(pod);
    }
  });
}
Change Fails(Role role) {
  return [role](Observed& observed) {
    for (ObservedPod& pod : observed.pods) {
      if (pod.role == role) Exited(137)(pod);
    }
  };
}

// Its status says Suspended, and it has no pods.
Seen IsSuspended() {
  return Seen(Job("j").Workers(2).Suspended()).Write();
}
Seen HasSucceededBefore() {
  return Seen(Job("j").Workers(2).TtlSecondsAfterFinished(60))
      .Service()
      .Worker(0, Exited(0))
      .Worker(1, kReady)
      .Write()
      .Later(seconds(30));
}
// The chief's pod exists, and there is no worker yet.
Seen HasAChief(const testing::PodState& state) {
  return Seen(Job("j").Chief().Workers(2)).Service().Pod(Role::kChief, 0, state);
}

struct Pair {
  std::string reason;
  Rule first, second;
  Seen seen;
};

std::vector<Pair> Pairs() {
  return {
      {"an ended job of another manager is not cleaned up", PlanForeign, PlanFinished,
       HasSucceededBefore().With(kIsForeign)},
      {"a deleted job of another manager is not stopped", PlanForeign, PlanDeleted,
       Runs().With(kIsForeign).With(kIsDeleted)},
      {"an ended job that is being deleted is not deleted again", PlanDeleted, PlanFinished,
       HasSucceededBefore().Later(seconds(60)).With(kIsDeleted)},
      {"a deleted job does not succeed", PlanDeleted, PlanSucceeded,
       Runs().With(kFirstIsDone).With(kIsDeleted)},
      {"a deleted job does not ask for quota", PlanDeleted, PlanQueued,
       IsSuspended().With(kHasQueue).With(kIsDeleted)},
      {"a deleted job creates no pods", PlanDeleted, PlanRunning, Runs().NoPods().With(kIsDeleted)},
      {"an ended job does not succeed again", PlanFinished, PlanSucceeded, HasSucceededBefore()},
      {"an ended job is not suspended", PlanFinished, PlanSuspended,
       HasSucceededBefore().With(kSuspends)},
      {"an ended job does not fail", PlanFinished, PlanRestart,
       HasSucceededBefore().With(kSecondFails)},
      {"an invalid job fails though it is suspended", PlanInvalid, PlanSuspended,
       Seen(Job("j").Workers(2).Suspended()).With(kIsInvalid)},
      {"an invalid job fails though it waits for Kueue", PlanInvalid, PlanQueued,
       IsSuspended().With(kHasQueue).With(kIsAdmitted).With(kIsInvalid)},
      {"success beats an eviction", PlanSucceeded, PlanQueued,
       Runs().With(kHasQueue).With(kIsEvicted).With(kFirstIsDone)},
      {"success beats suspension", PlanSucceeded, PlanSuspended,
       Runs().With(kFirstIsDone).With(kSuspends)},
      {"success beats the deadline", PlanSucceeded, PlanDeadline,
       Runs().With(kFirstIsDone).With(kIsLate)},
      {"success needs no valid spec", PlanSucceeded, PlanHeld,
       Runs().With(kFirstIsDone).With(kIsInvalid)},
      {"success beats a failure", PlanSucceeded, PlanRestart,
       Runs().With(kFirstIsDone).With(kSecondFails)},
      {"a job asks for quota although it is suspended", PlanQueued, PlanSuspended,
       IsSuspended().With(kHasQueue)},
      {"an admitted job is resumed", PlanQueued, PlanSuspended,
       IsSuspended().With(kHasQueue).With(kIsAdmitted)},
      {"an evicted job does not fail for its deadline", PlanQueued, PlanDeadline,
       Runs().With(kHasQueue).With(kIsEvicted).With(kIsLate)},
      {"an evicted job's failures are not charged", PlanQueued, PlanRestart,
       Runs().With(kHasQueue).With(kIsEvicted).With(kSecondFails)},
      {"a job gets no pods without quota", PlanQueued, PlanRunning, Seen(Queued()).With(kHasQueue)},
      {"a job that Kueue stops does not fail for its deadline", PlanSuspended, PlanDeadline,
       Runs().With(kHasQueue).With(kIsInvalid).With(kIsLate)},
      {"suspension needs no valid spec", PlanSuspended, PlanHeld,
       Runs().With(kSuspends).With(kIsInvalid)},
      {"a suspended job does not fail for its template", PlanSuspended, PlanRejected,
       Seen(Job("j").Workers(2).Suspended()).With(kWorkersAreRejected)},
      {"failures seen with suspension are not charged", PlanSuspended, PlanRestart,
       Runs().With(kSuspends).With(kSecondFails)},
      {"the deadline needs no valid spec", PlanDeadline, PlanHeld,
       Runs().With(kIsInvalid).With(kIsLate)},
      {"a job past its deadline is not restarted", PlanDeadline, PlanRestart,
       Runs().With(kSecondFails).With(kIsLate)},
      {"failures are not judged by an invalid spec", PlanHeld, PlanRestart,
       Runs().With(kIsInvalid).With(kSecondFails)},
      {"pods are not compared with an invalid spec", PlanHeld, PlanRescaled,
       Runs().With(kIsInvalid).With(kIsRescaled)},
      {"pods are not created from an invalid spec", PlanHeld, PlanRunning,
       Runs().With(kIsInvalid).NoPods()},
      {"nor is an attempt opened for one", PlanHeld, PlanShrunk, IsShrunk().With(kIsInvalid)},
      {"an edit that leaves no work is seen before a failure notes it", PlanShrunk, PlanRestart,
       IsShrunk().With(Fails(Role::kParameterServer))},
      {"and before an Evaluator's", PlanShrunk, PlanEvaluatorRestart,
       IsShrunk().With(Fails(Role::kEvaluator))},
      {"and before a job without it runs on", PlanShrunk, PlanRunning, IsShrunk()},
      {"a template is not blamed while the spec is invalid", PlanHeld, PlanRejected,
       HasAChief(kReady).With(kIsInvalid).With(kWorkersAreRejected)},
      {"a restart does not make a rejected template an accepted one", PlanRejected, PlanRestart,
       HasAChief(Exited(137)).With(kWorkersAreRejected)},
      {"nor does another size", PlanRejected, PlanRescaled,
       HasAChief(kReady).With(kWorkersAreRejected).With(kIsRescaled)},
      {"an Evaluator that fails beside the others is counted", PlanEvaluatorRestart, PlanRestart,
       Runs(Job("j").Workers(2).Evaluator())
           .With(kSecondFails)
           .Pod(Role::kEvaluator, 0, Exited(137))},
      {"and so is one that comes with another size", PlanEvaluatorRestart, PlanRescaled,
       Runs(Job("j").Workers(2).Evaluator())
           .With(kIsRescaled)
           .Pod(Role::kEvaluator, 0, Exited(137))},
      {"its failure is counted before its pod is deleted", PlanEvaluatorRestart, PlanRunning,
       Runs(Job("j").Workers(2).Evaluator()).Pod(Role::kEvaluator, 0, Exited(137))},
      {"a failure that comes with another size is charged", PlanRestart, PlanRescaled,
       Runs().With(kIsRescaled).With(kSecondFails)},
      {"and so is a job without progress", PlanRestart, PlanRescaled,
       Runs().With(kIsStuck).With(kIsRescaled)},
      {"nobody knows how far a job is that Kueue has stopped", PlanQueued, PlanRestart,
       Runs().With(kHasQueue).With(kIsEvicted).With(kIsStuck)},
      {"a job past its deadline is not restarted for lack of progress", PlanDeadline, PlanRestart,
       Runs().With(kIsStuck).With(kIsLate)},
      {"a suspended job makes no progress", PlanSuspended, PlanRestart,
       Runs().With(kIsStuck).With(kSuspends)},
      {"an attempt has one size", PlanRescaled, PlanRunning, Runs().With(kIsRescaled)},
      {"a job is not suspended any more when it gets pods", PlanResumed, PlanRunning,
       IsSuspended().With(kResumes)},
  };
}

bool Same(const Plan& a, const Plan& b) {
  return a.actions == b.actions && a.status == b.status && a.events == b.events;
}

TEST(MakePlanTest, WhereTwoRulesApplyTheEarlierOneDecidesForAReason) {
  for (Pair& pair : Pairs()) {
    SCOPED_TRACE(pair.reason);
    const Observed& observed = pair.seen.Build();
    const auto first = pair.first(observed), second = pair.second(observed);
    ASSERT_TRUE(first.has_value());
    ASSERT_TRUE(second.has_value());
    const Plan plan = MakePlan(observed);
    const bool is_final = pair.first == PlanForeign || pair.first == PlanDeleted;
    EXPECT_TRUE(Same(plan, is_final ? *first : Finalized(observed, *first)));
    EXPECT_FALSE(Same(plan, Finalized(observed, *second))) << "the order makes no difference";
  }
}

TEST(MakePlanTest, RulesThatCommuteNeverApplyTogether) {
  // A job that was suspended while it ran, and is resumed.
  Seen resumed = Runs().With(kSuspends).Write().With(kResumes);
  ASSERT_TRUE(PlanResumed(resumed.Build()));
  for (const Change& change : {kSecondFails, kIsRescaled}) {
    Seen seen(resumed);
    EXPECT_FALSE(PlanRestart(seen.With(change).Build()));
    EXPECT_FALSE(PlanRescaled(seen.Build()));
  }
  EXPECT_FALSE(PlanDeadline(Runs().With(kSuspends).With(kIsLate).Build()));
  EXPECT_FALSE(PlanInvalid(Runs().With(kFirstIsDone).With(kIsInvalid).Build()));
}

TEST(MakePlanTest, AWrittenStatusIsStable) {
  for (const auto& state : {testing::kPending, kReady, Exited(137), Exited(0)}) {
    Seen seen(Job("j").Workers(2));
    seen.Service().Worker(0, kReady).Worker(1, state).Write().Write();
    const auto status = seen.Build().job.status;
    EXPECT_EQ(seen.Write().Build().job.status, status);
  }
}

}  // namespace
}  // namespace lockstep::controller
