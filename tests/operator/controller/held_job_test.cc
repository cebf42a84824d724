// A job whose object cannot be used any more: nothing is created for it, but whoever may stop or
// end it still can.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/v1/variants.h"
#include "operator/controller/observe_job.h"
#include "operator/controller/rules/parts/status.h"
#include "operator/kube/rest/object_json.h"
#include "tests/operator/controller/world.h"

namespace lockstep::controller {
namespace {

using api::Role;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::Job;
using ::testing::SizeIs;
using testing::World;

const kube::Key kWorkload{"default", "trainingjob-j"};

// What is read of a job whose owner has given it 10,001 labels.
void HoldByLabels(World& world) {
  world.client.Modify(kTrainingJobKind, world.key,
                      [](kube::Object& job) { job["metadata"]["labels"] = kube::kTooMany; });
  world.Settle();
}

void SetRunning(World& world) {
  world.Settle();
  for (const kube::Object& pod : world.Pods()) world.SetPod(kube::Name(pod), "Running");
  world.Settle();
}

kube::Object Status(World& world) {
  return world.client.Get(kTrainingJobKind, world.key)->at("status");
}

void SetWorkload(World& world, const std::vector<const char*>& conditions) {
  world.client.Modify(kWorkloadKind, kWorkload, [&](kube::Object& workload) {
    for (const char* type : conditions) {
      workload = WithWorkloadCondition(std::move(workload), type, true, "Preempted", "by another",
                                       world.clock.Now());
    }
    workload["status"]["admission"]["podSetAssignments"] = {{{"name", "worker"}, {"count", 1}}};
  });
  world.Settle();
}

// It holds quota and runs, and its label cannot be read.
void HoldAdmitted(World& world) {
  world.Settle();
  SetWorkload(world, {"QuotaReserved", "Admitted"});
  SetRunning(world);
  HoldByLabels(world);
}

testing::JobBuilder Queued() {
  return Job("j").Workers(1).Suspended().With(
      [](api::TrainingJob& job) { job.metadata.labels["kueue.x-k8s.io/queue-name"] = "q"; });
}
const Settings kKueue{.kueue = true, .parallel_calls = 1};

TEST(HeldJobTest, RunsOnAndCreatesNothing) {
  World world(Job("j").Workers(2).RestartScope(api::RestartScope::kPod).Build());
  SetRunning(world);
  HoldByLabels(world);
  EXPECT_THAT(world.Pods(), SizeIs(2));
  world.client.Remove(kube::kPodKind, {"default", "j-worker-1"});
  world.Settle();
  EXPECT_THAT(world.Pods(), SizeIs(1));
  EXPECT_EQ(Status(world).at("state"), "Running");
}

// Four pods of eight GPUs train with 32 samples a step, and elastic allows eight.
testing::JobBuilder OneSamplePerGpu(int workers) {
  api::TrainingSpec training = testing::MnistTraining();
  training.batch_size.global = 32;
  training.checkpoint.directory = "/checkpoints";
  api::Json tmpl = testing::Template("trainer");
  tmpl["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] = 8;
  return Job("j")
      .Workers(workers)
      .Training(training)
      .PodTemplate(Role::kWorker, tmpl)
      .With([](api::TrainingJob& job) { job.spec.elastic = api::ElasticSpec{1, 8}; });
}

TEST(HeldJobTest, AnElasticJobThatIsScaledBeyondWhatItsSpecAllowsKeepsItsSize) {
  World world(OneSamplePerGpu(4).Build());
  SetRunning(world);
  ASSERT_EQ(Status(world).at("state"), "Running");
  auto scale = [&world, generation = 1](int workers) mutable {
    world.client.Modify(kTrainingJobKind, world.key, [&](kube::Object& job) {
      job["spec"]["replicaSpecs"]["Worker"]["replicas"] = workers;
      job["metadata"]["generation"] = ++generation;
    });
    world.Settle();
  };
  scale(5);
  EXPECT_THAT(world.EventReasons(), ElementsAre("Running", "ScaleIgnored"));
  world.client.Remove(kube::kPodKind, {"default", "j-worker-1"});
  world.RestartOperator();
  SetRunning(world);
  EXPECT_THAT(world.Pods(), SizeIs(4)) << "a lost pod is replaced";
  EXPECT_EQ(Status(world).at("attempt"), 0);
  EXPECT_NE(FindCondition(world.Job()->status, kRunning)->reason, "InvalidSpec");
  scale(3);
  SetRunning(world);
  EXPECT_THAT(world.Pods(), SizeIs(3));
  EXPECT_EQ(Status(world).at("attempt"), 1);
}

TEST(HeldJobTest, AnElasticJobThatIsSuspendedIsNotResumedWithAnotherSizeThanItsSpecHas) {
  World world(OneSamplePerGpu(4).Build());
  SetRunning(world);
  world.SetSuspend(true);
  world.Settle();
  ASSERT_EQ(Status(world).at("state"), "Suspended");
  world.client.Modify(kTrainingJobKind, world.key, [](kube::Object& job) {
    job["spec"]["suspend"] = false;
    job["spec"]["replicaSpecs"]["Worker"]["replicas"] = 5;
  });
  world.Settle();
  EXPECT_THAT(world.Pods(), IsEmpty());
  EXPECT_THAT(world.EventReasons(), ::testing::Not(::testing::Contains("ScaleIgnored")));
}

TEST(HeldJobTest, AJobThatIsMadeTooLargeForItsSpecFails) {
  World world(OneSamplePerGpu(5).Build());
  world.Settle();
  EXPECT_EQ(FindCondition(world.Job()->status, kFailed)->reason, "InvalidSpec");
}

TEST(HeldJobTest, ObeysSuspend) {
  World world(Job("j").Workers(2).Build());
  SetRunning(world);
  HoldByLabels(world);
  world.SetSuspend(true);
  world.Settle();
  EXPECT_THAT(world.Pods(), IsEmpty());
  EXPECT_EQ(Status(world).at("state"), "Suspended");
  world.clock.Advance(seconds(60));  // counts wait
  world.Settle();
  EXPECT_EQ(Status(world).at("readyReplicas"), "0/2") << "what it wants is still known";
  world.SetSuspend(false);
  world.Settle();
  EXPECT_THAT(world.Pods(), IsEmpty()) << "its spec cannot be used";
}

TEST(HeldJobTest, EndsAtItsDeadline) {
  World world(Job("j").Workers(1).ActiveDeadlineSeconds(1000).Build());
  SetRunning(world);
  HoldByLabels(world);
  const auto back = world.Settle();
  ASSERT_TRUE(back);
  EXPECT_LE(*back, seconds(1000)) << "it is looked at again by itself";
  world.clock.Advance(seconds(1000));
  world.Settle();
  EXPECT_EQ(Status(world).at("state"), "Failed");
  EXPECT_THAT(world.Pods(), IsEmpty());
}

TEST(HeldJobTest, ItsSuccessIsRecorded) {
  World world(Job("j").Workers(2).SuccessPolicy(api::SuccessPolicy::kAllWorkers).Build());
  SetRunning(world);
  HoldByLabels(world);
  world.SetPod("j-worker-1", "Succeeded");
  world.Settle();
  world.clock.Advance(std::chrono::seconds(1));
  world.Settle();
  EXPECT_EQ(Status(world).at("completedIndexes"), kube::Object({1}));
  world.client.Remove(kube::kPodKind, {"default", "j-worker-1"});
  world.SetPod("j-worker-0", "Succeeded");
  world.Settle();
  EXPECT_EQ(Status(world).at("state"), "Succeeded");
}

// The success policy cannot be read, and the operator does not guess it.
TEST(HeldJobTest, ItsSuccessIsNotJudgedByHalfASpec) {
  for (const char* path : {"/successPolicy", "/strategy", "/replicaSpecs/Worker/replicas"}) {
    World world(Job("j").Workers(2).Build());
    SetRunning(world);
    world.client.Modify(kTrainingJobKind, world.key, [path](kube::Object& job) {
      job["spec"][kube::Object::json_pointer(path)] = "a newer version's";
    });
    world.SetPod("j-worker-0", "Succeeded");
    world.Settle();
    EXPECT_EQ(Status(world).at("state"), "Running") << path;
    EXPECT_EQ(Status(world).at("replicaStatuses").at("Worker").at("desired"), 2) << path;
    world.SetSuspend(true);
    world.Settle();
    EXPECT_EQ(Status(world).at("state"), "Suspended") << path;
  }
}

TEST(HeldJobTest, GivesItsQuotaBackWhenKueueEvictsIt) {
  World world(Queued().Build(), kKueue);
  world.client.SetScheduler([](const kube::Object& /*pod*/) { return "node"; });
  HoldAdmitted(world);
  ASSERT_THAT(world.Pods(), SizeIs(1));
  SetWorkload(world, {"Evicted"});
  ASSERT_THAT(world.Pods(), SizeIs(1));
  EXPECT_TRUE(kube::IsBeingDeleted(world.Pods().front()));
  EXPECT_THAT(world.client.Objects(kWorkloadKind), SizeIs(1)) << "not before its pods are gone";
  world.client.Remove(kube::kPodKind, {"default", "j-worker-0"});
  world.Settle();
  EXPECT_THAT(world.Pods(), IsEmpty());
  EXPECT_THAT(world.client.Objects(kWorkloadKind), IsEmpty());
  EXPECT_EQ(Status(world).at("state"), "Suspended");
  // Once it can be read it queues again.
  world.client.Modify(kTrainingJobKind, world.key, [](kube::Object& job) {
    job["metadata"]["labels"] = {{"kueue.x-k8s.io/queue-name", "q"}};
  });
  world.Settle();
  EXPECT_THAT(world.client.Objects(kWorkloadKind), SizeIs(1));
  EXPECT_TRUE(world.Job()->spec.suspend);
  EXPECT_THAT(world.Pods(), IsEmpty());
}

TEST(HeldJobTest, AnAdmittedOneRunsOnAndReportsItsEndToKueue) {
  World world(Queued().Build(), kKueue);
  HoldAdmitted(world);
  EXPECT_EQ(Status(world).at("state"), "Running");
  world.SetPod("j-worker-0", "Succeeded");
  world.Settle();
  EXPECT_EQ(Status(world).at("state"), "Succeeded");
  EXPECT_TRUE(ReadWorkload(*world.client.Get(kWorkloadKind, kWorkload)).finished);
}

TEST(HeldJobTest, OneThatCannotStartHoldsNoQuota) {
  World world(Queued().Build(), kKueue);
  HoldAdmitted(world);
  world.SetSuspend(true);
  world.Settle();
  EXPECT_THAT(world.Pods(), IsEmpty());
  EXPECT_THAT(world.client.Objects(kWorkloadKind), IsEmpty());
}

TEST(HeldJobTest, ItsVariantsKeepTheirNames) {
  api::TrainingSpec training = testing::MnistTraining();
  training.variants = api::Json::array({{{"name", "a"}, {"seed", 1}}, {{"name", "B!"}}});
  const ObservedJob observed = ObserveJob(api::TrainingJobToJson(
      Job("j").Workers(2).Training(training).Strategy(api::StrategyType::kIndependent).Build()));
  ASSERT_TRUE(observed.invalid);
  EXPECT_EQ(*observed.job.spec.training->variants,
            (api::Json::array({{{"name", "a"}}, api::Json::object()})));
  EXPECT_EQ(api::VariantName(*observed.job.spec.training, 0), "a");
  EXPECT_EQ(api::VariantName(*observed.job.spec.training, 1), "variant-1");
}

}  // namespace
}  // namespace lockstep::controller
