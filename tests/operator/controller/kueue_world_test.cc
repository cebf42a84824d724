#include "operator/controller/kueue_calls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/v1/names.h"
#include "operator/controller/children/kueue.h"
#include "operator/controller/rules/parts/status.h"
#include "operator/kube/rest/object_json.h"
#include "tests/operator/controller/queued_job.h"
#include "tests/operator/controller/world.h"

namespace lockstep::controller {
namespace {

using api::Json;
using api::Role;
using testing::AdmittedStatus;
using testing::Conditions;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::kKueue;
using testing::Queued;
using ::testing::SizeIs;
using ::testing::StartsWith;
using testing::World;

// Kueue's part in the tests below.
void SetWorkloadStatus(World& world, const Json& status) {
  world.client.Modify(kWorkloadKind, {"default", "trainingjob-j"},
                      [&status](kube::Object& workload) { workload["status"] = status; });
  world.Settle();
}
Json WorkloadStatus(World& world) {
  return world.client.Get(kWorkloadKind, {"default", "trainingjob-j"})->value("status", Json());
}

void CreateFlavor(World& world, const std::string& name) {
  world.client.Add(kFlavorKind,
                   {{"metadata", {{"name", name}}}, {"spec", {{"nodeLabels", {{"kind", name}}}}}});
}

// The flavor may be deleted, or the right to read it taken away, while the job runs.
TEST(KueueWorldTest, AdmittedEvictedAdmittedElsewhereAndFinished) {
  World world(Queued().Build(), kKueue);
  for (const char* flavor : {"gpu", "cpu"}) CreateFlavor(world, flavor);
  world.Settle();
  EXPECT_TRUE(world.Job()->spec.suspend);
  EXPECT_THAT(world.Pods(), IsEmpty());
  EXPECT_THAT(world.client.Objects(kWorkloadKind), SizeIs(1));

  SetWorkloadStatus(world, AdmittedStatus(2));
  EXPECT_FALSE(world.Job()->spec.suspend);
  ASSERT_THAT(world.Pods(), SizeIs(2));
  EXPECT_EQ(world.Pods()[0].at("spec").at("nodeSelector").at("kind"), "gpu");
  world.SetPod("j-worker-0", "Running");
  world.SetPod("j-worker-1", "Running");
  world.Settle();
  EXPECT_TRUE(ReadWorkload({{"status", WorkloadStatus(world)}}).pods_ready);
  world.SetPod("j-worker-1", "Failed", 137);  // a restart before the eviction
  world.Settle();

  Json evicted = AdmittedStatus(2);
  evicted["conditions"] =
      Conditions({{"QuotaReserved", true}, {"Admitted", true}, {"Evicted", true}});
  SetWorkloadStatus(world, evicted);
  EXPECT_TRUE(world.Job()->spec.suspend);
  EXPECT_THAT(world.Pods(), IsEmpty());
  EXPECT_FALSE(WorkloadStatus(world).contains("admission"));

  // Somebody changes a template while the job waits; Kueue then grants another flavor.
  world.client.Modify(kTrainingJobKind, world.key, [](kube::Object& job) {
    job["spec"]["replicaSpecs"]["Worker"]["template"]["spec"]["nodeSelector"] = {{"zone", "b"}};
  });
  world.Settle();
  Json elsewhere = AdmittedStatus(2);
  elsewhere["admission"]["podSetAssignments"][0]["flavors"]["cpu"] = "cpu";
  SetWorkloadStatus(world, elsewhere);
  ASSERT_THAT(world.Pods(), SizeIs(2));
  EXPECT_EQ(world.Pods()[0].at("spec").at("nodeSelector"), (Json{{"kind", "cpu"}, {"zone", "b"}}));
  EXPECT_EQ(world.Job()->status.restarts.application, 1) << "what was counted is kept";
  EXPECT_FALSE(world.Job()->spec.replica_specs.at(Role::kWorker).tmpl->dump().find("cpu") !=
               std::string::npos)
      << "nothing of Kueue's stays in the spec";

  world.SetPod("j-worker-0", "Running");
  world.SetPod("j-worker-1", "Running");
  world.Settle();
  world.SetPod("j-worker-0", "Succeeded");
  world.Settle();
  EXPECT_EQ(world.Job()->status.state, "Succeeded");
  EXPECT_TRUE(ReadWorkload({{"status", WorkloadStatus(world)}}).finished);
  EXPECT_THAT(world.EventReasons(),
              ElementsAre("Admitted", "Admitted", "Evicted", "Restarting", "Resumed", "Resumed",
                          "Running", "Running", "Succeeded", "Suspended", "Suspended"));
}

// As Kueue changes conditions: those of others stay.
void SetWorkloadConditions(World& world, const std::map<std::string, bool>& conditions) {
  world.client.Modify(kWorkloadKind, {"default", "trainingjob-j"}, [&](kube::Object& workload) {
    workload["status"]["admission"] = AdmittedStatus(2).at("admission");
    for (const auto& [type, holds] : conditions) {
      const char* reason = type == "Evicted" ? "PodsReadyTimeout" : "Tested";
      workload = WithWorkloadCondition(workload, type, holds, reason, "", world.clock.Now());
    }
  });
  world.Settle();
}

// Kueue (waitForPodsReady) times out a start and a recovery, each time that the job is admitted.
// Kueue's time limit for the recovery counts from PodsReady False.
TEST(KueueWorldTest, AJobThatLosesAReplicaIsNotReadyUntilItIsReplaced) {
  World world(Queued().Training().Build(), kKueue);  // only the replica restarts, not the gang
  CreateFlavor(world, "gpu");
  world.Settle();
  SetWorkloadStatus(world, AdmittedStatus(2));
  const auto is_ready = [&world] {
    world.Settle();
    return ReadWorkload({{"status", WorkloadStatus(world)}}).pods_ready;
  };
  for (const char* pod : {"j-worker-0", "j-worker-1"}) world.SetPod(pod, "Running");
  EXPECT_TRUE(is_ready());
  world.SetPod("j-worker-1", "Failed", 137);
  world.Settle();
  world.clock.Advance(std::chrono::minutes(1));
  EXPECT_FALSE(is_ready());
  EXPECT_EQ(world.Job()->status.state, "Running");
  world.SetPod("j-worker-1", "Running");
  EXPECT_TRUE(is_ready());
}

TEST(KueueWorldTest, ReadinessBeginsAnewWithEachAdmission) {
  World world(Queued().Build(), kKueue);
  CreateFlavor(world, "gpu");
  world.Settle();
  const auto readiness = [&world] {
    return ReadWorkload({{"status", WorkloadStatus(world)}}).readiness;
  };
  const auto run = [&world] {
    world.SetPod("j-worker-0", "Running");
    world.SetPod("j-worker-1", "Running");
    world.Settle();
  };
  for (int admission = 0; admission < 2; ++admission) {
    SetWorkloadConditions(world, {{"Evicted", false}, {"QuotaReserved", true}, {"Admitted", true}});
    EXPECT_EQ(readiness(), admission == 0 ? "" : "WaitForStart");
    run();
    EXPECT_EQ(readiness(), "Started");
    world.SetPod("j-worker-1", "Failed", 137);
    world.Settle();
    EXPECT_EQ(readiness(), "WaitForRecovery");
    world.clock.Advance(std::chrono::minutes(1));  // its next try is due
    world.Settle();
    run();
    EXPECT_EQ(readiness(), "Recovered");
    SetWorkloadConditions(world, {{"Evicted", true}});
    EXPECT_THAT(world.Pods(), IsEmpty());
    EXPECT_FALSE(ReadWorkload({{"status", WorkloadStatus(world)}}).pods_ready);
    EXPECT_EQ(readiness(), "WaitForStart");
  }
}

std::string WorkloadUid(World& world) {
  return kube::Uid(*world.client.Get(kWorkloadKind, {"default", "trainingjob-j"}));
}

// A new Workload waits behind all that were there.
TEST(KueueWorldTest, AWaitingJobKeepsItsPlaceWhenTheOperatorIsUpgraded) {
  World world(Queued().Training().Build(), kKueue);
  world.Settle();
  const std::string uid = WorkloadUid(world);
  for (const char* templates : {"8e2ed4425d0ebd44", ""}) {
    // What the first operators wrote for this job, and those before them.
    world.client.Modify(kWorkloadKind, {"default", "trainingjob-j"}, [&](kube::Object& workload) {
      workload["metadata"]["annotations"] = {
          {api::kAnnotationSpecHash, "worker=2/70c1ad2bbdd9fe3a"}};
      if (*templates != '\0') {
        workload["metadata"]["annotations"][api::kAnnotationTemplates] = templates;
      }
    });
    world.RestartOperator();
    world.Settle();
    EXPECT_EQ(WorkloadUid(world), uid) << templates;
  }
}

TEST(KueueWorldTest, AWaitingJobKeepsItsPlaceUnlessAnEditChangesWhatItAsksFor) {
  World world(Queued().Training().Build(), kKueue);
  world.Settle();
  const auto is_replaced_by = [&world](const std::function<void(Json & spec)>& edit) {
    const std::string before = WorkloadUid(world);
    world.client.Modify(kTrainingJobKind, world.key,
                        [&edit](kube::Object& job) { edit(job["spec"]); });
    world.Settle();
    return WorkloadUid(world) != before;
  };
  EXPECT_FALSE(is_replaced_by([](Json& spec) { spec["training"]["epochs"] = 7; }));
  EXPECT_TRUE(is_replaced_by([](Json& spec) { spec["replicaSpecs"]["Worker"]["replicas"] = 3; }));
  EXPECT_TRUE(is_replaced_by([](Json& spec) {
    spec["replicaSpecs"]["Worker"]["template"] = testing::Template("trainer");
  }));
  const auto bounds = [](int min, int max) {
    return [min, max](Json& spec) {
      spec["elastic"] = {{"minReplicas", min}, {"maxReplicas", max}};
      spec["training"]["checkpoint"]["directory"] = "/checkpoints";
    };
  };
  EXPECT_TRUE(is_replaced_by(bounds(3, 4)));
  EXPECT_FALSE(is_replaced_by(bounds(3, 8))) << "Kueue is not told the maximum";
  EXPECT_TRUE(is_replaced_by(bounds(2, 8)));
  EXPECT_EQ(world.client.Get(kWorkloadKind, {"default", "trainingjob-j"})
                ->at("spec")
                .at("podSets")[0]
                .at("minCount"),
            2);
  EXPECT_TRUE(is_replaced_by([](Json& spec) { spec.erase("elastic"); }));
}

// Kueue drops it where partial admission is disabled, and an older operator has noted none.
TEST(KueueWorldTest, AWaitingJobKeepsItsPlaceWhetherOrNotItsWorkloadHasAMinimum) {
  World world(Queued(4).With([](api::TrainingJob& job) { job.spec.elastic = {2, 4}; }).Build(),
              kKueue);
  world.Settle();
  const std::string uid = WorkloadUid(world);
  const auto change = [&world](const std::function<void(kube::Object&)>& edit) {
    world.client.Modify(kWorkloadKind, {"default", "trainingjob-j"}, edit);
    world.Settle();
    return WorkloadUid(world);
  };
  const auto forget = [](kube::Object& workload) {
    workload["metadata"]["annotations"].erase(api::kAnnotationMinWorkers);
  };
  const auto drop = [](kube::Object& workload) {
    workload["spec"]["podSets"][0].erase("minCount");
  };
  EXPECT_EQ(change(forget), uid);
  EXPECT_EQ(change(drop), uid) << "neither";
  EXPECT_EQ(change([](kube::Object& workload) {
              workload["metadata"]["annotations"][api::kAnnotationMinWorkers] = "2";
            }),
            uid)
      << "it was asked for";
}

TEST(KueueWorldTest, ARunningJobKeepsItsQuotaWhenItsMinimumIsEdited) {
  World world(Queued(4).With([](api::TrainingJob& job) { job.spec.elastic = {2, 4}; }).Build(),
              kKueue);
  CreateFlavor(world, "gpu");
  world.Settle();
  SetWorkloadStatus(world, AdmittedStatus(4));
  const std::string workload = WorkloadUid(world);
  for (const int min : {1, 4}) {
    world.client.Modify(kTrainingJobKind, world.key,
                        [min](kube::Object& job) { job["spec"]["elastic"]["minReplicas"] = min; });
    world.Settle();
    EXPECT_EQ(WorkloadUid(world), workload);
    EXPECT_THAT(world.Pods(), SizeIs(4));
  }
}

// Whoever may create Workloads may name the job as the owner, and copy what the operator writes.
TEST(KueueWorldTest, TheJobsWorkloadIsTheOneOfItsName) {
  World world(Queued().Build(), kKueue);
  CreateFlavor(world, "gpu");
  world.Settle();
  kube::Object other = *world.client.Get(kWorkloadKind, {"default", "trainingjob-j"});
  other["metadata"]["name"] = "a";
  for (const char* member : {"uid", "resourceVersion"}) other["metadata"].erase(member);
  ASSERT_TRUE(world.client.Create(kWorkloadKind, other).ok());
  world.client.Modify(kWorkloadKind, {"default", "a"},
                      [](kube::Object& workload) { workload["status"] = AdmittedStatus(2); });
  world.Settle();
  EXPECT_TRUE(world.Job()->spec.suspend);
  EXPECT_THAT(world.Pods(), IsEmpty());
  SetWorkloadStatus(world, AdmittedStatus(2));
  EXPECT_THAT(world.Pods(), SizeIs(2));
}

std::map<std::string, std::string> PodUids(World& world) {
  std::map<std::string, std::string> uids;
  for (const kube::Object& pod : world.Pods()) uids[kube::Name(pod)] = kube::Uid(pod);
  return uids;
}

// Returns a job that Kueue has admitted and that runs, with two workers.
std::unique_ptr<World> Running(const api::TrainingJob& job = Queued().Build(), int granted = 2) {
  auto world = std::make_unique<World>(job, kKueue);
  CreateFlavor(*world, "gpu");
  world->Settle();
  SetWorkloadStatus(*world, AdmittedStatus(granted));
  for (int i = 0; i < granted; ++i) world->SetPod("j-worker-" + std::to_string(i), "Running");
  world->Settle();
  EXPECT_THAT(world->Pods(), SizeIs(granted));
  return world;
}
api::TrainingJob ElasticOfFour() {
  return Queued(4).With([](api::TrainingJob& job) { job.spec.elastic = {1, 4}; }).Build();
}

// An autoscaler repeats its count every 15 seconds.
TEST(KueueWorldTest, AJobThatGotFewerWorkersRunsOnWhenItsManifestIsAppliedAgain) {
  const auto running = Running(ElasticOfFour());
  World& world = *running;
  const std::string workload = WorkloadUid(world);
  const std::map<std::string, std::string> pods = PodUids(world);
  const int attempt = world.Job()->status.attempt;
  ASSERT_THAT(pods, SizeIs(2));
  for (int i = 0; i < 3; ++i) {
    world.client.Modify(kTrainingJobKind, world.key, [](kube::Object& job) {
      job["spec"]["replicaSpecs"]["Worker"]["replicas"] = 4;
    });
    world.Settle();
    EXPECT_EQ(PodUids(world), pods);
    EXPECT_EQ(world.Job()->status.attempt, attempt);
    EXPECT_EQ(world.Job()->spec.replica_specs.at(Role::kWorker).replicas, 2);
    EXPECT_EQ(WorkloadUid(world), workload);
  }
}

TEST(KueueWorldTest, AJobEndsAlthoughItsFlavorCannotBeRead) {
  World world(Queued().Build(), kKueue);
  CreateFlavor(world, "gpu");
  world.Settle();
  SetWorkloadStatus(world, AdmittedStatus(2));
  ASSERT_THAT(world.Pods(), SizeIs(2));
  world.SetPod("j-worker-0", "Running");
  world.SetPod("j-worker-1", "Running");
  world.Settle();
  ASSERT_TRUE(world.client.Delete(kFlavorKind, {"", "gpu"}, {}).ok());
  world.RestartOperator();  // what it has read is forgotten
  world.SetPod("j-worker-0", "Succeeded");
  world.Settle();
  EXPECT_EQ(world.Job()->status.state, "Succeeded");
  EXPECT_TRUE(ReadWorkload({{"status", WorkloadStatus(world)}}).finished);
}

TEST(KueueWorldTest, AFlavorThatCannotBeReadKeepsPodsFromBeingCreatedAndIsReported) {
  World world(Queued().Build(), kKueue);
  world.Settle();
  world.client.Modify(kWorkloadKind, {"default", "trainingjob-j"},
                      [](kube::Object& workload) { workload["status"] = AdmittedStatus(2); });
  for (int i = 0; i < 5; ++i) {
    world.SyncAll();
    (void)world.Reconcile();
    world.clock.Advance(std::chrono::seconds(60));
  }
  EXPECT_THAT(world.Pods(), IsEmpty());
  const api::TrainingJobStatus status = world.Job()->status;
  const api::Condition* running = FindCondition(status, kRunning);
  ASSERT_NE(running, nullptr);
  EXPECT_EQ(running->reason, "CreateFailed");
  EXPECT_THAT(running->message,
              StartsWith("ResourceFlavor gpu, which Kueue has granted to the worker pods: "));
  CreateFlavor(world, "gpu");
  world.Settle();
  ASSERT_THAT(world.Pods(), SizeIs(2));
  EXPECT_EQ(world.Pods()[0].at("spec").at("nodeSelector").at("kind"), "gpu");
}

TEST(KueueWorldTest, AFlavorIsReadAgainForTheNextAdmissionAndNotBefore) {
  World world(Queued().Build(), kKueue);
  CreateFlavor(world, "gpu");
  world.Settle();
  SetWorkloadStatus(world, AdmittedStatus(2));
  const auto label_flavor = [&world](const char* kind) {
    world.client.Modify(kFlavorKind, {"", "gpu"}, [kind](kube::Object& flavor) {
      flavor["spec"]["nodeLabels"]["kind"] = kind;
    });
  };
  label_flavor("newer");
  world.SetPod("j-worker-1", "Failed", 137);  // the gang starts again
  world.Settle();
  ASSERT_THAT(world.Pods(), SizeIs(2));
  EXPECT_EQ(world.Job()->status.attempt, 1);
  EXPECT_EQ(world.Pods()[0].at("spec").at("nodeSelector").at("kind"), "gpu");
  Json evicted = AdmittedStatus(2);
  evicted["conditions"] =
      Conditions({{"QuotaReserved", true}, {"Admitted", true}, {"Evicted", true}});
  SetWorkloadStatus(world, evicted);
  ASSERT_THAT(world.Pods(), IsEmpty());
  SetWorkloadStatus(world, AdmittedStatus(2));
  ASSERT_THAT(world.Pods(), SizeIs(2));
  EXPECT_EQ(world.Pods()[0].at("spec").at("nodeSelector").at("kind"), "newer");
}

void RemoveQueueLabel(World& world) {
  world.client.Modify(kTrainingJobKind, world.key,
                      [](kube::Object& job) { job["metadata"]["labels"].clear(); });
  world.Settle();
}
void SetSuspendOf(World& world, bool suspend) {
  world.client.Modify(kTrainingJobKind, world.key,
                      [suspend](kube::Object& job) { job["spec"]["suspend"] = suspend; });
  world.Settle();
}
// Returns a running job that has lost its queue label since it was admitted.
std::unique_ptr<World> RunningWithoutItsLabel() {
  auto world = std::make_unique<World>(Queued().Build(), kKueue);
  CreateFlavor(*world, "gpu");
  world->Settle();
  SetWorkloadStatus(*world, AdmittedStatus(2));
  RemoveQueueLabel(*world);
  world->SetPod("j-worker-0", "Running");
  world->SetPod("j-worker-1", "Running");
  world->Settle();
  EXPECT_THAT(world->Pods(), SizeIs(2));
  EXPECT_TRUE(ReadWorkload({{"status", WorkloadStatus(*world)}}).pods_ready);
  return world;
}

TEST(KueueWorldTest, AJobWithoutItsLabelIsPreemptedAndGivesItsQuotaBack) {
  const auto world = RunningWithoutItsLabel();
  SetWorkloadConditions(*world, {{"Evicted", true}});
  EXPECT_TRUE(world->Job()->spec.suspend);
  EXPECT_THAT(world->Pods(), IsEmpty());
  EXPECT_THAT(world->client.Objects(kWorkloadKind), IsEmpty());
  SetSuspendOf(*world, false);
  EXPECT_THAT(world->Pods(), SizeIs(2)) << "as a job without a label from the start";
  EXPECT_FALSE(world->Pods()[0].at("spec").contains("nodeSelector"));
}

TEST(KueueWorldTest, AJobWithoutItsLabelGivesItsQuotaBackWhenItEnds) {
  const auto world = RunningWithoutItsLabel();
  world->SetPod("j-worker-0", "Succeeded");
  world->Settle();
  EXPECT_EQ(world->Job()->status.state, "Succeeded");
  EXPECT_TRUE(ReadWorkload({{"status", WorkloadStatus(*world)}}).finished);
}

TEST(KueueWorldTest, AJobWithoutItsLabelGetsNoMoreThanItWasGranted) {
  const auto world = RunningWithoutItsLabel();
  world->client.Modify(kTrainingJobKind, world->key, [](kube::Object& job) {
    job["spec"]["replicaSpecs"]["Worker"]["replicas"] = 3;
  });
  world->Settle();
  EXPECT_TRUE(world->Job()->spec.suspend);
  EXPECT_THAT(world->Pods(), IsEmpty());
  EXPECT_THAT(world->client.Objects(kWorkloadKind), IsEmpty());
}

TEST(KueueWorldTest, AWaitingJobWithoutItsLabelLeavesTheQueue) {
  World world(Queued().Build(), kKueue);
  world.Settle();
  ASSERT_THAT(world.client.Objects(kWorkloadKind), SizeIs(1));
  RemoveQueueLabel(world);
  EXPECT_THAT(world.client.Objects(kWorkloadKind), IsEmpty());
  EXPECT_TRUE(world.Job()->spec.suspend);
  SetSuspendOf(world, false);
  EXPECT_THAT(world.Pods(), SizeIs(2));
  EXPECT_THAT(world.client.Objects(kWorkloadKind), IsEmpty());
}

TEST(KueueWorldTest, AWaitingJobThatLosesItsLabelAndIsResumedInOneEditRuns) {
  World world(Queued().Build(), kKueue);
  world.Settle();
  ASSERT_THAT(world.client.Objects(kWorkloadKind), SizeIs(1));
  world.client.Modify(kTrainingJobKind, world.key, [](kube::Object& job) {
    job["metadata"]["labels"].clear();
    job["spec"]["suspend"] = false;
  });
  world.Settle();
  EXPECT_FALSE(world.Job()->spec.suspend);
  EXPECT_THAT(world.Pods(), SizeIs(2));
  EXPECT_THAT(world.client.Objects(kWorkloadKind), IsEmpty());
}

// Kueue's webhook is down, say.
void RefuseWrites(World& world, const std::string& verb, const std::string& kind) {
  world.client.SetBefore([=](const testing::HookedClient::Call& call) {
    return call.verb == verb && call.kind == kind
               ? absl::PermissionDeniedError(verb + " " + kind + ": no")
               : absl::OkStatus();
  });
}

void ReconcileForAMinute(World& world) {
  for (int i = 0; i < 6; ++i) {
    world.SyncAll();
    (void)world.Reconcile();
    world.clock.Advance(std::chrono::seconds(10));
  }
  world.SyncAll();
}

TEST(KueueWorldTest, AJobThatGotFewerWorkersRunsOnThoughItsNumberCannotBeWritten) {
  const auto running = Running(ElasticOfFour());
  World& world = *running;
  const std::map<std::string, std::string> pods = PodUids(world);
  const std::string workload = WorkloadUid(world);
  world.client.Modify(kTrainingJobKind, world.key, [](kube::Object& job) {
    job["spec"]["replicaSpecs"]["Worker"]["replicas"] = 4;
  });
  RefuseWrites(world, "update", "TrainingJob");
  ReconcileForAMinute(world);
  EXPECT_EQ(PodUids(world), pods);
  EXPECT_EQ(WorkloadUid(world), workload);
  EXPECT_EQ(world.Job()->status.state, "Running");
  EXPECT_EQ(FindCondition(world.Job()->status, kRunning)->reason, "UpdateFailed");
  world.client.SetBefore({});
  world.clock.Advance(std::chrono::minutes(1));
  world.Settle();
  EXPECT_EQ(world.Job()->spec.replica_specs.at(Role::kWorker).replicas, 2);
  EXPECT_EQ(PodUids(world), pods);
}

TEST(KueueWorldTest, AJobWhoseGrantedNumberCannotBeWrittenIsLookedAfter) {
  for (const absl::Status& answer :
       {absl::PermissionDeniedError("no"), absl::InternalError("failed to call the webhook")}) {
    World world(Queued(4)
                    .ActiveDeadlineSeconds(3600)
                    .With([](api::TrainingJob& job) { job.spec.elastic = {1, 4}; })
                    .Build(),
                kKueue);
    CreateFlavor(world, "gpu");
    world.Settle();
    SetWorkloadStatus(world, AdmittedStatus(2));
    for (const char* pod : {"j-worker-0", "j-worker-1"}) world.SetPod(pod, "Running");
    world.Settle();
    world.client.Modify(kTrainingJobKind, world.key, [](kube::Object& job) {
      job["metadata"]["generation"] = 9;
      job["spec"]["replicaSpecs"]["Worker"]["replicas"] = 4;
    });
    world.client.SetBefore([&answer](const testing::HookedClient::Call& call) {
      return call.verb == "update" && call.kind == "TrainingJob" ? answer : absl::OkStatus();
    });
    ReconcileForAMinute(world);
    world.SetPod("j-worker-1", "Failed", 137);
    ReconcileForAMinute(world);
    EXPECT_EQ(world.Job()->status.attempt, 1) << answer;
    EXPECT_EQ(world.Job()->status.restarts.application, 1) << answer;
    EXPECT_THAT(world.Pods(), SizeIs(2)) << answer;
    EXPECT_EQ(world.Job()->status.replica_statuses.at(Role::kWorker).desired, 2) << answer;
    EXPECT_THAT(world.EventReasons(), ::testing::Contains("ScaleIgnored")) << answer;
    world.clock.Advance(std::chrono::hours(1));
    ReconcileForAMinute(world);
    EXPECT_EQ(world.Job()->status.state, "Failed") << answer << ": it is past its deadline";
  }
}

TEST(KueueWorldTest, AJobWhoseWorkloadIsDeletedAsksAgainForAllOfItsWorkers) {
  for (const bool is_suspended : {false, true}) {
    const auto running =
        Running(Queued(4).With([](api::TrainingJob& job) { job.spec.elastic = {1, 4}; }).Build());
    World& world = *running;
    ASSERT_EQ(world.Job()->spec.replica_specs.at(Role::kWorker).replicas, 2);
    if (is_suspended) world.SetSuspend(true);
    ASSERT_TRUE(world.client.Delete(kWorkloadKind, {"default", "trainingjob-j"}, {}).ok());
    world.Settle();
    EXPECT_TRUE(world.Job()->spec.suspend);
    EXPECT_EQ(world.Job()->spec.replica_specs.at(Role::kWorker).replicas, 4);
    const auto workload = world.client.Get(kWorkloadKind, {"default", "trainingjob-j"});
    ASSERT_TRUE(workload.ok());
    EXPECT_EQ(ReadWorkload(*workload).counts.at(Role::kWorker), 4);
    world.client.Modify(kTrainingJobKind, world.key, [](kube::Object& job) {
      job["spec"]["replicaSpecs"]["Worker"]["replicas"] = 2;
    });
    world.Settle();
    EXPECT_EQ(world.Job()->spec.replica_specs.at(Role::kWorker).replicas, 2) << "its user's number";
  }
}

TEST(KueueWorldTest, ANumberThatAUserSetsAfterTheOperatorDeletedTheWorkloadStays) {
  for (const bool by_operator : {false, true}) {
    const auto running = Running(
        Queued(8).With([](api::TrainingJob& job) { job.spec.elastic = {1, 8}; }).Build(), 4);
    World& world = *running;
    ASSERT_EQ(world.Job()->spec.replica_specs.at(Role::kWorker).replicas, 4);
    RefuseWrites(world, "create", "Workload");
    const auto scale = [&world](int workers) {
      world.client.Modify(kTrainingJobKind, world.key, [=](kube::Object& job) {
        job["spec"]["replicaSpecs"]["Worker"]["replicas"] = workers;
      });
      ReconcileForAMinute(world);
    };
    if (by_operator) {
      scale(6);
    } else {
      ASSERT_TRUE(world.client.Delete(kWorkloadKind, {"default", "trainingjob-j"}, {}).ok());
      ReconcileForAMinute(world);
      EXPECT_EQ(world.Job()->spec.replica_specs.at(Role::kWorker).replicas, 8);
    }
    ASSERT_THAT(world.client.Objects(kWorkloadKind), IsEmpty());
    EXPECT_TRUE(world.Job()->spec.suspend);
    scale(4);
    EXPECT_EQ(world.Job()->spec.replica_specs.at(Role::kWorker).replicas, 4) << by_operator;
  }
}

// Kueue admits the smaller job within seconds, and so the operator resumes it.
TEST(KueueWorldTest, AnEditThatLeavesFinishedReplicasEndsNoJobThatKueueResumes) {
  World world(Queued(4)
                  .Strategy(api::StrategyType::kIndependent)
                  .SuccessPolicy(api::SuccessPolicy::kAllWorkers)
                  .Build(),
              kKueue);
  CreateFlavor(world, "gpu");
  world.Settle();
  SetWorkloadStatus(world, AdmittedStatus(4));
  for (const char* pod : {"j-worker-2", "j-worker-3"}) world.SetPod(pod, "Running");
  for (const char* pod : {"j-worker-0", "j-worker-1"}) world.SetPod(pod, "Succeeded");
  world.Settle();
  world.client.Modify(kTrainingJobKind, world.key, [](kube::Object& job) {
    job["metadata"]["generation"] = 9;
    job["spec"]["suspend"] = true;
    job["spec"]["replicaSpecs"]["Worker"]["replicas"] = 2;
  });
  world.Settle();
  ASSERT_EQ(world.Job()->status.state, "Suspended");
  SetWorkloadStatus(world, AdmittedStatus(2));
  EXPECT_FALSE(world.Job()->spec.suspend);
  EXPECT_EQ(world.Job()->status.state, "Pending");
  EXPECT_THAT(world.Pods(), SizeIs(2));
}

TEST(KueueWorldTest, AJobGoesOnWhoseWorkloadCannotBeWritten) {
  World world(Queued().Build(), kKueue);
  CreateFlavor(world, "gpu");
  world.Settle();
  SetWorkloadStatus(world, AdmittedStatus(2));
  RefuseWrites(world, "update-status", "Workload");
  world.SetPod("j-worker-0", "Running");
  world.SetPod("j-worker-1", "Running");
  ReconcileForAMinute(world);
  EXPECT_TRUE(IsTrue(world.Job()->status, kRunning));
  EXPECT_EQ(FindCondition(world.Job()->status, kRunning)->reason, "UpdateFailed");
  EXPECT_EQ(world.Job()->status.ready_replicas, "2/2");
  world.SetPod("j-worker-0", "Failed", 137);
  ReconcileForAMinute(world);
  EXPECT_EQ(world.Job()->status.attempt, 1);
  world.client.SetBefore({});
  world.SetPod("j-worker-0", "Running");
  world.SetPod("j-worker-1", "Running");
  world.clock.Advance(std::chrono::minutes(1));
  world.Settle();
  EXPECT_EQ(FindCondition(world.Job()->status, kRunning)->reason, "AllReplicasReady");
  EXPECT_TRUE(ReadWorkload({{"status", WorkloadStatus(world)}}).pods_ready);
}

TEST(KueueWorldTest, AnAdmissionThatCannotBeAppliedIsReportedAndNotAnnounced) {
  World world(Queued().Build(), kKueue);
  CreateFlavor(world, "gpu");
  world.Settle();
  world.client.Modify(kWorkloadKind, {"default", "trainingjob-j"},
                      [](kube::Object& workload) { workload["status"] = AdmittedStatus(2); });
  RefuseWrites(world, "update", "TrainingJob");
  ReconcileForAMinute(world);
  EXPECT_EQ(FindCondition(world.Job()->status, kSuspended)->reason, "UpdateFailed");
  EXPECT_EQ(FindCondition(world.Job()->status, kSuspended)->message, "update TrainingJob: no");
  EXPECT_THAT(world.EventReasons(), ElementsAre("Suspended", "UpdateFailed"));
  world.client.SetBefore({});
  world.Settle();
  EXPECT_THAT(world.Pods(), SizeIs(2));
  EXPECT_THAT(world.EventReasons(),
              ElementsAre("Admitted", "Resumed", "Suspended", "UpdateFailed"));
}

void Evict(World& world) {
  world.client.Modify(kWorkloadKind, {"default", "trainingjob-j"}, [](kube::Object& workload) {
    workload["status"]["conditions"] =
        Conditions({{"QuotaReserved", true}, {"Admitted", true}, {"Evicted", true}});
  });
}

// The conditions that its past has left are not why it waits.
TEST(KueueWorldTest, AJobThatWaitsAfterAnEvictionLeavesItsQueueInOneEditToo) {
  const auto world = Running();
  Evict(*world);
  world->Settle();
  ASSERT_EQ(world->Job()->status.state, "Suspended");
  ASSERT_TRUE(ReadWorkload({{"status", WorkloadStatus(*world)}}).evicted);
  world->client.Modify(kTrainingJobKind, world->key, [](kube::Object& job) {
    job["metadata"]["labels"].clear();
    job["metadata"]["generation"] = 9;
    job["spec"]["suspend"] = false;
  });
  world->Settle();
  EXPECT_FALSE(world->Job()->spec.suspend);
  EXPECT_THAT(world->Pods(), SizeIs(2));
  EXPECT_THAT(world->client.Objects(kWorkloadKind), IsEmpty());
}

// A tenant may leave no room for a longer object, or the CRD has a rule that the job breaks.
TEST(KueueWorldTest, AnEvictedJobStopsThoughTheServerRefusesItsSuspension) {
  const auto world = Running();
  RefuseWrites(*world, "update", "TrainingJob");
  Evict(*world);
  ReconcileForAMinute(*world);
  EXPECT_THAT(world->Pods(), IsEmpty());
  EXPECT_FALSE(world->Job()->spec.suspend);
  EXPECT_EQ(world->Job()->status.state, "Suspended");
  EXPECT_EQ(FindCondition(world->Job()->status, kSuspended)->message, "update TrainingJob: no");
  EXPECT_FALSE(WorkloadStatus(*world).contains("admission")) << "others may have its quota";

  SetWorkloadStatus(*world, AdmittedStatus(2));
  EXPECT_THAT(world->Pods(), SizeIs(2));
  Evict(*world);
  ReconcileForAMinute(*world);
  EXPECT_THAT(world->Pods(), IsEmpty());
  world->client.SetBefore({});
  world->clock.Advance(std::chrono::minutes(1));
  world->Settle();
  EXPECT_TRUE(world->Job()->spec.suspend);
}

// Its suspension is written when nothing is left of the admission.
TEST(KueueWorldTest, AJobThatWasScaledDownStaysSmallThoughItsSuspensionIsRefusedAtFirst) {
  for (const int granted : {4, 3}) {
    World world(Queued(4).With([](api::TrainingJob& job) { job.spec.elastic = {1, 4}; }).Build(),
                kKueue);
    CreateFlavor(world, "gpu");
    world.Settle();
    SetWorkloadStatus(world, AdmittedStatus(granted));
    const bool is_scaled = granted == 4;  // else Kueue has made it smaller
    if (is_scaled) {
      world.client.Modify(kTrainingJobKind, world.key, [](kube::Object& job) {
        job["spec"]["replicaSpecs"]["Worker"]["replicas"] = 2;
      });
    }
    world.Settle();
    EXPECT_THAT(world.Pods(), SizeIs(is_scaled ? 2 : 3));
    RefuseWrites(world, "update", "TrainingJob");
    Evict(world);
    ReconcileForAMinute(world);
    EXPECT_THAT(world.Pods(), IsEmpty());
    world.client.SetBefore({});
    world.clock.Advance(std::chrono::minutes(1));
    world.Settle();
    EXPECT_TRUE(world.Job()->spec.suspend);
    EXPECT_EQ(world.Job()->spec.replica_specs.at(Role::kWorker).replicas, is_scaled ? 2 : 4);
    ASSERT_THAT(world.client.Objects(kWorkloadKind), SizeIs(1));
    EXPECT_FALSE(WorkloadStatus(world).contains("admission")) << "others may have its quota";
  }
}

TEST(KueueWorldTest, AnEvictedJobPastItsDeadlineWaitsForTheNextTryOfItsSuspension) {
  World world(Queued().ActiveDeadlineSeconds(60).Build(), kKueue);
  CreateFlavor(world, "gpu");
  world.Settle();
  SetWorkloadStatus(world, AdmittedStatus(2));
  world.client.SetBefore([](const testing::HookedClient::Call& call) {
    return call.verb == "update" && call.kind == "TrainingJob"
               ? absl::InternalError("failed to call the webhook")
               : absl::OkStatus();
  });
  world.clock.Advance(std::chrono::minutes(1));
  Evict(world);
  world.SyncAll();
  EXPECT_FALSE(world.Reconcile().ok());
  world.SyncAll();
  const auto next = world.Reconcile();
  ASSERT_TRUE(next.ok());
  EXPECT_EQ(*next, std::chrono::milliseconds(100));
  world.client.SetBefore({});
  world.clock.Advance(std::chrono::milliseconds(100));
  world.Settle();
  EXPECT_TRUE(world.Job()->spec.suspend);
}

// The job has another version then, for which the status was not made.
TEST(KueueWorldTest, NoStatusIsWrittenBesideASuspensionThatIsTakenAfterAll) {
  const auto world = Running();
  RefuseWrites(*world, "update", "TrainingJob");
  Evict(*world);
  world->SyncAll();
  EXPECT_FALSE(world->Reconcile().ok());
  world->SyncAll();
  EXPECT_TRUE(world->Reconcile().ok()) << "its status stops it";
  world->client.SetBefore({});
  world->clock.Advance(std::chrono::minutes(1));
  world->Settle();  // no write fails
  EXPECT_TRUE(world->Job()->spec.suspend);
  EXPECT_THAT(world->Pods(), IsEmpty());
}

TEST(KueueWorldTest, AJobThatIsNotSuspendedHasNoPodsThoughTheServerRefusesItsSuspension) {
  World world(Queued().Build(), kKueue);
  RefuseWrites(world, "update", "TrainingJob");
  ReconcileForAMinute(world);
  EXPECT_THAT(world.Pods(), IsEmpty());
  EXPECT_EQ(world.Job()->status.state, "Suspended");
  EXPECT_LE(world.client.Count("update", "TrainingJob"), 12) << "each try waits longer";
}

TEST(KueueWorldTest, AnEvictedJobWithoutItsLabelStaysStoppedThoughItCannotBeSuspended) {
  const auto world = RunningWithoutItsLabel();
  RefuseWrites(*world, "update", "TrainingJob");
  Evict(*world);
  ReconcileForAMinute(*world);
  ReconcileForAMinute(*world);
  EXPECT_THAT(world->Pods(), IsEmpty());
  ASSERT_THAT(world->client.Objects(kWorkloadKind), SizeIs(1));
  EXPECT_FALSE(WorkloadStatus(*world).contains("admission"));
}

// As its queue does: each write of the job or its Workload brings the job back at once, a failed
// reconcile later each time, else the time that the operator asks for.
void ReconcileFor(World& world, Duration time) {
  Duration backoff = std::chrono::milliseconds(5);
  for (Duration passed{}; passed < time;) {
    world.SyncAll();
    const std::size_t writes = world.client.writes().size();
    const auto result = world.Reconcile();
    Duration wait = std::chrono::milliseconds(5);
    if (!result.ok()) {
      wait = backoff;
      backoff = std::min<Duration>(backoff * 2, std::chrono::seconds(60));
    } else if (world.client.writes().size() == writes) {
      wait = std::max<Duration>(result->value_or(std::chrono::seconds(60)), wait);
      backoff = std::chrono::milliseconds(5);
    }
    world.clock.Advance(wait);
    passed += wait;
  }
}

TEST(KueueWorldTest, ASuspensionAndAReleaseThatAreBothRefusedAreRepeatedAtGrowingIntervals) {
  const auto world = Running();
  world->client.SetBefore([](const testing::HookedClient::Call& call) {
    const bool refused = (call.verb == "update" && call.kind == "TrainingJob") ||
                         (call.verb == "update-status" && call.kind == "Workload");
    return refused ? absl::PermissionDeniedError(call.verb + ": no") : absl::OkStatus();
  });
  Evict(*world);
  ReconcileFor(*world, std::chrono::minutes(5));
  EXPECT_THAT(world->Pods(), IsEmpty());
  EXPECT_EQ(world->Job()->status.state, "Suspended");
  EXPECT_LE(world->client.Count("update", "TrainingJob"), 25);
  EXPECT_LE(world->client.Count("update-status", "Workload"), 25);
  world->client.SetBefore({});
  ReconcileFor(*world, std::chrono::minutes(1));
  EXPECT_TRUE(world->Job()->spec.suspend);
  EXPECT_FALSE(WorkloadStatus(*world).contains("admission"));
}

// The text that stands for them would be written in their place.
TEST(KueueWorldTest, AnEvictedJobStopsThoughItsFinalizersAreTooManyToBeRead) {
  const auto world = Running();
  const int updates = world->client.Count("update", "TrainingJob");
  world->client.Modify(kTrainingJobKind, world->key,
                       [](kube::Object& job) { job["metadata"]["finalizers"] = kube::kTooMany; });
  Evict(*world);
  ReconcileForAMinute(*world);
  EXPECT_THAT(world->Pods(), IsEmpty());
  EXPECT_EQ(world->client.Count("update", "TrainingJob"), updates);
  EXPECT_EQ(FindCondition(world->HeldJob().job.status, kSuspended)->message,
            "trainingjobs j: metadata.finalizers: found (too many values), expected a list");
}

TEST(KueueWorldTest, APriorityClassThatDoesNotExistIsReported) {
  World world(Queued()
                  .With([](api::TrainingJob& job) {
                    job.spec.run_policy.scheduling_policy.emplace().priority_class = "absent";
                  })
                  .Build(),
              kKueue);
  for (int i = 0; i < 4; ++i) {
    world.SyncAll();
    (void)world.Reconcile();
    world.clock.Advance(std::chrono::seconds(10));
  }
  EXPECT_EQ(FindCondition(world.Job()->status, kSuspended)->reason, "CreateFailed");
  world.client.Add(kPriorityKind, {{"metadata", {{"name", "absent"}}}, {"value", 7}});
  world.Settle();
  EXPECT_EQ(world.client.Objects(kWorkloadKind)[0].at("spec").at("priority"), 7);
}

}  // namespace
}  // namespace lockstep::controller
