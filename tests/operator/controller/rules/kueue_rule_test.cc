#include "operator/controller/rules/kueue_rule.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "api/v1/names.h"
#include "base/digest.h"
#include "operator/controller/children/kueue.h"
#include "operator/controller/rules/parts/status.h"
#include "tests/operator/controller/queued_job.h"
#include "tests/operator/controller/rules/seen_with_kueue.h"
#include "tests/support/observed_builder.h"

namespace lockstep::controller {
namespace {

using api::Json;
using api::Role;
using testing::Admitted;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::Job;
using testing::kKueue;
using testing::kReady;
using testing::Queued;
using testing::Seen;
using ::testing::SizeIs;
using ::testing::StartsWith;
using testing::Waiting;
using testing::WithKueue;

TEST(KueueRuleTest, ANewJobIsSuspendedThenAsksThenWaits) {
  Seen seen = WithKueue(Queued());
  EXPECT_THAT(seen.Plan().actions, ElementsAre(SetSuspend{true, {}}));
  seen.With([](Observed& observed) { observed.job.spec.suspend = true; }).Write();
  EXPECT_THAT(seen.Plan().actions, ElementsAre(CreateWorkload{}));
  seen.With([](Observed& observed) { observed.workload = Waiting(observed.job); });
  EXPECT_THAT(seen.Plan().actions, IsEmpty());
  seen.With([](Observed& observed) { observed.workload = Admitted(observed.job, 2); });
  EXPECT_THAT(seen.Plan().actions,
              ElementsAre(SetSuspend{false, {}, "queue research has admitted the job"}));
}

TEST(KueueRuleTest, JobsWithoutAQueueAndOperatorsWithoutKueueAreUnaffected) {
  EXPECT_THAT(WithKueue(Job("j").Workers(1)).Service().Plan().actions,
              ElementsAre(CreatePod{Role::kWorker, 0, 0}));
  EXPECT_THAT(Seen(Queued(1)).Service().Plan().actions,
              ElementsAre(CreatePod{Role::kWorker, 0, 0}));
}

TEST(KueueRuleTest, AnElasticJobMayGetFewerWorkersAndGetsThemBackWhenItIsEvicted) {
  const auto elastic = [](api::TrainingJob& job) { job.spec.elastic = api::ElasticSpec{1, 4}; };
  Seen seen = WithKueue(Queued(4).Suspended().With(elastic));
  seen.Write().With([](Observed& observed) { observed.workload = Admitted(observed.job, 2); });
  EXPECT_THAT(
      seen.Plan().actions,
      ElementsAre(SetSuspend{false, {{Role::kWorker, 2}}, "queue research has admitted the job"}));
  seen.With([](Observed& observed) {
    observed.job.spec.suspend = false;
    observed.job.spec.replica_specs[Role::kWorker].replicas = 2;
    observed.workload->evicted = true;
    observed.workload->eviction = "Preempted: by another";
  });
  EXPECT_THAT(seen.Plan().actions,
              ElementsAre(SetSuspend{
                  true, {{Role::kWorker, 4}}, "Kueue stops the job: Preempted: by another"}));
}

// Its maximum may be lowered while it runs with fewer workers than it has asked for.
TEST(KueueRuleTest, AnEvictedElasticJobAsksForNoMoreThanItsMaximum) {
  for (const auto& [maximum, asked] : {std::pair(8, 8), std::pair(6, 6), std::pair(4, 0)}) {
    Seen seen = WithKueue(
        Queued(8).With([](api::TrainingJob& job) { job.spec.elastic = api::ElasticSpec{1, 8}; }));
    seen.With([most = maximum](Observed& observed) {
      observed.workload = Admitted(observed.job, 4);
      observed.workload->evicted = true;
      observed.workload->eviction = "Preempted: by another";
      observed.job.spec.replica_specs[Role::kWorker].replicas = 4;
      observed.job.spec.elastic->max_replicas = most;
    });
    std::map<Role, int> counts;
    if (asked > 0) counts[Role::kWorker] = asked;
    EXPECT_THAT(seen.Plan().actions,
                ElementsAre(SetSuspend{true, counts, "Kueue stops the job: Preempted: by another"}))
        << maximum;
  }
}

TEST(KueueRuleTest, AnElasticJobThatWasScaledDownStaysSmallWhenItIsEvicted) {
  const auto elastic = [](api::TrainingJob& job) { job.spec.elastic = api::ElasticSpec{1, 4}; };
  for (const int granted : {4, 3}) {
    Seen seen = WithKueue(Queued(4).With(elastic));
    seen.With([granted](Observed& observed) {
      observed.workload = Admitted(observed.job, granted);
      observed.workload->evicted = true;
      observed.workload->eviction = "Preempted: by another";
      observed.job.spec.replica_specs[Role::kWorker].replicas = 2;
    });
    EXPECT_THAT(seen.Plan().actions,
                ElementsAre(SetSuspend{true, {}, "Kueue stops the job: Preempted: by another"}))
        << granted;
  }
}

// A job that requested four workers, got two, and was suspended by its user.
Seen SuspendedWithTwoOfFour() {
  const auto elastic = [](api::TrainingJob& job) { job.spec.elastic = api::ElasticSpec{1, 4}; };
  Seen seen = WithKueue(Queued(4).With(elastic));
  seen.With([](Observed& observed) {
    observed.workload = Admitted(observed.job, 2);
    observed.job.spec.replica_specs[Role::kWorker].replicas = 2;
    observed.job.spec.suspend = true;
  });
  return seen.Write();
}

TEST(KueueRuleTest, AJobThatRanWithFewerWorkersIsResumedOnItsGrant) {
  Seen seen = SuspendedWithTwoOfFour();
  EXPECT_THAT(seen.Plan().actions,
              ElementsAre(SetSuspend{false, {}, "queue research has admitted the job"}));
  seen.With(
      [](Observed& observed) { observed.job.spec.replica_specs[Role::kWorker].replicas = 3; });
  EXPECT_THAT(seen.Plan().actions, ElementsAre(DeleteWorkload{})) << "it asks for three";
}

TEST(KueueRuleTest, AJobThatItsUserSuspendsGetsTheWorkersBackThatItAskedForWhenItLosesItsGrant) {
  using Change = void (*)(Observed&);
  const std::pair<Change, Action> cases[] = {
      {[](Observed& observed) { observed.workload->evicted = true; }, ReleaseWorkload{}},
      {[](Observed& observed) {
         observed.job.spec.replica_specs[Role::kWorker].tmpl = testing::Template("other");
       },
       DeleteWorkload{}},
      {[](Observed& observed) {  // an admission check that is repeated
         observed.workload->admitted = false;
         observed.workload->evicted = true;
       },
       ReleaseWorkload{}},
  };
  for (const auto& [change, then] : cases) {
    Seen seen = SuspendedWithTwoOfFour().With(change);
    EXPECT_THAT(seen.Plan().actions, ElementsAre(SetSuspend{true, {{Role::kWorker, 4}}}));
    Seen refused = Seen(seen).With([](Observed& o) { o.is_suspend_failing = true; });
    EXPECT_THAT(refused.Plan().actions,
                ::testing::Not(ElementsAre(SetSuspend{true, {{Role::kWorker, 4}}})));
    seen.With([](Observed& observed) {
      observed.job.spec.replica_specs[Role::kWorker].replicas = 4;
      ++observed.job.metadata.generation;
    });
    EXPECT_THAT(seen.Plan().actions, ElementsAre(then));
  }
}

TEST(KueueRuleTest, AWaitingJobThatIsMadeSmallerStaysSmallerAlthoughTheEditResumesIt) {
  const auto elastic = [](api::TrainingJob& job) { job.spec.elastic = api::ElasticSpec{1, 8}; };
  for (const bool was_evicted : {false, true}) {
    Seen seen = WithKueue(Queued(8).Suspended().With(elastic));
    seen.With([was_evicted](Observed& observed) {
      observed.workload = Waiting(observed.job);
      observed.workload->evicted = was_evicted;  // and released
    });
    seen.Write().With([](Observed& observed) {
      ++observed.job.metadata.generation;
      observed.job.spec.suspend = false;
      observed.job.spec.replica_specs[Role::kWorker].replicas = 4;
    });
    EXPECT_THAT(seen.Plan().actions,
                ElementsAre(SetSuspend{true, {}, "Kueue stops the job: it has no admission"}))
        << was_evicted;
  }
}

// Kueue says so a moment before it evicts the Workload.
TEST(KueueRuleTest, AJobWhoseAdmissionIsTakenBackAsksForAllOfItsWorkers) {
  const auto elastic = [](api::TrainingJob& job) { job.spec.elastic = api::ElasticSpec{1, 4}; };
  Seen seen = WithKueue(Queued(4).With(elastic));
  seen.With([](Observed& observed) {
    observed.workload = Admitted(observed.job, 2);
    observed.job.spec.replica_specs[Role::kWorker].replicas = 2;
  });
  seen.Write().With([](Observed& observed) { observed.workload->admitted = false; });
  EXPECT_THAT(seen.Plan().actions,
              ElementsAre(SetSuspend{
                  true, {{Role::kWorker, 4}}, "Kueue stops the job: it has no admission"}));
}

TEST(KueueRuleTest, AJobRunsOnIfTheServerRefusesToWriteItsGrantedNumberAgain) {
  const auto elastic = [](api::TrainingJob& job) { job.spec.elastic = api::ElasticSpec{1, 8}; };
  Seen seen = WithKueue(Queued(4).With(elastic));
  seen.Write().With([](Observed& observed) {
    observed.workload = Admitted(observed.job, 2);
    observed.is_suspend_refused = true;  // for an earlier reason
  });
  EXPECT_THAT(seen.Plan().actions, ElementsAre(SetSuspend{false, {{Role::kWorker, 2}}}));
  EXPECT_FALSE(IsStoppedByKueue(seen.Build()));
}

TEST(KueueRuleTest, AnEvictedJobGivesItsQuotaBackOnlyWhenItsPodsAreGone) {
  Seen seen = WithKueue(Queued().Suspended());
  seen.Write().Worker(0, testing::kBeingDeleted);
  seen.With([](Observed& observed) {
    observed.workload = Admitted(observed.job, 2);
    observed.workload->evicted = true;
  });
  EXPECT_THAT(seen.Plan().actions, IsEmpty());
  EXPECT_THAT(seen.NoPods().Plan().actions, ElementsAre(ReleaseWorkload{}));
  seen.With([](Observed& observed) {
    observed.workload->reserved = observed.workload->admitted = false;
  });
  EXPECT_THAT(seen.Plan().actions, IsEmpty());
}

TEST(KueueRuleTest, AJobThatHasOutgrownItsGrantAsksAgain) {
  const auto elastic = [](api::TrainingJob& job) { job.spec.elastic = api::ElasticSpec{1, 8}; };
  Seen seen = WithKueue(Queued(4).With(elastic));
  seen.With([](Observed& observed) {
    observed.workload = Admitted(observed.job, 2);
    observed.workload->counts[Role::kWorker] = 3;
  });
  EXPECT_THAT(seen.Plan().actions, ElementsAre(SetSuspend{true, {}}));
  Seen edited = WithKueue(Queued(4).Suspended());
  edited.Write().With([](Observed& observed) {
    observed.workload = Admitted(observed.job, 2);
    observed.workload->counts[Role::kWorker] = 3;
  });
  EXPECT_THAT(edited.Plan().actions, ElementsAre(DeleteWorkload{}));
}

TEST(KueueRuleTest, AJobRunsOnIfItOnlyRepeatsTheCountThatItAskedFor) {
  const auto elastic = [](api::TrainingJob& job) { job.spec.elastic = api::ElasticSpec{1, 8}; };
  Seen seen = WithKueue(Queued(4).With(elastic));
  seen.With([](Observed& observed) { observed.workload = Admitted(observed.job, 2); });
  EXPECT_THAT(seen.Plan().actions, ElementsAre(SetSuspend{false, {{Role::kWorker, 2}}}));
  EXPECT_THAT(seen.With([](Observed& observed) {
                    api::Json other = testing::Template("other");
                    observed.job.spec.replica_specs[Role::kWorker].tmpl = other;
                  })
                  .Plan()
                  .actions,
              ElementsAre(SetSuspend{true, {}}))
      << "other pods were not granted";
}

// The job has changed since its Workload was made, in what the Workload does not show.
TEST(KueueRuleTest, AJobDoesNotStartOnLessThanItNeedsAndAsksAgain) {
  for (const bool is_elastic : {false, true}) {
    Seen seen = WithKueue(Queued(4).Suspended().With([is_elastic](api::TrainingJob& job) {
      if (is_elastic) job.spec.elastic = api::ElasticSpec{3, 8};
    }));
    seen.Write().With([](Observed& observed) { observed.workload = Admitted(observed.job, 2); });
    EXPECT_THAT(seen.Plan().actions, ElementsAre(DeleteWorkload{})) << is_elastic;
  }
}

TEST(KueueRuleTest, AGrantIsForThePodsThatWereAskedFor) {
  const auto grow = [](Observed& observed) {
    api::Json larger = testing::Template();
    larger["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] = 8;
    observed.job.spec.replica_specs[Role::kWorker].tmpl = larger;
  };
  Seen seen = WithKueue(Queued());
  seen.Service().With([](Observed& observed) { observed.workload = Admitted(observed.job, 2); });
  EXPECT_THAT(seen.Plan().actions, SizeIs(2)) << "its pods";
  EXPECT_THAT(Seen(seen).With(grow).Plan().actions, ElementsAre(SetSuspend{true, {}}));
  Seen with_chief(seen);
  with_chief.With([](Observed& observed) {
    observed.job.spec.replica_specs[Role::kChief].replicas = 1;
    observed.workload->templates = TemplatesHash(observed.job);
  });
  EXPECT_THAT(with_chief.Plan().actions, ElementsAre(SetSuspend{true, {}}));
}

// For a Workload that an older operator created, or somebody else with the job's uid, the pod sets
// decide.
TEST(KueueRuleTest, AGrantWithoutAHashOfThisSchemeIsForThePodsThatItCounts) {
  for (const char* templates : {"", "0589b244b3772049"}) {
    Seen seen = WithKueue(Queued());
    seen.Service().With([&](Observed& observed) {
      kube::Object made = BuildWorkload(observed.job, kKueue, std::nullopt);
      made["metadata"]["annotations"][api::kAnnotationTemplates] = templates;
      made["status"] = testing::AdmittedStatus(2);
      observed.workload = ReadWorkload(made);
    });
    EXPECT_THAT(seen.Plan().actions, SizeIs(2)) << "its pods";
    seen.With([](Observed& observed) {
      api::Json larger = testing::Template();
      larger["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] = 8;
      observed.job.spec.replica_specs[Role::kWorker].tmpl = larger;
    });
    EXPECT_THAT(seen.Plan().actions, ElementsAre(SetSuspend{true, {}})) << templates;
  }
}

// Both have the hash by FNV-1a that older operators stored.
Json Colliding(const char* gpus, const char* working_dir) {
  return {{"spec",
           {{"containers",
             {{{"image", "x"},
               {"name", "main"},
               {"resources", {{"limits", {{"nvidia.com/gpu", gpus}}}}},
               {"workingDir", working_dir}}}}}}};
}

TEST(KueueRuleTest, NoHashIsTakenForThatOfOtherPods) {
  const Json none = Colliding("0", "/xd]kzoikMlN"), eight = Colliding("8", "/CFPyAM~JgQD");
  const auto stored_before = [](const Json& tmpl) {
    return fmt::format("{:016x}", Digest("\n", Digest(tmpl.dump(), Digest("worker="))));
  };
  ASSERT_EQ(stored_before(none), stored_before(eight));
  const auto of = [](const Json& tmpl) { return Queued().PodTemplate(Role::kWorker, tmpl); };
  kube::Object made = BuildWorkload(of(none).BuildWithDefaults(), kKueue, std::nullopt);
  made["status"] = testing::AdmittedStatus(2);
  const std::string present = made["metadata"]["annotations"][api::kAnnotationTemplates];
  for (const std::string& templates : {present, stored_before(none), std::string()}) {
    made["metadata"]["annotations"][api::kAnnotationTemplates] = templates;
    const auto is_admitted = [&](Observed& observed) { observed.workload = ReadWorkload(made); };
    Seen runs = WithKueue(of(eight)).With(is_admitted);
    EXPECT_THAT(runs.Service().Plan().actions, ElementsAre(SetSuspend{true, {}})) << templates;
    Seen waits = WithKueue(of(eight).Suspended()).With(is_admitted);
    EXPECT_THAT(waits.Write().Plan().actions, ElementsAre(DeleteWorkload{})) << templates;
    Seen asked = WithKueue(of(none).Suspended()).With(is_admitted);
    EXPECT_THAT(asked.Write().Plan().actions,
                ElementsAre(SetSuspend{false, {}, "queue research has admitted the job"}));
  }
}

TEST(KueueRuleTest, AnotherQueuePriorityOrLimitMakesAnotherWorkload) {
  const auto edit = [](const auto& change) {
    Seen seen = WithKueue(Queued().Suspended());
    seen.Write().With([](Observed& observed) { observed.workload = Waiting(observed.job); });
    EXPECT_THAT(seen.Plan().actions, IsEmpty());
    return seen.With(change).Plan().actions;
  };
  EXPECT_THAT(edit([](Observed& observed) {
                observed.job.metadata.labels["kueue.x-k8s.io/queue-name"] = "other";
              }),
              ElementsAre(DeleteWorkload{}));
  EXPECT_THAT(edit([](Observed& observed) {
                observed.job.metadata.labels["kueue.x-k8s.io/priority-class"] = "urgent";
              }),
              ElementsAre(DeleteWorkload{}));
  EXPECT_THAT(edit([](Observed& observed) {
                observed.job.metadata.labels["kueue.x-k8s.io/max-exec-time-seconds"] = "60";
              }),
              ElementsAre(DeleteWorkload{}));
}

// The job may have been deactivated: a new Workload would run it again.
TEST(KueueRuleTest, AnOlderOperatorsWorkloadStaysWithoutTheJobsLimit) {
  Seen seen = WithKueue(Queued().Suspended());
  seen.Write().With([](Observed& observed) {
    observed.job.metadata.labels["kueue.x-k8s.io/max-exec-time-seconds"] = "3600";
    observed.workload = Waiting(observed.job);
    observed.workload->max_execution_time = std::nullopt;
  });
  EXPECT_THAT(seen.Plan().actions, IsEmpty());
  seen.With([](Observed& observed) { observed.workload->max_execution_time = ""; });
  EXPECT_THAT(seen.Plan().actions, ElementsAre(DeleteWorkload{}));
}

TEST(KueueRuleTest, QuotaThatIsReservedForMoreThanTheMinimumIsKept) {
  const auto elastic = [](api::TrainingJob& job) { job.spec.elastic = api::ElasticSpec{1, 4}; };
  Seen seen = WithKueue(Queued(4).Suspended().With(elastic));
  seen.Write().With([](Observed& observed) {
    observed.workload = Waiting(observed.job);
    observed.workload->min_workers = 2;
  });
  EXPECT_THAT(seen.Plan().actions, ElementsAre(DeleteWorkload{}));
  seen.With([](Observed& observed) { observed.workload->reserved = true; });
  EXPECT_THAT(seen.Plan().actions, IsEmpty()) << "Kueue's checks are under way";
  seen.With([](Observed& observed) {
    observed.workload = Admitted(observed.job, 2);
    observed.workload->min_workers = 2;
  });
  EXPECT_THAT(
      seen.Plan().actions,
      ElementsAre(SetSuspend{false, {{Role::kWorker, 2}}, "queue research has admitted the job"}));
}

TEST(KueueRuleTest, QuotaOfReplicasThatHaveTrainedAloneIsGivenBack) {
  for (const bool alone : {true, false}) {
    auto job = Queued(3);
    if (alone) job.Strategy(api::StrategyType::kIndependent);
    Seen seen = WithKueue(job).With(
        [](Observed& observed) { observed.workload = Admitted(observed.job, 3); });
    seen.Running().Worker(0, kReady).Worker(1, testing::Exited(0)).Worker(2, kReady).Write();
    const Action told = SetReclaimableWorkers{1};
    EXPECT_EQ(std::ranges::count(seen.Plan().actions, told), alone ? 1 : 0);
    seen.With([](Observed& observed) { observed.workload->reclaimable_workers = 1; });
    if (!alone) continue;
    EXPECT_EQ(std::ranges::count(seen.Plan().actions, told), 0) << "Kueue knows it";
    Seen scaled(seen);
    scaled.With(
        [](Observed& observed) { observed.job.spec.replica_specs[Role::kWorker].replicas = 1; });
    EXPECT_EQ(std::ranges::count(scaled.Plan().actions, Action(SetSuspend{true, {}})), 0)
        << "the quota that is left covers it";
    seen.With([](Observed& observed) { observed.job.status.completed_indexes.clear(); });
    EXPECT_THAT(seen.Plan().actions, ElementsAre(SetSuspend{true, {}}))
        << "one that trains again has no quota";
    seen.With([](Observed& observed) { observed.job.spec.suspend = true; }).Write().NoPods();
    seen.Write().With([](Observed& observed) { observed.job.status.completed_indexes.clear(); });
    EXPECT_THAT(seen.Plan().actions, ElementsAre(DeleteWorkload{})) << "and asks anew";
  }
}

}  // namespace
}  // namespace lockstep::controller
