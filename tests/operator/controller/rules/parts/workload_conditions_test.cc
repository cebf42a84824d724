#include "operator/controller/rules/parts/workload_conditions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <variant>

#include "operator/controller/rules/parts/status.h"
#include "tests/operator/controller/queued_job.h"
#include "tests/operator/controller/rules/seen_with_kueue.h"
#include "tests/support/observed_builder.h"

namespace lockstep::controller {
namespace {

using testing::Admitted;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::kReady;
using testing::Queued;
using testing::Seen;
using testing::WithKueue;

const SetWorkloadCondition kFinished{"Finished", true, "Succeeded", "worker-0 has finished"};

TEST(WorkloadConditionsTest, ReadinessAndTheEndAreReportedToKueue) {
  Seen seen = WithKueue(Queued());
  seen.Service().Worker(0, kReady).Worker(1, kReady);
  seen.With([](Observed& observed) { observed.workload = Admitted(observed.job, 2); }).Write();
  EXPECT_THAT(seen.Plan().actions,
              ElementsAre(SetWorkloadCondition{"PodsReady", true, "Started",
                                               "all required replicas are ready"}));
  seen.With([](Observed& observed) {
    observed.workload->pods_ready = true;
    observed.workload->readiness = "Started";
    testing::Exited(0)(observed.pods[0]);
    observed.job.spec.run_policy.clean_pod_policy = api::CleanPodPolicy::kNone;
  });
  EXPECT_THAT(seen.Write().Plan().actions, IsEmpty()) << "worker-1 runs on";
  seen.With([](Observed& observed) { testing::Exited(137)(observed.pods[1]); });
  EXPECT_THAT(seen.Plan().actions, ElementsAre(kFinished));
  seen.With([](Observed& observed) { observed.workload->finished = true; });
  EXPECT_THAT(seen.Plan().actions, IsEmpty());
}

TEST(WorkloadConditionsTest, AReplicaWhoseSidecarStillRunsKeepsItsQuota) {
  Seen seen = WithKueue(Queued(2).Strategy(api::StrategyType::kIndependent));
  seen.With([](Observed& observed) { observed.workload = Admitted(observed.job, 2); });
  seen.Running().Worker(0, kReady).Worker(1, [](ObservedPod& pod) {
    testing::Exited(0)(pod);
    pod.phase = PodPhase::kRunning;
  });
  seen.Write();
  ASSERT_THAT(seen.Build().job.status.completed_indexes, ElementsAre(1));
  const Action told = SetReclaimableWorkers{1};
  EXPECT_EQ(std::ranges::count(seen.Plan().actions, told), 0);
  seen.With([](Observed& observed) { observed.pods[1].phase = PodPhase::kSucceeded; });
  EXPECT_EQ(std::ranges::count(seen.Plan().actions, told), 1);
}

// Kueue's admittedNotReadyWorkload counts time for WaitForStart and WaitForRecovery alone.
TEST(WorkloadConditionsTest, ReadinessHasTheReasonsThatKueueTimesOut) {
  struct Case {
    bool is_running, admitted, was_ready;
    std::string was;
    std::string now;  // empty: nothing is written
  };
  const Case cases[] = {
      {false, true, false, "", ""},  // to Kueue the same as WaitForStart
      {false, true, false, "WaitForStart", ""},
      {true, true, false, "", "Started"},
      {true, true, false, "WaitForStart", "Started"},
      {true, true, true, "Started", ""},
      {false, true, true, "Started", "WaitForRecovery"},
      {false, true, false, "WaitForRecovery", ""},
      {true, true, false, "WaitForRecovery", "Recovered"},
      {true, true, true, "Recovered", ""},
      {false, true, true, "Recovered", "WaitForRecovery"},
      // Written by an operator that knew no reasons of Kueue's.
      {true, true, true, "PodsReady", "Started"},
      {false, true, true, "PodsReady", "WaitForRecovery"},
      {false, true, false, "PodsNotReady", "WaitForStart"},
      // Kueue has taken the admission back.
      {false, false, false, "", ""},
      {false, false, true, "Started", "WaitForStart"},
      {false, false, false, "WaitForRecovery", "WaitForStart"},
  };
  for (const Case& test : cases) {
    Seen seen = WithKueue(test.admitted ? Queued() : Queued().Suspended());
    if (test.admitted) seen.Service().Worker(0, kReady).Worker(1, kReady);
    seen.With([](Observed& observed) { observed.workload = Admitted(observed.job, 2); }).Write();
    if (!test.is_running && test.admitted)
      seen.With([](Observed& observed) {
        observed.pods[1].ready = false;
        SetCondition(observed, observed.job.status, kRunning, false, "R", "");
      });
    seen.With([&test](Observed& observed) {
      observed.workload->reserved = observed.workload->admitted = test.admitted;
      observed.workload->pods_ready = test.was_ready;
      observed.workload->readiness = test.was;
    });
    std::string told;
    for (const Action& action : seen.Plan().actions) {
      const auto* tell = std::get_if<SetWorkloadCondition>(&action);
      if (tell == nullptr) continue;
      told = tell->reason;
      EXPECT_EQ(tell->type, "PodsReady");
      EXPECT_EQ(tell->value, tell->reason == "Started" || tell->reason == "Recovered");
    }
    EXPECT_EQ(told, test.now) << test.is_running << test.admitted << test.was_ready << test.was;
  }
}

// A job that has succeeded and keeps its quota, with both pods.
Seen WithQuotaAfterTheEnd(api::CleanPodPolicy policy) {
  Seen seen = WithKueue(Queued().CleanPodPolicy(policy));
  seen.Service().Worker(0, kReady).Worker(1, kReady);
  seen.With([](Observed& observed) { observed.workload = Admitted(observed.job, 2); }).Write();
  seen.With([](Observed& observed) { testing::Exited(0)(observed.pods[0]); }).Write();
  return seen;
}

TEST(WorkloadConditionsTest, AnEndedJobKeepsItsQuotaUntilItsPodsAreGone) {
  Seen seen = WithQuotaAfterTheEnd(api::CleanPodPolicy::kRunning);
  EXPECT_THAT(seen.Plan().actions, ElementsAre(DeletePod{"j-worker-1", "j-worker-1-uid"}));
  seen.With([](Observed& observed) { observed.pods[1].being_deleted = true; });
  EXPECT_THAT(seen.Plan().actions, IsEmpty()) << "within its grace period";
  seen.With([](Observed& observed) { observed.pods.pop_back(); });
  EXPECT_THAT(seen.Plan().actions, ElementsAre(kFinished));
}

TEST(WorkloadConditionsTest, ASidecarKeepsTheQuotaOfAnEndedJob) {
  Seen seen = WithQuotaAfterTheEnd(api::CleanPodPolicy::kNone);
  seen.With([](Observed& observed) {
    testing::Exited(0)(observed.pods[1]);
    observed.pods[1].phase = PodPhase::kRunning;
  });
  EXPECT_THAT(seen.Plan().actions, IsEmpty());
  seen.With([](Observed& observed) { observed.pods[1].phase = PodPhase::kSucceeded; });
  EXPECT_THAT(seen.Plan().actions, ElementsAre(kFinished));
}

TEST(WorkloadConditionsTest, AnEvictedJobThatHasEndedLosesThePodsThatStillRun) {
  Seen seen = WithQuotaAfterTheEnd(api::CleanPodPolicy::kNone);
  seen.With([](Observed& observed) { observed.workload->evicted = true; });
  EXPECT_THAT(seen.Plan().actions, ElementsAre(DeletePod{"j-worker-1", "j-worker-1-uid"}));
  seen.With([](Observed& observed) { observed.pods.pop_back(); });
  EXPECT_THAT(seen.Plan().actions, ElementsAre(kFinished)) << "the other one's log is kept";
}

}  // namespace
}  // namespace lockstep::controller
