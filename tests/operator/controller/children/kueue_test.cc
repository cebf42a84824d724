#include "operator/controller/children/kueue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/operator/controller/world.h"
#include "tests/support/observed_builder.h"

namespace lockstep::controller {
namespace {

using api::Json;
using api::Role;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::Job;
using testing::kReady;
using testing::Seen;
using ::testing::SizeIs;
using ::testing::StartsWith;
using testing::World;

const Settings kKueue{.kueue = true, .parallel_calls = 1};
constexpr Time kNow{std::chrono::seconds(1'700'000'000)};

testing::JobBuilder Queued(int workers = 2) {
  return Job("j").Workers(workers).With(
      [](api::TrainingJob& job) { job.metadata.labels["kueue.x-k8s.io/queue-name"] = "research"; });
}

Json Conditions(const std::vector<std::pair<std::string, bool>>& conditions) {
  Json list = Json::array();
  for (const auto& [type, holds] : conditions) {
    list.push_back({{"type", type},
                    {"status", holds ? "True" : "False"},
                    {"reason", type == "Evicted" ? "Preempted" : "R"},
                    {"message", "by another"}});
  }
  return list;
}

// As Kueue writes it when it admits `count` workers on flavor `gpu`.
Json AdmittedStatus(int count) {
  return {{"conditions", Conditions({{"QuotaReserved", true}, {"Admitted", true}})},
          {"admission",
           {{"clusterQueue", "cluster"},
            {"podSetAssignments",
             {{{"name", "worker"}, {"count", count}, {"flavors", {{"cpu", "gpu"}}}}}}}}};
}

TEST(KueueTest, AWorkloadAsksForEachRolesPods) {
  Json tmpl = testing::Template();
  tmpl["metadata"] = {{"labels", {{"team", "vision"}}}};
  const api::TrainingJob job =
      Queued(4)
          .Chief()
          .PodTemplate(Role::kWorker, tmpl)
          .With([](api::TrainingJob& made) {
            made.spec.elastic = api::ElasticSpec{2, 4};
            made.spec.run_policy.scheduling_policy.emplace().priority_class = "high";
          })
          .BuildWithDefaults();
  const kube::Object workload = BuildWorkload(job, kKueue, 1000);
  EXPECT_EQ(workload.at("apiVersion"), "kueue.x-k8s.io/v1beta1");
  EXPECT_EQ(kube::ControllerUid(workload), "j-uid");
  EXPECT_EQ(kube::Label(workload, "kueue.x-k8s.io/job-uid"), "j-uid");
  const Json& spec = workload.at("spec");
  EXPECT_EQ(spec.at("queueName"), "research");
  EXPECT_EQ(spec.at("priority"), 1000);
  EXPECT_EQ(spec.at("priorityClassSource"), "scheduling.k8s.io/priorityclass");
  ASSERT_THAT(spec.at("podSets"), SizeIs(2));
  EXPECT_EQ(spec.at("podSets")[0].at("name"), "chief");
  EXPECT_FALSE(spec.at("podSets")[0].contains("minCount"));
  const Json& workers = spec.at("podSets")[1];
  EXPECT_EQ(workers.at("count"), 4);
  EXPECT_EQ(workers.at("minCount"), 2);
  EXPECT_EQ(workers.at("template").at("metadata").at("labels").at("team"), "vision");
  EXPECT_EQ(workers.at("template").at("spec").at("containers")[0].at("name"), "tensorflow");
  EXPECT_EQ(ReadWorkload(workload).shape, WorkloadShape(job));
}

TEST(KueueTest, AWorkloadPriorityClassComesFirst) {
  const auto job = Queued().With([](api::TrainingJob& made) {
    made.metadata.labels["kueue.x-k8s.io/priority-class"] = "urgent";
    made.spec.run_policy.scheduling_policy.emplace().priority_class = "high";
  });
  const auto reference = PriorityOf(job.Build());
  EXPECT_EQ(reference->kind, kWorkloadPriorityKind);
  EXPECT_EQ(reference->name, "urgent");
  EXPECT_FALSE(PriorityOf(Queued().Build()));
}

TEST(KueueTest, WhatWasGrantedIsReadAndGivenToPods) {
  kube::Object workload = BuildWorkload(Queued().BuildWithDefaults(), kKueue, std::nullopt);
  workload["status"] = AdmittedStatus(2);
  workload["status"]["admissionChecks"] = {
      {{"name", "provision"},
       {"podSetUpdates",
        {{{"name", "worker"},
          {"annotations", {{"provisioned", "yes"}}},
          {"tolerations", {{{"key", "spot"}, {"operator", "Exists"}}}}}}}}};
  ObservedWorkload read = ReadWorkload(workload);
  EXPECT_TRUE(read.admitted && read.reserved && !read.evicted && !read.finished);
  PodSetGrant grant = read.granted.at(Role::kWorker);
  EXPECT_EQ(grant.count, 2);
  EXPECT_THAT(grant.flavors, ElementsAre("gpu"));
  AddFlavor({{"spec",
              {{"nodeLabels", {{"gpu", "h100"}}},
               {"tolerations", {{{"key", "gpu"}, {"operator", "Exists"}}}}}}},
            grant);
  kube::Object pod = {{"metadata", {{"name", "p"}}},
                      {"spec",
                       {{"nodeSelector", {{"zone", "a"}}},
                        {"tolerations", {{{"key", "gpu"}, {"operator", "Exists"}}}}}}};
  ApplyGrant(grant, pod);
  EXPECT_EQ(pod.at("spec").at("nodeSelector"), (Json{{"zone", "a"}, {"gpu", "h100"}}));
  EXPECT_THAT(pod.at("spec").at("tolerations"), SizeIs(2)) << "none twice";
  EXPECT_EQ(pod.at("metadata").at("annotations").at("provisioned"), "yes");
}

TEST(KueueTest, AReleasedWorkloadHoldsNoQuotaAndQueuesAgain) {
  kube::Object workload = {{"metadata", {{"generation", 3}}}, {"status", AdmittedStatus(2)}};
  workload["status"]["conditions"] =
      Conditions({{"QuotaReserved", true}, {"Admitted", true}, {"Evicted", true}});
  const kube::Object released = Released(workload, kNow);
  EXPECT_FALSE(released.at("status").contains("admission"));
  const ObservedWorkload read = ReadWorkload(released);
  EXPECT_FALSE(read.reserved);
  EXPECT_FALSE(read.admitted);
  EXPECT_TRUE(read.evicted);
  const Json& requeued = released.at("status").at("conditions")[3];
  EXPECT_EQ(requeued.at("type"), "Requeued");
  EXPECT_EQ(requeued.at("status"), "True");
  EXPECT_EQ(requeued.at("observedGeneration"), 3);
}

ObservedWorkload Waiting(const api::TrainingJob& job) {
  ObservedWorkload workload;
  workload.shape = WorkloadShape(job);
  workload.templates = TemplatesHash(job);
  workload.queue = QueueName(job);
  for (const auto& [role, spec] : job.spec.replica_specs) workload.counts[role] = spec.replicas;
  return workload;
}
ObservedWorkload Admitted(const api::TrainingJob& job, int workers) {
  ObservedWorkload workload = Waiting(job);
  workload.reserved = workload.admitted = true;
  workload.granted[Role::kWorker].count = workers;
  return workload;
}
Seen WithKueue(const testing::JobBuilder& job) {
  return Seen(job).With([](Observed& observed) { observed.settings = kKueue; });
}

TEST(KueueRuleTest, ANewJobIsSuspendedThenAsksThenWaits) {
  Seen seen = WithKueue(Queued());
  EXPECT_THAT(seen.Plan().actions, ElementsAre(SetSuspend{true, {}}));
  seen.With([](Observed& observed) { observed.job.spec.suspend = true; }).Write();
  EXPECT_THAT(seen.Plan().actions, ElementsAre(CreateWorkload{}));
  seen.With([](Observed& observed) { observed.workload = Waiting(observed.job); });
  EXPECT_THAT(seen.Plan().actions, IsEmpty());
  seen.With([](Observed& observed) { observed.workload = Admitted(observed.job, 2); });
  EXPECT_THAT(seen.Plan().actions, ElementsAre(SetSuspend{false, {}}));
}

TEST(KueueRuleTest, JobsOfNoQueueAndOperatorsWithoutTheFeatureAreAsEver) {
  EXPECT_THAT(WithKueue(Job("j").Workers(1)).Service().Plan().actions,
              ElementsAre(CreatePod{Role::kWorker, 0, 0}));
  EXPECT_THAT(Seen(Queued(1)).Service().Plan().actions,
              ElementsAre(CreatePod{Role::kWorker, 0, 0}));
}

TEST(KueueRuleTest, AnElasticJobMayGetFewerWorkersAndGetsThemBackWhenItIsEvicted) {
  const auto elastic = [](api::TrainingJob& job) { job.spec.elastic = api::ElasticSpec{1, 4}; };
  Seen seen = WithKueue(Queued(4).Suspended().With(elastic));
  seen.Write().With([](Observed& observed) { observed.workload = Admitted(observed.job, 2); });
  EXPECT_THAT(seen.Plan().actions, ElementsAre(SetSuspend{false, {{Role::kWorker, 2}}}));
  seen.With([](Observed& observed) {
    observed.job.spec.suspend = false;
    observed.job.spec.replica_specs[Role::kWorker].replicas = 2;
    observed.workload->evicted = true;
    observed.workload->eviction = "Preempted: by another";
  });
  EXPECT_THAT(seen.Plan().actions, ElementsAre(SetSuspend{true, {{Role::kWorker, 4}}}));
  ASSERT_THAT(seen.Plan().events, SizeIs(1));
  EXPECT_EQ(seen.Plan().events[0].message, "Kueue stops the job: Preempted: by another");
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
  seen.With([](Observed& observed) { observed.workload = Admitted(observed.job, 2); });
  EXPECT_THAT(seen.Plan().actions, ElementsAre(SetSuspend{true, {}}));
  Seen edited = WithKueue(Queued(4).Suspended());
  edited.Write().With([](Observed& observed) {
    observed.workload = Admitted(observed.job, 2);
    observed.workload->shape = "of an earlier spec";
  });
  EXPECT_THAT(edited.Plan().actions, ElementsAre(DeleteWorkload{}));
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
  // One that an older operator made tells only of counts.
  seen.With(grow).With([](Observed& observed) { observed.workload->templates.clear(); });
  EXPECT_THAT(seen.Plan().actions, SizeIs(2));
}

TEST(KueueRuleTest, AnotherQueueOrPriorityMakesAnotherWorkload) {
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
}

TEST(KueueRuleTest, KueueIsToldOfReadinessAndOfTheEnd) {
  Seen seen = WithKueue(Queued());
  seen.Service().Worker(0, kReady).Worker(1, kReady);
  seen.With([](Observed& observed) { observed.workload = Admitted(observed.job, 2); }).Write();
  EXPECT_THAT(seen.Plan().actions,
              ElementsAre(SetWorkloadCondition{"PodsReady", true, "PodsReady",
                                               "all required replicas are ready"}));
  seen.With([](Observed& observed) {
    observed.workload->pods_ready = true;
    testing::Exited(0)(observed.pods[0]);
    observed.job.spec.run_policy.clean_pod_policy = api::CleanPodPolicy::kNone;
  });
  EXPECT_THAT(
      seen.Write().Plan().actions,
      ElementsAre(SetWorkloadCondition{"Finished", true, "Succeeded", "worker-0 has finished"}));
  seen.With([](Observed& observed) { observed.workload->finished = true; });
  EXPECT_THAT(seen.Plan().actions, IsEmpty());
}

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
  EXPECT_TRUE(world.client
                  .Create(kFlavorKind, {{"metadata", {{"name", name}}},
                                        {"spec", {{"nodeLabels", {{"kind", name}}}}}})
                  .ok());
}

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
  world.SetPod("j-worker-0", "Succeeded");
  world.Settle();
  EXPECT_EQ(world.Job()->status.state, "Succeeded");
  EXPECT_TRUE(ReadWorkload({{"status", WorkloadStatus(world)}}).finished);
}

// The flavor may be deleted, or the right to read it taken away, while the job runs.
TEST(KueueWorldTest, AJobEndsAlthoughItsFlavorCannotBeRead) {
  World world(Queued().Build(), kKueue);
  CreateFlavor(world, "gpu");
  world.Settle();
  SetWorkloadStatus(world, AdmittedStatus(2));
  ASSERT_THAT(world.Pods(), SizeIs(2));
  world.SetPod("j-worker-0", "Running");
  world.SetPod("j-worker-1", "Running");
  world.Settle();
  ASSERT_TRUE(world.client.Delete(kFlavorKind, {"", "gpu"}, "").ok());
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
              StartsWith("ResourceFlavor gpu, which Kueue has granted the worker pods: "));
  CreateFlavor(world, "gpu");
  world.Settle();
  ASSERT_THAT(world.Pods(), SizeIs(2));
  EXPECT_EQ(world.Pods()[0].at("spec").at("nodeSelector").at("kind"), "gpu");
}

TEST(KueueWorldTest, APriorityClassThatDoesNotExistIsTold) {
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
  ASSERT_TRUE(
      world.client.Create(kPriorityKind, {{"metadata", {{"name", "absent"}}}, {"value", 7}}).ok());
  world.Settle();
  EXPECT_EQ(world.client.Objects(kWorkloadKind)[0].at("spec").at("priority"), 7);
}

}  // namespace
}  // namespace lockstep::controller
