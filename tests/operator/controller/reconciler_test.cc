#include "operator/controller/reconciler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>

#include "api/v1/names.h"
#include "base/rfc3339.h"
#include "operator/controller/job_controller.h"
#include "operator/controller/rules/status.h"
#include "operator/kube/rest/api_errors.h"
#include "operator/kube/rest/object_json.h"
#include "tests/operator/controller/world.h"
#include "tests/support/controller_uid.h"

namespace lockstep::controller {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using testing::HookedClient;
using ::testing::IsEmpty;
using testing::Job;
using ::testing::SizeIs;
using testing::World;

int Writes(const World& world, const std::string& verb, const std::string& kind) {
  return world.client.Count(verb, kind);
}

TEST(ReconcilerTest, AJobOfFourPodsCostsNoMoreWritesThanItMust) {
  World world(Job("j").Workers(4).CleanPodPolicy(api::CleanPodPolicy::kNone).Build());
  world.Settle();
  for (int i = 0; i < 4; ++i) {
    world.SetPod("j-worker-" + std::to_string(i), "Running");
    world.Settle();
    world.clock.Advance(seconds(1));
  }
  EXPECT_EQ(world.Job()->status.state, "Running");
  for (int i = 3; i >= 0; --i) world.SetPod("j-worker-" + std::to_string(i), "Succeeded");
  world.Settle();
  EXPECT_EQ(world.Job()->status.state, "Succeeded");
  EXPECT_EQ(Writes(world, "create", "Service"), 1);
  EXPECT_EQ(Writes(world, "create", "Pod"), 4);
  EXPECT_EQ(Writes(world, "update-status", "TrainingJob"), 3);
  EXPECT_THAT(world.EventReasons(), ElementsAre("Running", "Succeeded"));
  EXPECT_THAT(world.client.writes(), SizeIs(1 + 1 + 4 + 3 + 2));  // and the job itself
}

// What all creates under way take of memory is bounded by this, whatever a tenant's template holds.
TEST(ReconcilerTest, LargePodsAreCreatedOneAtATime) {
  api::Json pod_template = testing::Template("mine");
  pod_template["spec"]["containers"][0]["args"] = {std::string(250'000, 'x')};
  World world(Job("j").Workers(4).PodTemplate(api::Role::kWorker, pod_template).Build(),
              {.parallel_calls = 4});
  std::mutex mutex;
  std::condition_variable changed;
  int begun = 0;
  bool together = false;
  world.client.SetBefore([&](const HookedClient::Call& call) {
    if (call.verb != "create" || call.kind != "Pod") return absl::OkStatus();
    std::unique_lock lock(mutex);
    const int own = ++begun;
    changed.notify_all();
    // Only another thread's create, while this one is under way, ends the wait.
    if (changed.wait_for(lock, milliseconds(100), [&] { return begun > own; })) together = true;
    return absl::OkStatus();
  });
  world.Settle();
  EXPECT_THAT(world.Pods(), SizeIs(4));
  EXPECT_FALSE(together);
}

TEST(ReconcilerTest, OfADeletedJobNoEventIsRemembered) {
  World world(Job("j").Workers(1).Build());
  world.Settle();
  kube::Identity job;
  job.key = world.key;
  job.uid = world.Job()->metadata.uid;
  const auto record = [&] {
    world.events().Record(kTrainingJobKind, job, kube::EventType::kNormal, "Reason", "Action", "x");
  };
  record();
  const int before = Writes(world, "create", "Event");
  record();
  EXPECT_EQ(Writes(world, "create", "Event"), before) << "it counts up the first";
  ASSERT_TRUE(world.client.Delete(kTrainingJobKind, world.key, job.uid).ok());
  world.SyncAll();
  ASSERT_TRUE(world.Reconcile().ok());
  record();
  EXPECT_EQ(Writes(world, "create", "Event"), before + 1);
}

TEST(ReconcilerTest, WhatALookParsesOfAJobGoesWithTheLook) {
  World world(Job("j").Workers(2).Build(), {.gang_scheduler_name = "volcano", .parallel_calls = 1});
  world.Settle();
  EXPECT_THAT(world.Pods(), SizeIs(2));
  EXPECT_FALSE(world.HeldJob().job.spec.replica_specs.at(api::Role::kWorker).tmpl.is_parsed());
}

TEST(ReconcilerTest, WhereTheLeadingPodIsAskedFollowsAnEdit) {
  const auto with_port = [](int port) {
    api::Json tmpl = testing::Template("trainer");
    tmpl["spec"]["containers"][0]["ports"] = {{{"name", "cluster"}, {"containerPort", port}}};
    return tmpl;
  };
  World world(
      Job("j").Workers(1).Training().PodTemplate(api::Role::kWorker, with_port(3333)).Build());
  world.Settle();
  world.SetPod("j-worker-0", "Running");
  world.Settle();
  EXPECT_EQ(world.progress.asked.port, 3333);
  world.client.Modify(kTrainingJobKind, world.key, [&](kube::Object& job) {
    job["spec"]["replicaSpecs"]["Worker"]["template"] = with_port(4444);
  });
  world.Settle();
  EXPECT_EQ(world.progress.asked.port, 4444);
}

TEST(ReconcilerTest, AnOperatorThatWasAwayFailsNoPendingJobThatHasBegunMeanwhile) {
  World world(Job("j").Workers(2).PendingDeadlineSeconds(60).Build());
  world.Settle();
  world.SetPod("j-worker-0", "Running");
  world.SetPod("j-worker-1", "Running");
  world.clock.Advance(std::chrono::hours(1));
  world.client.Remove(kube::kPodKind, {"default", "j-worker-1"});
  world.RestartOperator();
  world.Settle();
  EXPECT_EQ(world.Job()->status.state, "Pending");
  world.clock.Advance(std::chrono::seconds(60));
  world.Settle();
  EXPECT_EQ(world.Job()->status.state, "Failed") << "this process has seen it wait for so long";
}

api::TrainingJob ThreeWorkers() {
  return Job("j").Workers(3).RestartScope(api::RestartScope::kPod).Build();
}

// Lets the job run, and its last worker succeed just now.
void FinishTheLastOfThree(World& world) {
  world.Settle();
  for (const char* name : {"j-worker-0", "j-worker-1", "j-worker-2"}) world.SetPod(name, "Running");
  world.Settle();
  world.SetPod("j-worker-2", "Succeeded");
  world.Settle();
}

TEST(ReconcilerTest, AWorkersSuccessIsWrittenWithinASecond) {
  World world(ThreeWorkers());
  FinishTheLastOfThree(world);
  world.clock.Advance(std::chrono::seconds(1));
  world.Settle();
  EXPECT_THAT(world.Job()->status.completed_indexes, ElementsAre(2));
  world.client.Remove(kube::kPodKind, {"default", "j-worker-2"});
  world.RestartOperator();
  world.Settle();
  EXPECT_THAT(world.Pods(), SizeIs(2)) << "it is not made again";
}

TEST(ReconcilerTest, AWorkersSuccessOutlivesItsPodBeforeItIsWritten) {
  World world(ThreeWorkers());
  FinishTheLastOfThree(world);
  EXPECT_THAT(world.Job()->status.completed_indexes, IsEmpty());
  world.client.Remove(kube::kPodKind, {"default", "j-worker-2"});
  world.Settle();
  EXPECT_THAT(world.Pods(), SizeIs(2)) << "it is not made again";
  EXPECT_THAT(world.Job()->status.completed_indexes, ElementsAre(2)) << "written at once";
}

// In these two tests a sidecar goes on until the node is shut down.
TEST(ReconcilerTest, ASuccessThatIsWrittenOutlivesThePodsEndByItsNodeAndTheOperator) {
  for (const char* reason : {"Terminated", "Evicted"}) {
    World world(ThreeWorkers());
    FinishTheLastOfThree(world);
    world.clock.Advance(seconds(1));
    world.Settle();
    ASSERT_THAT(world.Job()->status.completed_indexes, ElementsAre(2));
    world.client.Modify(kube::kPodKind, {"default", "j-worker-2"}, [reason](kube::Object& pod) {
      pod["status"]["phase"] = "Failed";
      pod["status"]["reason"] = reason;
    });
    world.RestartOperator();
    world.Settle();
    world.clock.Advance(seconds(20));
    world.Settle();
    EXPECT_EQ(world.Job()->status.restarts, api::RestartCounts{}) << reason;
    EXPECT_THAT(world.Job()->status.completed_indexes, ElementsAre(2)) << reason;
    EXPECT_EQ(world.Job()->status.state, "Running") << reason;
  }
}

TEST(ReconcilerTest, AWorkersSuccessOutlivesTheEndOfItsPodByItsNode) {
  World world(ThreeWorkers());
  FinishTheLastOfThree(world);
  world.client.Modify(kube::kPodKind, {"default", "j-worker-2"}, [](kube::Object& pod) {
    pod["status"]["phase"] = "Failed";
    pod["status"]["reason"] = "Terminated";
  });
  world.clock.Advance(seconds(1));
  world.Settle();
  EXPECT_THAT(world.Job()->status.completed_indexes, ElementsAre(2));
  EXPECT_EQ(world.Job()->status.restarts, api::RestartCounts{});
}

// Of two workers that run, the second fails, and its pod is removed before that is judged.
void LoseAPodThatHasFailed(World& world) {
  world.Settle();
  for (const char* name : {"j-worker-0", "j-worker-1"}) world.SetPod(name, "Running");
  world.Settle();
  world.SetPod("j-worker-1", "Failed", 1);
  world.Settle();
  world.client.Remove(kube::kPodKind, {"default", "j-worker-1"});
  world.Settle();
}

TEST(ReconcilerTest, AFailureThatIsNotJudgedYetOutlivesItsPod) {
  World world(Job("j").Workers(2).Build());
  LoseAPodThatHasFailed(world);
  EXPECT_EQ(world.Job()->status.restarts, api::RestartCounts{}) << "a peer may be the cause";
  world.clock.Advance(seconds(10));
  world.Settle();
  EXPECT_EQ(world.Job()->status.restarts, (api::RestartCounts{1, 0, 1}));
  EXPECT_EQ(world.Job()->status.failure->exit_code, 1);
  EXPECT_EQ(world.Job()->status.attempt, 1);
}

TEST(ReconcilerTest, AClockThatIsSetDelaysAndHastensNoJudgementOfAFailureWhosePodIsGone) {
  for (const auto step : {-std::chrono::minutes(50), std::chrono::minutes(50)}) {
    SCOPED_TRACE(step.count());
    World world(Job("j").Workers(2).Build());
    LoseAPodThatHasFailed(world);
    world.clock.Step(step);
    world.clock.Advance(seconds(9));
    world.Settle();
    EXPECT_EQ(world.Job()->status.restarts, api::RestartCounts{}) << "a peer may be the cause";
    world.clock.Advance(seconds(1));
    world.Settle();
    EXPECT_EQ(world.Job()->status.restarts, (api::RestartCounts{1, 0, 1}));
  }
}

// The job grows again at the very moment of the delete, and what follows is seen step by step.
TEST(ReconcilerTest, AWorkerThatIsWantedAgainWhileItEndsIsNotLost) {
  World world(Job("j")
                  .Workers(4)
                  .ParameterServers(1)
                  .Strategy(api::StrategyType::kParameterServer)
                  .RestartScope(api::RestartScope::kGang)
                  .With([](api::TrainingJob& job) { job.spec.elastic = api::ElasticSpec{1, 4}; })
                  .Build());
  world.client.SetScheduler([](const kube::Object& /*pod*/) { return "node"; });
  world.Settle();
  for (const kube::Object& pod : world.Pods()) world.SetPod(kube::Name(pod), "Running");
  world.Settle();
  int generation = 1;
  const auto scale = [&world, &generation](int workers) {
    world.client.Modify(kTrainingJobKind, world.key, [&](kube::Object& job) {
      job["spec"]["replicaSpecs"]["Worker"]["replicas"] = workers;
      job["metadata"]["generation"] = ++generation;
    });
  };
  world.client.SetBefore([&scale](const HookedClient::Call& call) {
    if (call.verb == "delete") scale(4);
    return absl::OkStatus();
  });
  scale(3);
  world.Settle();
  const kube::Key name{"default", "j-worker-3"};
  const std::string first = kube::Uid(*world.client.Get(kube::kPodKind, name));
  ASSERT_TRUE(kube::IsBeingDeleted(*world.client.Get(kube::kPodKind, name)));
  world.SetPod("j-worker-3", "Succeeded");
  world.Settle();
  world.client.Remove(kube::kPodKind, name);
  world.Settle();
  EXPECT_NE(kube::Uid(*world.client.Get(kube::kPodKind, name)), first);
  const api::TrainingJobStatus status = world.Job()->status;
  EXPECT_EQ(status.restarts, api::RestartCounts{});
  EXPECT_EQ(status.attempt, 0);
  EXPECT_THAT(status.completed_indexes, IsEmpty());
}

TEST(ReconcilerTest, AChiefsSuccessIsWrittenBeforeItsPodCanGo) {
  World world(Job("j")
                  .Chief()
                  .Workers(1)
                  .RestartScope(api::RestartScope::kPod)
                  .SuccessPolicy(api::SuccessPolicy::kAllWorkers)
                  .Build());
  world.Settle();
  for (const char* name : {"j-chief-0", "j-worker-0"}) world.SetPod(name, "Running");
  world.Settle();
  world.SetPod("j-chief-0", "Succeeded");
  world.Settle();
  world.client.Remove(kube::kPodKind, {"default", "j-chief-0"});
  world.RestartOperator();
  world.Settle();
  EXPECT_THAT(world.Pods(), SizeIs(1)) << "it is not made again";
  world.SetPod("j-worker-0", "Succeeded");
  world.Settle();
  EXPECT_EQ(world.Job()->status.state, "Succeeded");
}

TEST(ReconcilerTest, HowLongALeaderOutlivesItsPeersIsCountedFromWhenThisProcessSawThemFinish) {
  World world(Job("j").Workers(2).Training().Build());
  world.Settle();
  world.SetPod("j-worker-0", "Running");
  world.SetPod("j-worker-1", "Running");
  world.Settle();
  world.clock.Advance(std::chrono::hours(1));
  world.SetPod("j-worker-1", "Succeeded");
  world.progress.group.awaited = {"worker-1"};
  const std::optional<Duration> next = world.Settle();
  ASSERT_TRUE(next.has_value());
  EXPECT_LE(*next, std::chrono::seconds(15));
  EXPECT_EQ(world.Job()->status.state, "Running");
  world.clock.Advance(std::chrono::seconds(14));
  world.Settle();
  EXPECT_EQ(world.Job()->status.state, "Running");
  world.clock.Advance(std::chrono::seconds(1));
  world.Settle();
  EXPECT_EQ(world.Job()->status.state, "Succeeded");
  EXPECT_EQ(world.Job()->status.attempt, 0);
}

// Terminal pods go at once when somebody cleans up, and the leader takes its time to end.
TEST(ReconcilerTest, APeerWhosePodIsGoneHasFinishedWhenThisProcessSawItFinish) {
  World world(Job("j").Workers(2).Training().Build());
  world.Settle();
  world.SetPod("j-worker-0", "Running");
  world.SetPod("j-worker-1", "Running");
  world.Settle();
  world.clock.Advance(std::chrono::hours(1));
  world.SetPod("j-worker-1", "Succeeded");
  world.Settle();
  world.clock.Advance(seconds(5));
  world.client.Remove(kube::kPodKind, {"default", "j-worker-1"});
  world.Settle();
  world.clock.Advance(seconds(54));
  world.Settle();
  EXPECT_EQ(world.Job()->status.state, "Running");
  world.clock.Advance(seconds(1));
  world.Settle();
  EXPECT_EQ(world.Job()->status.state, "Succeeded") << "the leader does not end";
}

TEST(ReconcilerTest, NothingIsWrittenBeforeTheCachesHaveSeenTheLastWrites) {
  World world(Job("j").Workers(2).Build());
  ASSERT_TRUE(world.Reconcile().ok());
  const std::size_t writes = world.client.writes().size();
  for (const kube::Kind& kind : {kTrainingJobKind, kube::kPodKind, kube::kServiceKind}) {
    EXPECT_EQ(*world.Reconcile(), seconds(1));
    EXPECT_THAT(world.client.writes(), SizeIs(writes));
    world.Sync(kind, 1000);
  }
  EXPECT_EQ(*world.Reconcile(), seconds(10));  // for the counts, which may wait
  EXPECT_THAT(world.client.writes(), SizeIs(writes));
}

// Also those that are too large to be held: what a write leaves out would count as taken away from
// whoever applied it.
TEST(ReconcilerTest, AStatusIsSentWithAllMetadataAndNoSpec) {
  for (const std::size_t size : {10, 10'000}) {
    auto job = Job("j").Workers(1).Build();
    job.metadata.labels = {{"team", "a"}};
    job.metadata.annotations = {{"note", std::string(size, 'x')}};
    World world(job);
    std::vector<kube::Object> sent;
    world.client.SetBefore([&sent](const HookedClient::Call& call) {
      if (call.verb == "update-status") sent.push_back(*call.object);
      return absl::OkStatus();
    });
    ASSERT_TRUE(world.Reconcile().ok());
    ASSERT_THAT(sent, SizeIs(1));
    EXPECT_FALSE(sent[0].contains("spec"));
    EXPECT_EQ(kube::Label(sent[0], "team"), "a");
    EXPECT_EQ(sent[0]["metadata"]["annotations"]["note"], std::string(size, 'x'));
    EXPECT_EQ(world.client.Count("get", "TrainingJob"), size > 4096 ? 1 : 0);
    EXPECT_EQ(sent[0]["status"]["state"], "Pending");
    EXPECT_EQ(world.Job()->spec.replica_specs.at(api::Role::kWorker).replicas, 1);
  }
}

// Several jobs of one pod each: j0, j1, ...
struct Jobs {
  static constexpr int kCount = 5;

  Jobs(double status_rate, int status_burst)
      : world(Job("j0").Workers(1).Build(),
              {.parallel_calls = 1, .status_rate = status_rate, .status_burst = status_burst}) {
    for (int i = 1; i < kCount; ++i) {
      const auto job = Job("j" + std::to_string(i)).Workers(1).Build();
      EXPECT_TRUE(world.client.Create(kTrainingJobKind, api::TrainingJobToJson(job)).ok());
    }
  }
  // When each wants to be looked at again, once its pod is there.
  std::vector<std::optional<Duration>> Reconcile() {
    std::vector<std::optional<Duration>> delays;
    for (int round = 0; round < 2; ++round) {
      delays.clear();
      world.SyncAll();
      for (int i = 0; i < kCount; ++i) {
        const auto delay = world.reconciler->Reconcile({"default", "j" + std::to_string(i)});
        EXPECT_TRUE(delay.ok()) << delay.status();
        delays.push_back(delay.ok() ? *delay : std::nullopt);
      }
    }
    return delays;
  }
  int Statuses() const { return Writes(world, "update-status", "TrainingJob"); }

  World world;
};

TEST(ReconcilerTest, StatusesThatCanWaitTakeTurnsAndPodsDoNot) {
  Jobs jobs(/*status_rate=*/1, /*status_burst=*/2);
  EXPECT_THAT(jobs.Reconcile(),
              ElementsAre(seconds(10), seconds(10), seconds(1), seconds(2), seconds(3)));
  EXPECT_THAT(jobs.world.Pods(), SizeIs(Jobs::kCount));
  EXPECT_EQ(jobs.Statuses(), 2);
  jobs.world.clock.Advance(seconds(2));
  jobs.Reconcile();
  EXPECT_EQ(jobs.Statuses(), 4);
  jobs.world.SetPod("j4-worker-0", "Running");
  jobs.Reconcile();
  EXPECT_EQ(jobs.Statuses(), 5) << "a condition does not wait";
}

TEST(ReconcilerTest, FirstSightsAndReasonsGoAheadOfCounts) {
  Jobs jobs(/*status_rate=*/0.01, /*status_burst=*/Jobs::kCount);
  const auto set_all = [&jobs](const char* ready) {
    for (int i = 0; i < Jobs::kCount; ++i) {
      jobs.world.client.Modify(
          kube::kPodKind, {"default", "j" + std::to_string(i) + "-worker-0"},
          [ready](kube::Object& pod) {
            pod["status"]["phase"] = "Running";
            pod["status"]["conditions"] = {{{"type", "Ready"}, {"status", ready}}};
          });
    }
    jobs.Reconcile();
  };
  jobs.Reconcile();
  set_all("True");
  jobs.world.clock.Advance(seconds(1000));
  const int before = jobs.Statuses();
  set_all("False");
  EXPECT_EQ(jobs.Statuses(), before + Jobs::kCount);
  jobs.world.clock.Advance(seconds(20));
  set_all("True");
  EXPECT_EQ(jobs.Statuses(), before + Jobs::kCount) << "counts have used up their turns";
  ASSERT_TRUE(jobs.world.client
                  .Create(kTrainingJobKind, api::TrainingJobToJson(Job("new").Workers(1).Build()))
                  .ok());
  jobs.world.SyncAll();
  ASSERT_TRUE(jobs.world.reconciler->Reconcile({"default", "new"}).ok());
  EXPECT_EQ(jobs.Statuses(), before + Jobs::kCount + 1) << "a first sight does not wait for counts";
}

TEST(ReconcilerTest, ATurnIsKeptUntilAStatusIsWritten) {
  Jobs jobs(/*status_rate=*/1, /*status_burst=*/1);
  const auto set_ready = [&jobs](const std::string& pod, const char* ready) {
    jobs.world.client.Modify(kube::kPodKind, {"default", pod}, [ready](kube::Object& object) {
      object["status"]["conditions"][0]["status"] = ready;
    });
  };
  jobs.Reconcile();
  for (int i = 0; i < Jobs::kCount; ++i) {
    jobs.world.SetPod("j" + std::to_string(i) + "-worker-0", "Running");
  }
  jobs.Reconcile();
  jobs.world.clock.Advance(seconds(20));
  set_ready("j0-worker-0", "False");
  set_ready("j1-worker-0", "False");
  EXPECT_EQ(jobs.Reconcile().at(1), seconds(1));
  set_ready("j1-worker-0", "True");
  EXPECT_EQ(jobs.Reconcile().at(1), std::nullopt) << "as written";
  set_ready("j1-worker-0", "False");
  set_ready("j2-worker-0", "False");
  const auto delays = jobs.Reconcile();
  EXPECT_EQ(delays.at(1), seconds(1));
  EXPECT_EQ(delays.at(2), seconds(2));
}

TEST(ReconcilerTest, ASlowServersTurnsAreFartherApart) {
  Jobs jobs(/*status_rate=*/1000, /*status_burst=*/1);
  jobs.world.client.SetAfter([&jobs](const HookedClient::Call& call) {
    const bool is_first = call.verb == "update-status" && call.name == "j0";
    if (is_first) jobs.world.clock.Advance(seconds(8));
    return absl::OkStatus();
  });
  EXPECT_THAT(jobs.Reconcile(), ElementsAre(seconds(2), seconds(10), milliseconds(100),
                                            milliseconds(200), milliseconds(300)));
}

// Fails creates of pods with `fault` until it is Ok.
void RefusePods(World& world, const absl::Status& fault) {
  world.client.SetBefore([fault](const HookedClient::Call& call) {
    return call.verb == "create" && call.kind == "Pod" ? fault : absl::OkStatus();
  });
}

TEST(ReconcilerTest, ARefusalThatMayPassIsReportedInStatusAndRetried) {
  World world(Job("j").Workers(2).Build());
  RefusePods(world, absl::PermissionDeniedError("create pods j-worker-0: exceeded quota"));
  for (int i = 0; i < 3; ++i) {
    world.SyncAll();
    EXPECT_TRUE(absl::IsPermissionDenied(world.Reconcile().status()));
    world.clock.Advance(seconds(1));
  }
  const api::TrainingJobStatus status = world.Job()->status;
  const api::Condition* running = FindCondition(status, kRunning);
  EXPECT_EQ(running->reason, "CreateFailed");
  EXPECT_EQ(running->message, "create pods j-worker-0: exceeded quota");
  EXPECT_THAT(world.EventReasons(), ElementsAre("CreateFailed"));
  EXPECT_EQ(Writes(world, "update-status", "TrainingJob"), 1) << "told once";
  RefusePods(world, absl::OkStatus());
  world.clock.Advance(seconds(1));
  world.Settle();
  EXPECT_THAT(world.Pods(), SizeIs(2));
  world.clock.Advance(seconds(10));
  world.Settle();
  EXPECT_EQ(FindCondition(world.Job()->status, kRunning)->reason, "PodsNotReady");
}

TEST(ReconcilerTest, APodThatTheServerFindsInvalidFailsTheJob) {
  World world(Job("j").Workers(1).Build());
  RefusePods(world, absl::InvalidArgumentError("create pods j-worker-0: image: Required value"));
  world.SyncAll();
  EXPECT_FALSE(world.Reconcile().ok());
  world.Settle();
  EXPECT_EQ(FindCondition(world.Job()->status, kFailed)->reason, "PodRejected");
  EXPECT_EQ(FindCondition(world.Job()->status, kFailed)->message,
            "create pods j-worker-0: image: Required value");
}

// What has changed is around the job: a webhook adds to its pods, or the server is another version.
TEST(ReconcilerTest, AJobThatHasRunOutlivesAReplacementThatTheServerFindsInvalid) {
  World world(Job("j").Workers(2).RestartScope(api::RestartScope::kPod).Build());
  world.Settle();
  for (const char* name : {"j-worker-0", "j-worker-1"}) world.SetPod(name, "Running");
  world.Settle();
  ASSERT_TRUE(world.client.Delete(kube::kPodKind, {"default", "j-worker-1"}, "").ok());
  RefusePods(world, absl::InvalidArgumentError("create pods j-worker-1: Pod is invalid"));
  for (int i = 0; i < 10; ++i) {
    world.SyncAll();
    (void)world.Reconcile();
    world.clock.Advance(seconds(10));
  }
  EXPECT_EQ(FindCondition(world.Job()->status, kFailed), nullptr);
  EXPECT_EQ(FindCondition(world.Job()->status, kRunning)->reason, "CreateFailed");
  EXPECT_EQ(FindCondition(world.Job()->status, kRunning)->message,
            "create pods j-worker-1: Pod is invalid");
  EXPECT_THAT(world.Pods(), SizeIs(1)) << "the healthy pod stays";
  RefusePods(world, absl::OkStatus());
  world.clock.Advance(seconds(60));
  world.Settle();
  EXPECT_THAT(world.Pods(), SizeIs(2));
}

// Fails creates of the workers' pods.
void RefuseWorkers(World& world, const absl::Status& fault) {
  world.client.SetBefore([fault](const HookedClient::Call& call) {
    const bool is_worker =
        call.verb == "create" && kube::Label(*call.object, api::kLabelRole) == "worker";
    return is_worker ? fault : absl::OkStatus();
  });
}

// That pods of another role have been accepted says nothing of this role's template.
TEST(ReconcilerTest, ARoleWhosePodsAreInvalidFailsAJobThatHasPodsOfAnother) {
  World world(Job("j").Chief().Workers(1).Build());
  RefuseWorkers(world, absl::UnavailableError("no answer (503)"));
  world.SyncAll();
  EXPECT_FALSE(world.Reconcile().ok());
  ASSERT_THAT(world.Pods(), SizeIs(1));
  world.clock.Advance(seconds(60));
  RefuseWorkers(world, absl::InvalidArgumentError("Pod is invalid"));
  world.SyncAll();
  EXPECT_FALSE(world.Reconcile().ok());
  EXPECT_EQ(FindCondition(world.Job()->status, kFailed)->reason, "PodRejected");
}

TEST(ReconcilerTest, AStatusThatTheServerFindsInvalidIsWrittenWithoutWhatPodsReported) {
  World world(Job("j").Workers(1).Training().ActiveDeadlineSeconds(100).Build());
  world.Settle();
  world.SetPod("j-worker-0", "Running");
  world.Settle();
  world.client.SetBefore([](const HookedClient::Call& call) {
    const bool lies =
        call.verb == "update-status" && call.object->at("status").contains("progress");
    return lies ? absl::InvalidArgumentError("status.progress: Invalid value") : absl::OkStatus();
  });
  world.progress.answer.emplace().step = 1;
  world.clock.Advance(seconds(100));
  world.SyncAll();
  (void)world.Reconcile();
  EXPECT_EQ(FindCondition(world.Job()->status, kFailed)->reason, "DeadlineExceeded");
}

// As of a job whose metadata is so large that no status fits.
HookedClient::Hook RefuseStatuses() {
  return [](const HookedClient::Call& call) {
    const bool refused = call.verb == "update-status";
    return refused ? absl::FailedPreconditionError("etcdserver: request is too large")
                   : absl::OkStatus();
  };
}

void ReconcileThrice(World& world) {
  for (int i = 0; i < 3; ++i) {
    world.SyncAll();
    (void)world.Reconcile();
  }
}

TEST(ReconcilerTest, AJobIsSuspendedThoughTheServerRefusesItsStatus) {
  World world(Job("j").Workers(2).Build());
  world.Settle();
  for (const char* name : {"j-worker-0", "j-worker-1"}) world.SetPod(name, "Running");
  world.Settle();
  const auto suspend = [&world](bool value) {
    world.client.Modify(kTrainingJobKind, world.key,
                        [value](kube::Object& job) { job["spec"]["suspend"] = value; });
  };
  world.client.SetBefore(RefuseStatuses());
  suspend(true);
  ReconcileThrice(world);
  EXPECT_THAT(world.Pods(), IsEmpty());
  EXPECT_THAT(world.EventReasons(), ElementsAre("Running", "StatusRefused"));
  suspend(false);
  ReconcileThrice(world);
  EXPECT_THAT(world.Pods(), IsEmpty()) << "pods that nothing could stop";
  suspend(true);
  world.client.SetBefore({});
  world.Settle();
  EXPECT_EQ(world.Job()->status.state, "Suspended");
  suspend(false);
  world.Settle();
  EXPECT_THAT(world.Pods(), SizeIs(2));
}

TEST(ReconcilerTest, AStatusWhoseAnswerWasLostReplacesTheOneThatWasRefused) {
  World world(Job("j").Workers(2).Build());
  world.Settle();
  const auto suspend = [&world](bool value) {
    world.client.Modify(kTrainingJobKind, world.key,
                        [value](kube::Object& job) { job["spec"]["suspend"] = value; });
  };
  world.client.SetBefore(RefuseStatuses());
  suspend(true);
  ReconcileThrice(world);
  world.client.SetBefore({});
  world.client.SetAfter([](const HookedClient::Call& call) {
    return call.verb == "update-status" ? absl::UnavailableError("no answer") : absl::OkStatus();
  });
  suspend(false);
  world.SyncAll();
  EXPECT_FALSE(world.Reconcile().ok());
  const auto start = world.Job()->status.start_time;
  ASSERT_TRUE(start);
  world.client.SetAfter({});
  world.clock.Advance(seconds(10));
  world.Settle();
  EXPECT_EQ(world.Job()->status.start_time, start) << "the job is resumed once";
  EXPECT_THAT(world.Pods(), SizeIs(2));
}

TEST(ReconcilerTest, AJobPastItsDeadlineEndsAndGoesThoughTheServerRefusesItsStatus) {
  World world(Job("j").Workers(1).ActiveDeadlineSeconds(100).TtlSecondsAfterFinished(50).Build());
  world.Settle();
  world.SetPod("j-worker-0", "Running");
  world.Settle();
  world.client.SetBefore(RefuseStatuses());
  world.clock.Advance(seconds(100));
  ReconcileThrice(world);
  EXPECT_THAT(world.Pods(), IsEmpty());
  world.clock.Advance(seconds(49));
  ReconcileThrice(world);
  EXPECT_TRUE(world.Job());
  world.clock.Advance(seconds(1));
  ReconcileThrice(world);
  EXPECT_FALSE(world.Job()) << "its time to live has passed";
}

TEST(ReconcilerTest, ACreateThatFailsForNoFaultOfTheJobIsReportedWhenItFailsAgain) {
  for (const absl::Status& fault :
       {absl::UnavailableError("failed calling webhook: no endpoints available (500)"),
        absl::DeadlineExceededError("no answer within 30 s"),
        absl::ResourceExhaustedError("too many requests (429)")}) {
    World world(Job("j").Workers(1).Build());
    RefusePods(world, fault);
    world.SyncAll();
    EXPECT_FALSE(world.Reconcile().ok());
    EXPECT_EQ(Writes(world, "update-status", "TrainingJob"), 0) << "it may pass";
    world.clock.Advance(seconds(1));
    world.SyncAll();
    EXPECT_FALSE(world.Reconcile().ok());
    const api::TrainingJobStatus status = world.Job()->status;
    EXPECT_EQ(FindCondition(status, kRunning)->reason, "CreateFailed");
    EXPECT_EQ(FindCondition(status, kRunning)->message, std::string(fault.message()));
    EXPECT_THAT(world.EventReasons(), ElementsAre("CreateFailed"));
    RefusePods(world, absl::OkStatus());
    world.clock.Advance(seconds(10));
    world.Settle();
    EXPECT_THAT(world.Pods(), SizeIs(1));
  }
}

TEST(ReconcilerTest, AWebhooksRefusalIsNotTakenForASchemas) {
  World world(Job("j").Workers(1).Build());
  RefusePods(world, absl::FailedPreconditionError(
                        "create pods j-worker-0: admission webhook \"x\" denied it (400)"));
  for (int i = 0; i < 3; ++i) {
    world.SyncAll();
    (void)world.Reconcile();
    world.clock.Advance(seconds(60));
  }
  EXPECT_EQ(world.Job()->status.state, "Pending");
  EXPECT_EQ(FindCondition(world.Job()->status, kRunning)->reason, "CreateFailed");
  RefusePods(world, absl::OkStatus());
  world.Settle();
  EXPECT_THAT(world.Pods(), SizeIs(1));
}

// A quota for so many pods.
void SetQuota(World& world, std::size_t pods) {
  world.client.SetBefore([&world, pods](const HookedClient::Call& call) {
    const bool is_pod = call.verb == "create" && call.kind == "Pod";
    if (!is_pod || world.Pods().size() < pods) return absl::OkStatus();
    return absl::PermissionDeniedError("exceeded quota");
  });
}

TEST(ReconcilerTest, AQuotaThatIsSpentCostsOneCallATry) {
  World world(Job("j").Workers(200).Build());
  SetQuota(world, 10);
  world.SyncAll();
  EXPECT_FALSE(world.Reconcile().ok());
  EXPECT_THAT(world.Pods(), SizeIs(10));
  EXPECT_EQ(Writes(world, "create", "Pod"), 11) << "it stops at the first refusal";
  for (int i = 0; i < 10; ++i) {
    world.clock.Advance(std::chrono::minutes(1));
    world.SyncAll();
    EXPECT_FALSE(world.Reconcile().ok());
    EXPECT_EQ(Writes(world, "create", "Pod"), 12 + i);
  }
  // Once there is room it starts slowly, and then gets on.
  SetQuota(world, 200);
  world.clock.Advance(std::chrono::minutes(1));
  world.Settle();
  EXPECT_THAT(world.Pods(), SizeIs(200));
}

TEST(ReconcilerTest, AfterARefusalPodsAreCreatedInGrowingSteps) {
  World world(Job("j").Workers(100).Build(), {.parallel_calls = 8});
  SetQuota(world, 0);
  world.SyncAll();
  EXPECT_FALSE(world.Reconcile().ok());
  EXPECT_LE(Writes(world, "create", "Pod"), 8) << "those that were under way together";
  SetQuota(world, 3);
  world.clock.Advance(std::chrono::minutes(1));
  world.SyncAll();
  const int before = Writes(world, "create", "Pod");
  EXPECT_FALSE(world.Reconcile().ok());
  EXPECT_LE(Writes(world, "create", "Pod") - before, 1 + 2 + 4) << "steps of 1, 2 and 4";
}

TEST(ReconcilerTest, ChangesOfThePodsThatThereAreDoNotShortenTheBackOff) {
  World world(Job("j").Workers(20).Build());
  SetQuota(world, 3);
  for (int i = 0; i < 9; ++i) {
    world.SyncAll();
    (void)world.Reconcile();
    world.clock.Advance(std::chrono::minutes(1));
  }
  world.SyncAll();
  (void)world.Reconcile();
  const int tried = Writes(world, "create", "Pod");
  for (int i = 0; i < 3; ++i) {
    world.SetPod("j-worker-" + std::to_string(i), "Running");
    world.SyncAll();
    const auto result = world.Reconcile();
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(Writes(world, "create", "Pod"), tried);
    ASSERT_TRUE(result->has_value());
    EXPECT_GT(**result, Duration::zero());
    EXPECT_LE(**result, Duration(seconds(30)));
    world.clock.Advance(seconds(1));
  }
  EXPECT_EQ(FindCondition(world.Job()->status, kRunning)->reason, "CreateFailed");
}

TEST(ReconcilerTest, ALargeJobIsCreatedInSeveralReconciles) {
  World world(Job("j").Workers(100).Build(), {.most_actions = 30, .parallel_calls = 1});
  world.SyncAll();
  EXPECT_EQ(*world.Reconcile(), milliseconds(1));
  EXPECT_THAT(world.Pods(), SizeIs(29)) << "and a service";
  world.Settle();
  EXPECT_THAT(world.Pods(), SizeIs(100));
}

// Each call may wait for its turn (--kube-api-qps), or for a slow webhook.
TEST(ReconcilerTest, ASlowServerIsCalledForAMinuteAtATime) {
  World world(Job("j").Workers(20).Build());
  world.client.SetBefore([&world](const HookedClient::Call& call) {
    if (call.verb == "create") world.clock.Advance(seconds(20));
    return absl::OkStatus();
  });
  world.SyncAll();
  EXPECT_EQ(*world.Reconcile(), milliseconds(1));
  EXPECT_THAT(world.Pods(), SizeIs(2)) << "and a service";
  world.Settle();
  EXPECT_THAT(world.Pods(), SizeIs(20));
}

// A webhook or a quota for the accelerators of one role.
TEST(ReconcilerTest, ARefusedEvaluatorDelaysNoOtherRole) {
  World world(Job("j").Workers(2).Evaluator().Build(), {.parallel_calls = 1});
  world.client.SetBefore([](const HookedClient::Call& call) {
    return call.verb == "create" && call.name == "j-evaluator-0"
               ? absl::PermissionDeniedError("create pods j-evaluator-0: exceeded quota")
               : absl::OkStatus();
  });
  const auto reconcile = [&world] {
    world.SyncAll();
    (void)world.Reconcile();
  };
  for (int i = 0; i < 9; ++i) {
    reconcile();
    world.clock.Advance(seconds(30));
  }
  reconcile();
  ASSERT_THAT(world.Pods(), SizeIs(2));
  const int tried = Writes(world, "create", "Pod");
  ASSERT_TRUE(world.client.Delete(kube::kPodKind, {"default", "j-worker-1"}, "").ok());
  reconcile();
  EXPECT_THAT(world.Pods(), SizeIs(2)) << "the Evaluator's back-off is not the workers'";
  EXPECT_EQ(Writes(world, "create", "Pod"), tried + 1);
  EXPECT_EQ(FindCondition(world.Job()->status, kRunning)->message,
            "create pods j-evaluator-0: exceeded quota");
  world.client.SetBefore({});
  world.clock.Advance(seconds(30));
  reconcile();
  EXPECT_THAT(world.Pods(), SizeIs(3));
}

TEST(ReconcilerTest, ARefusedPodStopsThoseOfItsRoleAlone) {
  World world(Job("j").Chief().Workers(20).ParameterServers(2).Build(), {.parallel_calls = 1});
  RefuseWorkers(world, absl::PermissionDeniedError("exceeded quota"));
  world.SyncAll();
  EXPECT_FALSE(world.Reconcile().ok());
  EXPECT_THAT(world.Pods(), SizeIs(3));
  EXPECT_EQ(Writes(world, "create", "Pod"), 4) << "one of the workers'";
}

// Returns worker 0's pod of the world's job, of which only the metadata can be read.
kube::Object BarePod(World& world) {
  kube::Object pod = {{"metadata", {{"name", "j-worker-0"}, {"namespace", "default"}}}};
  pod["metadata"]["labels"][api::kLabelJobUid] = world.Job()->metadata.uid;
  pod["metadata"]["ownerReferences"] = {{{"apiVersion", api::kApiVersion},
                                         {"kind", api::kKind},
                                         {"name", "j"},
                                         {"uid", world.Job()->metadata.uid},
                                         {"controller", true}}};
  return pod;
}

// The watch does not show it: it selects by that label.
TEST(ReconcilerTest, APodOfTheJobWithoutItsLabelIsReportedAndReplaced) {
  for (const char* label : {"", "another"}) {
    World world(Job("j").Workers(1).Build());
    world.SyncAll();
    kube::Object pod = BarePod(world);
    pod["metadata"]["labels"][api::kLabelJobUid] = label;
    world.client.Add(kube::kPodKind, pod);
    EXPECT_FALSE(world.Reconcile().ok());
    EXPECT_EQ(FindCondition(world.Job()->status, kRunning)->message,
              "pods j-worker-0 lacks the label training.lockstep.dev/job-uid=" +
                  world.Job()->metadata.uid + ", so the operator deletes it");
    EXPECT_EQ(Writes(world, "delete", "Pod"), 1);
    world.clock.Advance(seconds(1));
    world.Settle();
    ASSERT_THAT(world.Pods(), SizeIs(1));
    EXPECT_EQ(kube::Label(world.Pods()[0], api::kLabelJobUid), world.Job()->metadata.uid);
  }
}

kube::Object WithoutLabel(World& world, kube::Object object) {
  object["metadata"]["name"] = "j";
  object["metadata"]["namespace"] = "default";
  object["metadata"]["ownerReferences"] = BarePod(world)["metadata"]["ownerReferences"];
  return object;
}

TEST(ReconcilerTest, AServiceOfTheJobWithoutItsLabelIsReportedAndLeft) {
  World world(Job("j").Workers(1).Build());
  world.SyncAll();
  world.client.Add(kube::kServiceKind, WithoutLabel(world, {{"spec", {{"clusterIP", "None"}}}}));
  world.Settle();
  EXPECT_THAT(world.Pods(), SizeIs(1));
  EXPECT_THAT(world.EventReasons(), ElementsAre("LabelMissing"));
  world.SetPod("j-worker-0", "Running");
  world.Settle();
  world.clock.Advance(seconds(60));
  world.Settle();
  EXPECT_EQ(Writes(world, "create", "Service"), 1) << "not in each reconcile";
  EXPECT_EQ(Writes(world, "delete", "Service"), 0);
}

TEST(ReconcilerTest, AWorkloadOrPodGroupOfTheJobWithoutItsLabelIsReportedAndReplaced) {
  World world(Job("j").Workers(1).Build(), {.gang_scheduler_name = "volcano"});
  world.SyncAll();
  const kube::Kind& kind = PodGroupKind({.gang_scheduler_name = "volcano"});
  world.client.Add(kind, WithoutLabel(world, {{"spec", {{"minMember", 1}}}}));
  EXPECT_FALSE(world.Reconcile().ok());
  EXPECT_EQ(FindCondition(world.Job()->status, kRunning)->message,
            "podgroups j lacks the label training.lockstep.dev/job-uid=" +
                world.Job()->metadata.uid + ", so the operator deletes it");
  world.clock.Advance(seconds(1));
  world.Settle();
  EXPECT_THAT(world.Pods(), SizeIs(1));
}

TEST(ReconcilerTest, APodThatExistsButCannotBeReadIsReported) {
  World world(Job("j").Workers(1).Build());
  world.client.Add(kube::kPodKind, BarePod(world));
  world.SyncAll();
  EXPECT_FALSE(world.Reconcile().ok());
  EXPECT_EQ(FindCondition(world.Job()->status, kRunning)->message,
            "pods j-worker-0 exists and cannot be read");
}

TEST(ReconcilerTest, AMemberOnASilentNodeThatItsGroupMissesIsReplacedElsewhere) {
  World world(Job("j").Workers(2).Training().Build(), {.parallel_calls = 1, .watch_nodes = true});
  std::string node = "b";  // of worker 1
  world.client.SetScheduler(
      [&node](const kube::Object& pod) { return kube::Name(pod) == "j-worker-0" ? "a" : node; });
  for (const char* ready : {"a", "b", "c"}) world.SetNode(ready, "True");
  world.Settle();
  for (const char* pod : {"j-worker-0", "j-worker-1"}) world.SetPod(pod, "Running");
  world.Settle();
  const std::string uid = kube::Uid(*world.client.Get(kube::kPodKind, {"default", "j-worker-1"}));
  world.progress.group.missing = {"worker-1"};
  world.Settle();
  EXPECT_EQ(Writes(world, "force-delete", "Pod"), 0) << "its node is well";
  world.SetNode("b", "Unknown");
  node = "c";
  world.nodes_are_current = false;
  world.Settle();
  EXPECT_EQ(Writes(world, "force-delete", "Pod"), 0) << "it may be well by now";
  world.nodes_are_current = true;
  world.Settle();
  EXPECT_EQ(Writes(world, "force-delete", "Pod"), 1);
  EXPECT_NE(kube::Uid(*world.client.Get(kube::kPodKind, {"default", "j-worker-1"})), uid);
  EXPECT_EQ(world.Job()->status.restarts, (api::RestartCounts{0, 1, 1}));
  EXPECT_EQ(world.Job()->status.attempt, 0) << "the others keep what they have";
}

// Two workers run; the node of worker 1 has just become silent.
std::unique_ptr<World> WorkerOneOnASilentNode() {
  auto world =
      std::make_unique<World>(Job("j").Workers(2).RestartScope(api::RestartScope::kPod).Build(),
                              Settings{.parallel_calls = 1, .watch_nodes = true});
  world->client.SetScheduler(
      [](const kube::Object& pod) { return kube::Name(pod) == "j-worker-0" ? "a" : "b"; });
  for (const char* node : {"a", "b", "c"}) world->SetNode(node, "True");
  world->Settle();
  for (const char* pod : {"j-worker-0", "j-worker-1"}) world->SetPod(pod, "Running");
  world->SetNode("b", "Unknown");
  return world;
}

// No change of the node brings the job back when the watch goes on.
TEST(ReconcilerTest, ANodeThatIsSilentAfterAStalledWatchLosesItsPodsToo) {
  const auto owned = WorkerOneOnASilentNode();
  World& world = *owned;
  world.Settle();
  world.nodes_are_current = false;
  world.clock.Advance(seconds(100));
  const std::optional<Duration> look = world.Settle();
  EXPECT_EQ(look, seconds(10));
  world.nodes_are_current = true;
  world.clock.Advance(seconds(10));
  EXPECT_EQ(world.Settle(), seconds(120));
  EXPECT_EQ(Writes(world, "force-delete", "Pod"), 0);
  world.clock.Advance(seconds(120));
  world.Settle();
  EXPECT_EQ(Writes(world, "force-delete", "Pod"), 1);
}

// Two workers; the group misses worker 1, which runs on node `b`.
std::unique_ptr<World> MissingWorkerOne() {
  auto world = std::make_unique<World>(
      Job("j").Workers(2).Training().Build(),
      Settings{.parallel_calls = 1, .status_interval = std::chrono::hours(1), .watch_nodes = true});
  world->client.SetScheduler(
      [](const kube::Object& pod) { return kube::Name(pod) == "j-worker-0" ? "a" : "b"; });
  world->SetNode("a", "True");
  world->progress.group.missing = {"worker-1"};
  world->Settle();
  for (const char* pod : {"j-worker-0", "j-worker-1"}) world->SetPod(pod, "Running");
  world->Settle();
  return world;
}

// Lets the time pass; after the first look, the operator looks at the job when it has asked for it.
// Returns how many pods it has deleted by force so far.
int DeletedByForceAfter(World& world, Duration time) {
  std::optional<Duration> next = world.Settle();
  while (next && *next <= time) {
    world.clock.Advance(*next);
    time -= *next;
    next = world.Settle();
  }
  world.clock.Advance(time);
  return Writes(world, "force-delete", "Pod");
}

// The watch of nodes is behind that of pods.
TEST(ReconcilerTest, ANodeThatIsNotKnownYetIsNotADeletedOne) {
  const auto world = MissingWorkerOne();
  EXPECT_EQ(DeletedByForceAfter(*world, seconds(89)), 0);
  world->SetNode("b", "True");
  EXPECT_EQ(DeletedByForceAfter(*world, seconds(600)), 0);
  world->client.Remove(kNodeKind, {"", "b"});
  world->Settle();
  EXPECT_EQ(Writes(*world, "force-delete", "Pod"), 1) << "it was known";
}

TEST(ReconcilerTest, ANodeThatWasDeletedBeforeTheOperatorsStartIsSilentOnceThatIsCertain) {
  const auto world = MissingWorkerOne();
  EXPECT_EQ(DeletedByForceAfter(*world, seconds(50)), 0);
  world->nodes_are_current = false;
  EXPECT_EQ(DeletedByForceAfter(*world, seconds(200)), 0);
  world->nodes_are_current = true;
  EXPECT_EQ(DeletedByForceAfter(*world, seconds(80)), 0);
  EXPECT_EQ(DeletedByForceAfter(*world, seconds(20)), 1);

  World other(Job("j").Workers(1).Build(), {.parallel_calls = 1, .watch_nodes = true});
  other.client.SetScheduler([](const kube::Object& /*pod*/) { return "gone"; });
  EXPECT_EQ(DeletedByForceAfter(other, seconds(119)), 0);
  EXPECT_EQ(DeletedByForceAfter(other, seconds(1)), 1) << "its silence began when it was missed";
}

TEST(ReconcilerTest, AnEndedJobsPodsAreDeletedThoughTheJobCannotBe) {
  for (const auto& answer :
       {absl::FailedPreconditionError("denied"), absl::UnavailableError("webhook is down")}) {
    World world(Job("j").Workers(2).ActiveDeadlineSeconds(60).TtlSecondsAfterFinished(0).Build());
    world.Settle();
    for (const char* pod : {"j-worker-0", "j-worker-1"}) world.SetPod(pod, "Running");
    world.Settle();
    world.client.SetBefore([&answer](const HookedClient::Call& call) {
      return call.verb == "delete" && call.kind == "TrainingJob" ? answer : absl::OkStatus();
    });
    world.clock.Advance(seconds(61));
    for (int i = 0; i < 6; ++i) {
      world.SyncAll();
      (void)world.Reconcile();
      world.clock.Advance(seconds(10));
    }
    EXPECT_EQ(world.Job()->status.state, "Failed");
    EXPECT_THAT(world.Pods(), IsEmpty()) << answer;
    world.client.SetBefore({});
    world.SyncAll();
    (void)world.Reconcile();
    EXPECT_FALSE(world.Job().has_value());
  }
}

// The kubelets, but not the operator, have lost the API server. Kubernetes evicts nobody then.
TEST(ReconcilerTest, NoPodIsReplacedWhileMostNodesAreNotReady) {
  World world(Job("j").Workers(4).Training().Build(), {.parallel_calls = 1, .watch_nodes = true});
  world.client.SetScheduler([](const kube::Object& pod) {
    return std::string("node-") + kube::Name(pod).back();  // j-worker-3: node-3
  });
  const auto set_nodes = [&world](std::vector<int> indexes, const char* ready) {
    for (const int index : indexes) world.SetNode("node-" + std::to_string(index), ready);
    world.Settle();
  };
  set_nodes({0, 1, 2, 3}, "True");
  for (const kube::Object& pod : world.Pods()) world.SetPod(kube::Name(pod), "Running");
  world.Settle();
  const auto deleted_after = [&world](seconds time) {
    for (seconds passed{0}; passed < time; passed += seconds(1)) {
      world.clock.Advance(seconds(1));
      world.Settle();
    }
    return Writes(world, "delete", "Pod") + Writes(world, "force-delete", "Pod");
  };
  set_nodes({1}, "Unknown");
  EXPECT_EQ(deleted_after(seconds(100)), 0);
  set_nodes({0, 2, 3}, "Unknown");
  EXPECT_EQ(deleted_after(seconds(180)), 0);
  set_nodes({0}, "True");
  EXPECT_EQ(deleted_after(seconds(180)), 0) << "3 of 4 are not ready still";
  EXPECT_EQ(world.Job()->status.restarts, api::RestartCounts());
  set_nodes({2, 3}, "True");
  EXPECT_EQ(deleted_after(seconds(119)), 0) << "node-1 is silent since the outage has ended";
  EXPECT_EQ(deleted_after(seconds(1)), 1);
  EXPECT_EQ(world.Job()->status.restarts, (api::RestartCounts{0, 1, 1}));
}

// The survivor of a power cut gives up waiting for its peers, whose pods nobody replaces yet.
TEST(ReconcilerTest, NobodyIsChargedForGivingUpPeersWhoseNodesAreInAWideOutage) {
  for (const bool bundled : {true, false}) {
    World world(bundled ? Job("j").Workers(4).Training().Build() : Job("j").Workers(4).Build(),
                {.parallel_calls = 1, .watch_nodes = true});
    world.client.SetScheduler(
        [](const kube::Object& pod) { return std::string("node-") + kube::Name(pod).back(); });
    for (const char* node : {"node-0", "node-1", "node-2", "node-3"}) world.SetNode(node, "True");
    world.Settle();
    for (const kube::Object& pod : world.Pods()) world.SetPod(kube::Name(pod), "Running");
    world.Settle();
    for (const char* node : {"node-1", "node-2", "node-3"}) world.SetNode(node, "Unknown");
    world.Settle();
    world.SetPod("j-worker-0", "Failed", bundled ? api::kExitRendezvousDeadline : 1);
    world.Settle();
    world.clock.Advance(seconds(10));
    world.Settle();
    EXPECT_EQ(world.Job()->status.restarts.application, 0) << bundled;
    EXPECT_NE(world.Job()->status.state, "Failed") << bundled;
  }
}

TEST(ReconcilerTest, AGangSchedulerThatIsSwitchedOnLeavesRunningJobsAsTheyAre) {
  World world(Job("j").Workers(3).RestartScope(api::RestartScope::kPod).Build(),
              {.parallel_calls = 1});
  world.Settle();
  for (const kube::Object& pod : world.Pods()) world.SetPod(kube::Name(pod), "Running");
  world.Settle();
  world.RestartOperator({.gang_scheduler_name = "volcano", .parallel_calls = 1});
  world.Settle();
  world.client.Remove(kube::kPodKind, {"default", "j-worker-2"});
  world.Settle();
  const auto pod = world.client.Get(kube::kPodKind, {"default", "j-worker-2"});
  ASSERT_TRUE(pod.ok());
  EXPECT_FALSE(pod->at("spec").contains("schedulerName"));
  EXPECT_FALSE(
      pod->at("metadata").value("annotations", kube::Object::object()).contains(kVolcanoGroup));
  EXPECT_EQ(Writes(world, "create", "PodGroup"), 0);
  // Its next attempt is a gang.
  for (const kube::Object& member : world.Pods()) {
    world.client.Remove(kube::kPodKind, {"default", kube::Name(member)});
  }
  world.client.Modify(kTrainingJobKind, world.key,
                      [](kube::Object& job) { job["spec"]["suspend"] = true; });
  world.Settle();
  world.client.Modify(kTrainingJobKind, world.key,
                      [](kube::Object& job) { job["spec"]["suspend"] = false; });
  world.Settle();
  EXPECT_EQ(Writes(world, "create", "PodGroup"), 1);
}

class OverloadedServerTest : public ::testing::TestWithParam<absl::StatusCode> {};

TEST_P(OverloadedServerTest, NoFurtherDeleteIsBegun) {
  World world(Job("j").Workers(20).Build(), {.parallel_calls = 1});
  world.Settle();
  world.client.Modify(kTrainingJobKind, world.key,
                      [](kube::Object& job) { job["spec"]["suspend"] = true; });
  world.SyncAll();
  int deletes = 0;
  bool answers = false;
  world.client.SetBefore([&](const HookedClient::Call& call) {
    if (call.verb != "delete" || answers) return absl::OkStatus();
    ++deletes;
    world.clock.Advance(std::chrono::seconds(30));
    return kube::MarkOverloaded(absl::Status(GetParam(), "no time"));
  });
  bool ok = true;
  for (int i = 0; i < 5 && deletes == 0; ++i) {  // a status comes first
    ok = world.Reconcile().ok();
    world.SyncAll();
  }
  EXPECT_FALSE(ok);
  EXPECT_EQ(deletes, 1);
  answers = true;
  world.clock.Advance(seconds(1));
  world.Settle();
  EXPECT_TRUE(world.Pods().empty());
}

INSTANTIATE_TEST_SUITE_P(Codes, OverloadedServerTest,
                         ::testing::Values(absl::StatusCode::kDeadlineExceeded,
                                           absl::StatusCode::kUnavailable,
                                           absl::StatusCode::kResourceExhausted));

// As webhooks that guard against disruption do. Each call may have waited for its turn.
TEST(ReconcilerTest, DeletesThatAreRefusedKeepNoOthersFromBeingMade) {
  World world(Job("j").Workers(20).Build(), {.parallel_calls = 1});
  world.Settle();
  world.client.Modify(kTrainingJobKind, world.key,
                      [](kube::Object& job) { job["spec"]["suspend"] = true; });
  world.client.SetBefore([&world](const HookedClient::Call& call) {
    if (call.verb == "delete") world.clock.Advance(seconds(2));
    const bool is_guarded = call.verb == "delete" && call.name.starts_with("j-worker-1");
    return is_guarded ? absl::ResourceExhaustedError("a webhook says no") : absl::OkStatus();
  });
  world.SyncAll();
  for (int i = 0; i < 5; ++i) {
    world.Reconcile().IgnoreError();
    world.SyncAll();
  }
  EXPECT_EQ(world.Pods().size(), 11u) << "1 and 10 to 19";
}

TEST(ReconcilerTest, DeletesThatTakeTheServerLongComeAfterThoseThatHaveNotBeenTried) {
  World world(Job("j").Workers(20).Build(), {.parallel_calls = 1});
  world.Settle();
  world.client.Modify(kTrainingJobKind, world.key,
                      [](kube::Object& job) { job["spec"]["suspend"] = true; });
  world.client.SetBefore([](const HookedClient::Call& call) {
    const bool is_guarded = call.verb == "delete" && call.name.starts_with("j-worker-1");
    return is_guarded ? kube::MarkOverloaded(absl::ResourceExhaustedError("a webhook says no"))
                      : absl::OkStatus();
  });
  for (int i = 0; i < 15; ++i) {
    world.SyncAll();
    world.Reconcile().IgnoreError();
    world.clock.Advance(seconds(60));  // all are due again
  }
  EXPECT_THAT(world.Pods(), SizeIs(11)) << "1 and 10 to 19";
}

// Fails deletes of pods whose names begin so, as a webhook that guards them.
void GuardPods(World& world, const std::string& prefix) {
  world.client.SetBefore([prefix](const HookedClient::Call& call) {
    const bool is_guarded = call.verb == "delete" && call.name.starts_with(prefix);
    return is_guarded ? absl::PermissionDeniedError("delete pods " + call.name + ": denied")
                      : absl::OkStatus();
  });
}

TEST(ReconcilerTest, ADeadPodThatCannotBeDeletedIsToldAndTheJobsStatusGoesOn) {
  World world(Job("j").Workers(2).Training().Build());
  world.Settle();
  for (const char* name : {"j-worker-0", "j-worker-1"}) world.SetPod(name, "Running");
  world.progress.answer.emplace().step = 90;
  world.Settle();
  GuardPods(world, "j-worker-1");
  world.SetPod("j-worker-1", "Failed", 137);
  world.SyncAll();
  EXPECT_TRUE(world.Reconcile().ok()) << "the failure is charged";
  world.SyncAll();
  EXPECT_TRUE(absl::IsPermissionDenied(world.Reconcile().status()));
  const api::TrainingJobStatus status = world.Job()->status;
  EXPECT_TRUE(IsTrue(status, kRunning));
  EXPECT_EQ(FindCondition(status, kRunning)->reason, "DeleteFailed");
  EXPECT_EQ(FindCondition(status, kRunning)->message, "delete pods j-worker-1: denied");
  EXPECT_EQ(status.ready_replicas, "1/2");
  world.progress.answer->step = 100;
  world.clock.Advance(seconds(11));
  world.SyncAll();
  EXPECT_FALSE(world.Reconcile().ok()) << "it is tried again";
  EXPECT_EQ(world.Job()->status.progress->step, 100);
  EXPECT_EQ(world.Job()->status.restarts, (api::RestartCounts{1, 0, 0})) << "charged once";
  EXPECT_THAT(world.EventReasons(), ElementsAre("DeleteFailed", "Restarting", "Running"));
  GuardPods(world, "none");
  world.clock.Advance(seconds(11));
  world.Settle();
  world.SetPod("j-worker-1", "Running");
  world.Settle();
  world.clock.Advance(seconds(10));  // a reason may wait that long
  world.Settle();
  EXPECT_EQ(FindCondition(world.Job()->status, kRunning)->reason, "AllReplicasReady");
}

TEST(ReconcilerTest, ADeleteThatIsRefusedIsNotRepeatedWithEveryChangeOfAPod) {
  World world(Job("j").Workers(20).Build());
  world.Settle();
  GuardPods(world, "j-worker-1");  // and 10 to 19
  world.client.Modify(kTrainingJobKind, world.key,
                      [](kube::Object& job) { job["spec"]["suspend"] = true; });
  for (int i = 0; i < 20; ++i) {
    world.SyncAll();
    (void)world.Reconcile();
  }
  EXPECT_THAT(world.Pods(), SizeIs(11));
  EXPECT_EQ(Writes(world, "delete", "Pod"), 20) << "each once";
  EXPECT_EQ(FindCondition(world.Job()->status, kSuspended)->reason, "DeleteFailed");
  world.clock.Advance(milliseconds(100));
  EXPECT_FALSE(world.Reconcile().ok());
  const auto next = world.Reconcile();
  ASSERT_TRUE(next.ok());
  EXPECT_EQ(*next, milliseconds(200));
  EXPECT_EQ(Writes(world, "delete", "Pod"), 31);
  GuardPods(world, "none");
  world.clock.Advance(milliseconds(200));
  world.Settle();
  EXPECT_THAT(world.Pods(), IsEmpty());
  world.clock.Advance(seconds(10));  // a reason may wait that long
  world.Settle();
  EXPECT_EQ(FindCondition(world.Job()->status, kSuspended)->reason, "Suspended");
  EXPECT_THAT(world.EventReasons(), ElementsAre("DeleteFailed", "Suspended"));
}

TEST(ReconcilerTest, OfAnEndedJobWhosePodsCannotBeDeletedAnEventTells) {
  World world(Job("j").Workers(2).Build());
  world.Settle();
  GuardPods(world, "j-worker-1");
  for (const char* name : {"j-worker-0", "j-worker-1"}) world.SetPod(name, "Running");
  world.Settle();
  world.SetPod("j-worker-0", "Succeeded");
  for (int i = 0; i < 5; ++i) {
    world.SyncAll();
    (void)world.Reconcile();
    world.clock.Advance(seconds(60));
  }
  EXPECT_EQ(world.Job()->status.state, "Succeeded");
  EXPECT_EQ(Writes(world, "delete", "Pod"), 4);
  EXPECT_THAT(world.EventReasons(), ElementsAre("DeleteFailed", "Running", "Succeeded"));
}

TEST(ReconcilerTest, ANewerSchemasFieldsDoNotTouchAJob) {
  World world(Job("j").Workers(2).Training().Build());
  world.Settle();
  world.client.Modify(kTrainingJobKind, world.key, [](kube::Object& job) {
    job["spec"]["newSection"] = {{"on", true}};
    job["spec"]["training"]["newField"] = 3;
    job["spec"]["runPolicy"]["ttlSecondsAfterFinished"] = 9'999'999'999;
  });
  const std::size_t writes = world.client.writes().size();
  world.Settle();
  EXPECT_THAT(world.client.writes(), SizeIs(writes + 1)) << "the generation that it has seen";
  EXPECT_EQ(world.Job()->status.observed_generation, 2);
  EXPECT_EQ(world.Job()->status.state, "Pending");
}

TEST(ReconcilerTest, ARunningJobWhoseSpecCannotBeReadAnyMoreIsLeftAsItIs) {
  World world(Job("j").Workers(2).Build());
  world.Settle();
  for (const char* name : {"j-worker-0", "j-worker-1"}) world.SetPod(name, "Running");
  world.Settle();
  world.client.Modify(kTrainingJobKind, world.key,
                      [](kube::Object& job) { job["spec"]["restartScope"] = "Newest"; });
  world.Settle();
  EXPECT_THAT(world.Pods(), SizeIs(2));
  EXPECT_EQ(Writes(world, "delete", "Pod"), 0);
  const auto status = world.client.Get(kTrainingJobKind, world.key)->at("status");
  EXPECT_EQ(status.at("state"), "Running");
  EXPECT_NE(status.dump().find("spec.restartScope: found"), std::string::npos);
  world.client.Modify(kTrainingJobKind, world.key,
                      [](kube::Object& job) { job["spec"]["restartScope"] = "Gang"; });
  world.SetPod("j-worker-0", "Succeeded");
  world.Settle();
  EXPECT_EQ(world.Job()->status.state, "Succeeded");
}

TEST(ReconcilerTest, AGangsPodGroupIsCreatedFirstFollowsTheJobsSizeAndGoesAtTheEnd) {
  const auto elastic = [](api::TrainingJob& job) { job.spec.elastic = api::ElasticSpec{2, 4}; };
  World world(
      Job("j").Workers(2).Chief().RestartScope(api::RestartScope::kPod).With(elastic).Build(),
      {.gang_scheduler_name = "volcano", .parallel_calls = 1});
  const kube::Kind kind = PodGroupKind({.gang_scheduler_name = "volcano"});
  ASSERT_TRUE(world.Reconcile().ok());
  EXPECT_THAT(world.client.Objects(kind), SizeIs(1));
  EXPECT_THAT(world.Pods(), IsEmpty());
  world.Settle();
  EXPECT_THAT(world.Pods(), SizeIs(3));
  world.client.Modify(kTrainingJobKind, world.key,
                      [](kube::Object& job) { job["spec"]["elastic"]["minReplicas"] = 1; });
  world.Settle();
  EXPECT_EQ(world.client.Objects(kind)[0].at("spec").at("minMember"), 2);
  EXPECT_EQ(Writes(world, "update", "PodGroup"), 1);
  world.SetPod("j-chief-0", "Succeeded");
  world.Settle();
  EXPECT_THAT(world.client.Objects(kind), IsEmpty());
}

TEST(ReconcilerTest, AnUpdateOfThePodGroupKeepsWhatOthersHaveWritten) {
  World world(Job("j").Workers(2).Build(), {.gang_scheduler_name = "volcano", .parallel_calls = 1});
  const kube::Kind kind = PodGroupKind({.gang_scheduler_name = "volcano"});
  world.Settle();
  world.client.Modify(kind, world.key, [](kube::Object& group) {
    group["metadata"]["annotations"]["team"] = "vision";
    group["spec"]["queue"] = "default";
    group["spec"]["minTaskMember"] = {{"worker", 2}};
    group["spec"]["minMember"] = 7;
    group["status"]["phase"] = "Running";
  });
  kube::Object wanted = world.client.Objects(kind)[0];
  wanted["spec"]["minMember"] = 2;
  world.Settle();
  kube::Object updated = world.client.Objects(kind)[0];
  for (kube::Object* group : {&wanted, &updated}) {
    for (const char* of_write : {"resourceVersion", "generation"}) {
      group->at("metadata").erase(of_write);
    }
  }
  EXPECT_EQ(updated, wanted);
}

TEST(ReconcilerTest, APodGroupThatChangesMeanwhileIsUpdatedOnceThatIsSeen) {
  World world(Job("j").Workers(2).Build(), {.gang_scheduler_name = "volcano", .parallel_calls = 1});
  const kube::Kind kind = PodGroupKind({.gang_scheduler_name = "volcano"});
  world.Settle();
  const auto set = [&](const char* member, int value) {
    world.client.Modify(kind, world.key,
                        [&](kube::Object& group) { group["spec"][member] = value; });
  };
  set("minMember", 7);
  world.SyncAll();
  set("other", 1);
  ASSERT_TRUE(world.Reconcile().ok());
  EXPECT_EQ(Writes(world, "update", "PodGroup"), 0);
  world.Settle();
  EXPECT_EQ(world.client.Objects(kind)[0].at("spec").at("minMember"), 2);
  EXPECT_EQ(world.client.Objects(kind)[0].at("spec").at("other"), 1);
}

TEST(ReconcilerTest, APodGroupThatIsTooLargeToReadIsNotUpdatedAndIsReported) {
  World world(Job("j").Workers(2).Build(), {.gang_scheduler_name = "volcano", .parallel_calls = 1});
  const kube::Kind kind = PodGroupKind({.gang_scheduler_name = "volcano"});
  world.Settle();
  world.client.Modify(kind, world.key, [](kube::Object& group) { group["spec"] = kube::kTooMany; });
  world.SyncAll();
  const auto done = world.Reconcile();
  EXPECT_TRUE(absl::IsFailedPrecondition(done.status())) << done.status();
  EXPECT_EQ(FindCondition(world.Job()->status, kRunning)->message,
            "podgroups j: spec: found (too many values), expected an object");
}

TEST(ReconcilerTest, APodGroupOfTheSameNameByAnotherOwnerIsReported) {
  World world(Job("j").Workers(1).Build(), {.gang_scheduler_name = "volcano", .parallel_calls = 1});
  const kube::Kind kind = PodGroupKind({.gang_scheduler_name = "volcano"});
  world.client.Add(kind, {{"metadata", {{"name", "j"}, {"namespace", "default"}}}});
  world.SyncAll();
  EXPECT_TRUE(absl::IsAlreadyExists(world.Reconcile().status()));
  EXPECT_EQ(FindCondition(world.Job()->status, kRunning)->message,
            "podgroups j exists and belongs to another owner");
}

TEST(ReconcilerTest, DeadlinesAreKeptByAnOperatorThatWasStartedAgain) {
  World world(Job("j").Workers(1).ActiveDeadlineSeconds(100).TtlSecondsAfterFinished(50).Build());
  world.Settle();
  world.SetPod("j-worker-0", "Running");
  world.Settle();
  world.clock.Advance(seconds(70));
  world.RestartOperator();
  EXPECT_EQ(world.Settle(), seconds(30));
  world.clock.Advance(seconds(30));
  world.RestartOperator();
  EXPECT_EQ(world.Settle(), seconds(50));
  EXPECT_EQ(FindCondition(world.Job()->status, kFailed)->reason, "DeadlineExceeded");
  world.clock.Advance(seconds(50));
  world.RestartOperator();
  world.Settle();
  EXPECT_FALSE(world.Job()) << "its time to live has passed";
}

TEST(ReconcilerTest, ADrainedNodesPodsAreReplacedAtOnceThoughSeenOneByOne) {
  World world(Job("j").Workers(8).RestartScope(api::RestartScope::kPod).Build());
  world.client.SetScheduler([](const kube::Object& /*pod*/) { return "node"; });
  world.Settle();
  for (int i = 0; i < 8; ++i) world.SetPod("j-worker-" + std::to_string(i), "Running");
  world.Settle();
  for (int i = 1; i < 8; ++i) {
    const kube::Key pod{"default", "j-worker-" + std::to_string(i)};
    ASSERT_TRUE(world.client.Delete(kube::kPodKind, pod, "").ok());
    world.clock.Advance(milliseconds(300));
    world.Settle();
  }
  for (int i = 1; i < 8; ++i) {
    world.client.Remove(kube::kPodKind, {"default", "j-worker-" + std::to_string(i)});
  }
  world.Settle();
  EXPECT_THAT(world.Pods(), SizeIs(8));
  EXPECT_EQ(world.Job()->status.restarts, (api::RestartCounts{0, 7, 1}));
}

TEST(ReconcilerTest, APodOnALostNodeIsReplacedByForce) {
  World world(Job("j").Workers(2).RestartScope(api::RestartScope::kPod).Build());
  world.client.SetScheduler([](const kube::Object& /*pod*/) { return "node"; });
  world.Settle();
  world.SetPod("j-worker-0", "Running");
  world.SetPod("j-worker-1", "Running");
  world.Settle();
  ASSERT_TRUE(world.client.Delete(kube::kPodKind, {"default", "j-worker-1"}, "").ok());
  world.Settle();
  EXPECT_EQ(world.Job()->status.restarts.disruption, 1);
  EXPECT_EQ(Writes(world, "force-delete", "Pod"), 0) << "its grace period is respected";
  world.clock.Advance(std::chrono::minutes(2));
  world.Settle();
  EXPECT_EQ(Writes(world, "force-delete", "Pod"), 1);
  EXPECT_EQ(Writes(world, "create", "Pod"), 3);
  EXPECT_EQ(world.Job()->status.restarts.disruption, 1);
}

TEST(ReconcilerTest, APodThatWasGoneBeforeTheCacheSawItIsRecreated) {
  World world(Job("j").Workers(1).Build());
  ASSERT_TRUE(world.Reconcile().ok());
  world.client.Remove(kube::kPodKind, {"default", "j-worker-0"});
  world.Settle();
  EXPECT_THAT(world.Pods(), SizeIs(1));
}

TEST(ReconcilerTest, AnObjectThatExistsAlreadyIsOursOnlyByItsOwnersUid) {
  World world(Job("j").Workers(2).Build());
  world.client.Add(kube::kPodKind, {{"metadata",
                                     {{"name", "j-worker-1"},
                                      {"namespace", "default"},
                                      {"labels", {{"training.lockstep.dev/role", "worker"}}}}}});
  world.Settle();
  EXPECT_EQ(FindCondition(world.Job()->status, kRunning)->reason, "NameConflict");
  EXPECT_THAT(world.EventReasons(), ElementsAre("NameConflict"));
  const int tried = Writes(world, "create", "Pod");
  world.clock.Advance(seconds(30));
  world.Settle();
  EXPECT_EQ(Writes(world, "create", "Pod"), tried);  // no storm
  EXPECT_EQ(Writes(world, "delete", "Pod"), 0);
  // When the stranger has gone, the job goes on by itself.
  world.client.Remove(kube::kPodKind, {"default", "j-worker-1"});
  world.clock.Advance(seconds(31));
  world.Settle();
  EXPECT_EQ(kube::ControllerUid(*world.client.Get(kube::kPodKind, {"default", "j-worker-1"})),
            world.Job()->metadata.uid);
}

// Pods of somebody else that have the names of a job's.
void TakeNames(World& world, int count) {
  for (int i = 0; i < count; ++i) {
    const std::string name = "j-worker-" + std::to_string(i);
    world.client.Add(kube::kPodKind, {{"metadata", {{"name", name}, {"namespace", "default"}}}});
  }
}

TEST(ReconcilerTest, OfManyTakenNamesAFewAreAskedForAtATime) {
  World world(Job("j").Workers(150).Build());
  TakeNames(world, 150);
  world.Settle();
  const auto gets_of_a_look = [&world] {
    const int before = world.client.Count("get", "Pod");
    world.SyncAll();
    EXPECT_TRUE(world.Reconcile().ok());
    return world.client.Count("get", "Pod") - before;
  };
  world.clock.Advance(seconds(60));
  EXPECT_EQ(gets_of_a_look(), 64);
  EXPECT_EQ(gets_of_a_look(), 64) << "others";
  EXPECT_EQ(gets_of_a_look(), 22);
  EXPECT_EQ(gets_of_a_look(), 0) << "all have been asked for within a minute";
  for (int i = 0; i < 150; ++i) {
    world.client.Remove(kube::kPodKind, {"default", "j-worker-" + std::to_string(i)});
  }
  world.clock.Advance(seconds(60));
  world.Settle();
  EXPECT_THAT(world.Pods(), SizeIs(150)) << "it goes on as fast as names turn out to be free";
}

TEST(ReconcilerTest, TakenNamesAreAskedForInParallel) {
  World world(Job("j").Workers(2).Build(), {.parallel_calls = 2});
  TakeNames(world, 2);
  world.Settle();
  std::mutex mutex;
  std::condition_variable changed;
  int under_way = 0;
  bool together = false;
  world.client.SetBefore([&](const HookedClient::Call& call) {
    if (call.verb != "get" || call.kind != "Pod") return absl::OkStatus();
    std::unique_lock lock(mutex);
    if (++under_way == 2) together = true;
    changed.notify_all();
    changed.wait_for(lock, seconds(5), [&] { return together; });
    --under_way;
    return absl::OkStatus();
  });
  world.clock.Advance(seconds(60));
  EXPECT_TRUE(world.Reconcile().ok());
  EXPECT_TRUE(together);
}

TEST(ReconcilerTest, AForgedOwnerReferenceMakesNoPodOrServiceTheJobs) {
  World world(Job("j").Workers(1).Build());
  const kube::Object owner = {{"apiVersion", api::kApiVersion},
                              {"kind", api::kKind},
                              {"name", "j"},
                              {"uid", world.Job()->metadata.uid},
                              {"controller", true}};
  const auto forge = [&](const kube::Kind& kind, const char* space, kube::Object reference) {
    world.client.Add(kind, {{"metadata",
                             {{"name", "forged"},
                              {"namespace", space},
                              {"ownerReferences", kube::Object::array({reference})},
                              {"labels",
                               {{api::kLabelRole, "worker"},
                                {api::kLabelReplicaIndex, "0"},
                                {api::kLabelAttempt, "0"}}}}},
                            {"status", {{"phase", "Failed"}, {"reason", "Error"}}}});
  };
  kube::Object of_another_kind = owner;
  of_another_kind["apiVersion"] = "batch/v1";
  for (const kube::Kind& kind : {kube::kPodKind, kube::kServiceKind}) {
    forge(kind, "attacker", owner);
    forge(kind, "default", of_another_kind);
  }
  world.Settle();
  EXPECT_TRUE(world.client.Get(kube::kPodKind, {"default", "j-worker-0"}).ok());
  EXPECT_TRUE(world.client.Get(kube::kServiceKind, {"default", "j"}).ok());
  EXPECT_EQ(world.Job()->status.state, "Pending");
  EXPECT_EQ(world.Job()->status.restarts, api::RestartCounts());
}

TEST(ReconcilerTest, ACreateWhoseAnswerWasLostIsNotAConflict) {
  World world(Job("j").Workers(2).Build());
  bool lose = true;
  world.client.SetAfter([&lose](const HookedClient::Call& call) {
    const bool lost = lose && call.name == "j-worker-0";
    if (lost) lose = false;
    return lost ? absl::UnavailableError("connection reset") : absl::OkStatus();
  });
  EXPECT_FALSE(world.Reconcile().ok());
  EXPECT_TRUE(world.Reconcile().ok());  // the caches have not moved
  world.clock.Advance(seconds(1));      // creates pause after one that failed
  world.Settle();
  EXPECT_THAT(world.Pods(), SizeIs(2));
  EXPECT_THAT(world.EventReasons(), IsEmpty());
}

TEST(ReconcilerTest, AConflictingStatusWriteIsTriedAgainFromTheNewVersion) {
  World world(Job("j").Workers(1).Build());
  world.client.Modify(kTrainingJobKind, world.key,
                      [](kube::Object& job) { job["metadata"]["labels"]["a"] = "b"; });
  EXPECT_TRUE(absl::IsAborted(world.Reconcile().status()));
  world.Settle();
  EXPECT_EQ(world.Job()->status.state, "Pending");
  EXPECT_EQ(world.Job()->metadata.labels.at("a"), "b");
}

TEST(ReconcilerTest, AnUnreadableJobFailsWithTheFieldAndIsLeftAlone) {
  World world(Job("j").Workers(1).Build());
  world.client.Modify(kTrainingJobKind, world.key, [](kube::Object& job) {
    job["spec"]["replicaSpecs"]["Worker"]["replicas"] = "two";
  });
  world.Settle();
  const auto status = world.client.Get(kTrainingJobKind, world.key)->at("status");
  EXPECT_EQ(status.at("state"), "Failed");
  EXPECT_NE(status.dump().find("spec.replicaSpecs.Worker.replicas"), std::string::npos);
  EXPECT_EQ(Writes(world, "create", "Pod"), 0);
}

TEST(ReconcilerTest, ProgressIsAskedOfTheLeaderAndWrittenAtMostOnceAnInterval) {
  World world(Job("j").Workers(2).Training().Build());
  world.Settle();
  for (const char* name : {"j-worker-0", "j-worker-1"}) world.SetPod(name, "Running");
  world.Settle();
  const int writes = Writes(world, "update-status", "TrainingJob");
  for (int second = 0; second < 30; ++second) {
    world.progress.answer.emplace().step = second + 1;
    world.clock.Advance(seconds(1));
    world.Settle();
  }
  EXPECT_EQ(Writes(world, "update-status", "TrainingJob"), writes + 3);
  EXPECT_EQ(world.progress.asked.host, "10.0.0.1");
  EXPECT_EQ(world.progress.asked.port, 2222);
  EXPECT_EQ(world.progress.asked.job_uid, world.Job()->metadata.uid);
  EXPECT_EQ(world.Job()->status.progress->step, 30);
  world.SetPod("j-worker-0", "Succeeded");
  world.Settle();
  EXPECT_EQ(world.progress.forgotten, world.Job()->metadata.uid);
}

// Its address may be another tenant's pod by then.
TEST(ReconcilerTest, NobodyIsAskedForProgressWhileTheJobHasNoLeadingPod) {
  World world(Job("j").Workers(2).Training().Build());
  world.Settle();
  const std::string uid = world.Job()->metadata.uid;
  EXPECT_EQ(world.progress.paused, uid) << "the leading pod has no address yet";
  world.SetPod("j-worker-0", "Running");
  world.SetPod("j-worker-1", "Running");
  world.progress.answer.emplace().step = 7;
  world.Settle();
  EXPECT_EQ(world.progress.paused, "");
  world.SetPod("j-worker-0", "Failed", 137);
  world.SyncAll();
  ASSERT_TRUE(world.Reconcile().ok());
  EXPECT_EQ(world.progress.paused, uid) << "it has ended";
  EXPECT_EQ(world.Job()->status.progress->step, 7) << "what was said last is kept";
  world.Settle();
  world.clock.Advance(seconds(60));
  world.Settle();
  world.SetPod("j-worker-0", "Running");
  world.Settle();
  EXPECT_EQ(world.progress.paused, "");
  world.client.Modify(kTrainingJobKind, world.key,
                      [](kube::Object& job) { job["spec"]["suspend"] = true; });
  world.Settle();
  ASSERT_THAT(world.Pods(), IsEmpty());
  EXPECT_EQ(world.progress.paused, uid) << "the job is suspended";
}

TEST(ReconcilerTest, OnceTrainingHasEndedTheEvaluatorIsAsked) {
  api::Json evaluator = testing::Template();
  evaluator["spec"]["containers"][0]["ports"] = {{{"name", "cluster"}, {"containerPort", 7000}}};
  World world(Job("j")
                  .Workers(1)
                  .Evaluator()
                  .PodTemplate(api::Role::kEvaluator, evaluator)
                  .Training()
                  .With([](api::TrainingJob& job) {
                    job.spec.training->checkpoint.directory = "/checkpoints";
                  })
                  .Build());
  world.Settle();
  world.SetPod("j-worker-0", "Running");
  world.SetPod("j-evaluator-0", "Running");
  world.progress.answer.emplace().step = 7;
  world.Settle();
  EXPECT_FALSE(world.progress.asked.is_evaluator);
  EXPECT_EQ(world.progress.asked.port, 2222);
  world.SetPod("j-worker-0", "Succeeded");
  for (int minute = 0; minute < 20; ++minute) {
    world.progress.group.since_evaluation = seconds(5);
    world.Settle();
    EXPECT_TRUE(world.progress.asked.is_evaluator);
    EXPECT_EQ(world.progress.asked.port, 7000);
    ASSERT_EQ(world.Job()->status.state, "Running") << minute;
    EXPECT_EQ(world.Job()->status.progress->step, 7);
    world.clock.Advance(seconds(60));
  }
  world.SetPod("j-evaluator-0", "Succeeded");
  world.Settle();
  EXPECT_EQ(world.Job()->status.state, "Succeeded");
  EXPECT_EQ(world.progress.forgotten, world.Job()->metadata.uid);
}

// The servers have ended, so that training is over. The leader's pod seems to run for ever.
TEST(ReconcilerTest, TheEvaluatorIsAskedOnceTheLeadersNodeIsLostAtTheEnd) {
  World world(Job("j")
                  .Workers(1)
                  .ParameterServers(1)
                  .Evaluator()
                  .Strategy(api::StrategyType::kParameterServer)
                  .Training()
                  .With([](api::TrainingJob& job) {
                    job.spec.training->checkpoint.directory = "/checkpoints";
                  })
                  .Build(),
              {.parallel_calls = 1, .watch_nodes = true});
  world.client.SetScheduler(
      [](const kube::Object& pod) { return kube::Name(pod) == "j-worker-0" ? "a" : "b"; });
  for (const char* node : {"a", "b", "c"}) world.SetNode(node, "True");
  world.Settle();
  for (const char* pod : {"j-worker-0", "j-ps-0", "j-evaluator-0"}) world.SetPod(pod, "Running");
  world.Settle();
  world.SetPod("j-ps-0", "Succeeded");
  world.SetNode("a", "Unknown");
  world.Settle();
  EXPECT_FALSE(world.progress.asked.is_evaluator) << "the leader may still tell its end";
  world.progress.group.leader_is_silent = true;
  world.Settle();
  EXPECT_FALSE(world.progress.asked.is_evaluator) << "who would tell that it is?";
  world.progress.group.leader_is_silent = false;
  world.clock.Advance(std::chrono::minutes(2));
  for (int minute = 0; minute < 20; ++minute) {
    world.progress.group.since_evaluation = seconds(5);
    world.Settle();
    EXPECT_TRUE(world.progress.asked.is_evaluator);
    ASSERT_EQ(world.Job()->status.state, "Running") << minute;
    world.clock.Advance(seconds(60));
  }
}

// A job without `training` reports no progress that would tell when training has ended.
TEST(ReconcilerTest, AnEvaluatorHasItsTimeThoughTheFinishedLeadersPodIsDeleted) {
  World world(Job("j").Workers(1).Evaluator().Build());
  world.Settle();
  for (const char* pod : {"j-worker-0", "j-evaluator-0"}) world.SetPod(pod, "Running");
  world.Settle();
  world.clock.Advance(std::chrono::hours(1));
  world.SetPod("j-worker-0", "Succeeded");
  world.Settle();
  ASSERT_EQ(world.Job()->status.state, "Running");
  world.clock.Advance(seconds(60));
  world.client.Remove(kube::kPodKind, {"default", "j-worker-0"});
  EXPECT_EQ(world.Settle(), seconds(4 * 60));
  EXPECT_EQ(world.Job()->status.state, "Running");
  world.clock.Advance(seconds(4 * 60));
  world.Settle();
  EXPECT_EQ(world.Job()->status.state, "Succeeded");
}

// The job waits only for its Evaluator, and a suspended job runs none.
TEST(ReconcilerTest, TrainingThatWasOverBeforeTheEditThatSuspendsIsOver) {
  World world(Job("j").Workers(2).Evaluator().Build());
  world.Settle();
  for (const kube::Object& pod : world.Pods()) world.SetPod(kube::Name(pod), "Running");
  world.Settle();
  world.SetPod("j-worker-0", "Succeeded");
  world.Settle();
  ASSERT_EQ(world.Job()->status.state, "Running");
  world.client.Modify(kTrainingJobKind, world.key, [](kube::Object& job) {
    job["spec"]["suspend"] = true;
    job["metadata"]["generation"] = 2;
  });
  world.Settle();
  EXPECT_EQ(world.Job()->status.state, "Succeeded");
}

TEST(ReconcilerTest, AJobThatANamesakeReplacesIsNotAskedForProgressAnyMore) {
  World world(Job("j").Workers(1).Training().Build());
  world.Settle();
  world.SetPod("j-worker-0", "Running");
  world.Settle();
  const std::string uid = world.Job()->metadata.uid;
  ASSERT_EQ(world.progress.asked.job_uid, uid);
  // The operator sees neither moment alone.
  ASSERT_TRUE(world.client.Delete(kTrainingJobKind, world.key, "").ok());
  ASSERT_TRUE(
      world.client
          .Create(kTrainingJobKind, api::TrainingJobToJson(Job("j").Workers(1).Training().Build()))
          .ok());
  world.SyncAll();
  (void)world.Reconcile();
  ASSERT_NE(world.Job()->metadata.uid, uid);
  EXPECT_EQ(world.progress.forgotten, uid);
}

// What has completed has no meaning for replicas that train together.
TEST(ReconcilerTest, AnIndependentJobThatBecomesAGangWhileItIsSuspendedTrainsWhole) {
  World world(Job("j").Workers(3).Training().Strategy(api::StrategyType::kIndependent).Build());
  world.Settle();
  for (const char* pod : {"j-worker-0", "j-worker-1", "j-worker-2"}) world.SetPod(pod, "Running");
  world.Settle();
  world.SetPod("j-worker-0", "Succeeded");
  world.Settle();
  const auto edit = [&world](const std::function<void(kube::Object&)>& change) {
    world.client.Modify(kTrainingJobKind, world.key, change);
    world.Settle();
  };
  edit([](kube::Object& job) { job["spec"]["suspend"] = true; });
  EXPECT_THAT(world.Job()->status.completed_indexes, ElementsAre(0));
  edit([](kube::Object& job) { job["spec"]["strategy"]["type"] = "MultiWorkerMirrored"; });
  EXPECT_EQ(world.Job()->status.state, "Suspended");
  edit([](kube::Object& job) { job["spec"]["suspend"] = false; });
  EXPECT_EQ(world.Pods().size(), 3U);
  EXPECT_THAT(world.Job()->status.completed_indexes, IsEmpty());
}

TEST(ReconcilerTest, AClockThatIsSetBackDelaysNoRestart) {
  World world(Job("j").Workers(2).Build());
  world.Settle();
  for (const char* pod : {"j-worker-0", "j-worker-1"}) world.SetPod(pod, "Running");
  world.Settle();
  world.SetPod("j-worker-1", "Failed", 1);  // perhaps the consequence of a loss that shows later
  world.Settle();
  EXPECT_EQ(world.Job()->status.attempt, 0);
  world.clock.Step(-std::chrono::minutes(50));
  world.Settle();
  world.clock.Advance(std::chrono::minutes(1));
  world.Settle();
  EXPECT_EQ(world.Job()->status.attempt, 1);
}

TEST(ReconcilerTest, AClockThatIsSetBackDelaysNoSuccessorForLongerThanTheBackOff) {
  World world(Job("j").Workers(1).RestartScope(api::RestartScope::kPod).Build());
  const auto lose = [&world] {
    world.SetPod("j-worker-0", "Running");
    world.Settle();
    world.SetPod("j-worker-0", "Failed", 137);
    world.Settle();
  };
  world.Settle();
  lose();
  ASSERT_THAT(world.Pods(), SizeIs(1)) << "the first restart is immediate";
  lose();
  ASSERT_THAT(world.Pods(), IsEmpty());
  world.clock.Step(-std::chrono::minutes(50));
  world.Settle();
  const std::optional<Time> retry = world.Job()->status.next_retry_time;
  EXPECT_EQ(retry, WholeSeconds(world.clock.Now() + std::chrono::minutes(5)));
  world.clock.Advance(std::chrono::minutes(4));
  world.Settle();
  EXPECT_EQ(world.Job()->status.next_retry_time, retry) << "the wait does not begin anew";
  world.RestartOperator();
  world.clock.Advance(std::chrono::minutes(1));
  world.Settle();
  EXPECT_THAT(world.Pods(), SizeIs(1));
}

TEST(ReconcilerTest, AClockThatIsSetBackDelaysNoCleanUpOfAnEndedJob) {
  World world(Job("j").Workers(2).Training().TtlSecondsAfterFinished(50).Build());
  world.Settle();
  for (const char* pod : {"j-worker-0", "j-worker-1"}) world.SetPod(pod, "Running");
  world.Settle();
  world.SetPod("j-worker-0", "Succeeded");
  EXPECT_EQ(world.Settle(), seconds(10)) << "the other one may be about to end";
  world.clock.Step(-std::chrono::minutes(50));
  EXPECT_EQ(world.Settle(), seconds(10));
  world.clock.Advance(seconds(10));
  world.Settle();
  EXPECT_THAT(world.Pods(), SizeIs(1));
  world.clock.Advance(seconds(40));
  world.Settle();
  EXPECT_EQ(world.Job(), std::nullopt);
}

TEST(ReconcilerTest, AnotherControllersTimesAreItsOwn) {
  api::TrainingJob job = Job("j").Workers(1).Build();
  job.spec.managed_by = "another";
  World world(job);
  world.client.Modify(kTrainingJobKind, world.key, [](kube::Object& object) {
    object["status"]["nextRetryTime"] = "2096-01-01T00:00:00Z";
    object["status"]["completionTime"] = "2096-01-01T00:00:00Z";
  });
  const std::size_t writes = world.client.writes().size();
  world.Settle();
  EXPECT_EQ(world.client.writes().size(), writes);
}

TEST(ReconcilerTest, AClockThatIsSetBackDelaysNoLookAtATakenName) {
  World world(Job("j").Workers(1).Build());
  const kube::Key key{"default", "j-worker-0"};
  world.client.Add(kube::kPodKind, {{"metadata", {{"name", key.name}, {"namespace", "default"}}}});
  world.Settle();
  EXPECT_EQ(FindCondition(world.Job()->status, kRunning)->reason, "NameConflict");
  world.client.Remove(kube::kPodKind, key);
  world.clock.Step(-std::chrono::minutes(50));
  world.Settle();
  world.clock.Advance(std::chrono::minutes(1));
  world.Settle();
  ASSERT_THAT(world.Pods(), SizeIs(1));
  EXPECT_EQ(kube::ControllerUid(world.Pods().front()), world.Job()->metadata.uid);
}

TEST(ReconcilerTest, AClockThatIsSetBackDelaysNoEndOfAJobWithAnEvaluator) {
  api::TrainingSpec training = testing::MnistTraining();
  training.checkpoint.directory = "/checkpoints";
  World world(Job("j").Workers(1).Evaluator().Training(training).Build());
  world.Settle();
  for (const char* pod : {"j-worker-0", "j-evaluator-0"}) world.SetPod(pod, "Running");
  world.clock.Step(-std::chrono::minutes(50));
  world.Settle();
  world.SetPod("j-worker-0", "Succeeded");
  world.Settle();
  EXPECT_EQ(world.Job()->status.state, "Running");
  world.clock.Advance(std::chrono::minutes(6));  // longer than the Evaluator's grace
  world.Settle();
  EXPECT_EQ(world.Job()->status.state, "Succeeded");
}

TEST(ReconcilerTest, AClockThatIsSetDelaysAndHastensNoEvaluator) {
  for (const auto step : {-std::chrono::minutes(50), std::chrono::minutes(50)}) {
    SCOPED_TRACE(step.count());
    World world(Job("j").Workers(1).Evaluator().Build());
    const auto lose = [&world] {
      world.SetPod("j-evaluator-0", "Running");
      world.Settle();
      world.SetPod("j-evaluator-0", "Failed", 137);
      world.Settle();
    };
    const auto has_failed = [&world] {
      const kube::Object evaluator = world.Pods().front();
      return kube::TextMember(kube::Member(evaluator, "status"), "phase") == "Failed";
    };
    world.Settle();
    world.SetPod("j-worker-0", "Running");
    lose();
    ASSERT_FALSE(has_failed()) << "the first successor comes at once";
    lose();
    world.clock.Step(step);
    world.clock.Advance(seconds(9));
    world.Settle();
    EXPECT_TRUE(has_failed());
    world.clock.Advance(seconds(1));
    world.Settle();
    ASSERT_FALSE(has_failed());
    lose();
    world.clock.Advance(seconds(19));
    world.Settle();
    EXPECT_TRUE(has_failed()) << "the row of losses goes on";
    world.clock.Advance(seconds(1));
    world.Settle();
    EXPECT_FALSE(has_failed());
  }
}

// By the operator that led before, for example, on a machine whose clock is ahead.
TEST(ReconcilerTest, AStartInTheFutureDelaysNoDeadline) {
  World world(Job("j").Workers(1).ActiveDeadlineSeconds(100).Build());
  world.Settle();
  const std::optional<Time> start = world.Job()->status.start_time;
  world.clock.Step(-std::chrono::minutes(50));
  world.RestartOperator();
  EXPECT_EQ(world.Settle(), seconds(100));
  world.clock.Advance(seconds(40));
  EXPECT_EQ(world.Settle(), seconds(60)) << "the time does not begin anew";
  EXPECT_EQ(world.Job()->status.start_time, start);
  world.clock.Advance(seconds(60));
  world.Settle();
  EXPECT_EQ(world.Job()->status.state, "Failed");
}

TEST(ReconcilerTest, AStartInTheFutureDelaysNoPendingDeadline) {
  World world(Job("j").Workers(1).PendingDeadlineSeconds(100).Build());
  world.Settle();
  world.clock.Step(-std::chrono::minutes(50));
  world.RestartOperator();
  EXPECT_EQ(world.Settle(), seconds(100));
  world.clock.Advance(seconds(40));
  EXPECT_EQ(world.Settle(), seconds(60)) << "the time does not begin anew";
  world.clock.Advance(seconds(60));
  world.Settle();
  EXPECT_EQ(world.Job()->status.state, "Failed");
}

// An operator that starts on a machine before NTP has set its clock, for example.
TEST(ReconcilerTest, AClockThatIsBehindForAWhileMakesNoJobOlder) {
  World world(Job("j").Workers(1).ActiveDeadlineSeconds(100).TtlSecondsAfterFinished(50).Build());
  world.Settle();
  const auto be_behind_for_a_while = [&world] {
    world.clock.Step(-std::chrono::minutes(50));
    world.RestartOperator();
    world.Settle();
    world.clock.Step(std::chrono::minutes(50));
  };
  be_behind_for_a_while();
  EXPECT_EQ(world.Settle(), seconds(100));
  EXPECT_EQ(world.Job()->status.state, "Pending");
  world.SetPod("j-worker-0", "Succeeded");
  world.Settle();
  ASSERT_EQ(world.Job()->status.state, "Succeeded");
  be_behind_for_a_while();
  EXPECT_EQ(world.Settle(), seconds(50));
  EXPECT_TRUE(world.Job());
}

void ExpectDeadlineIn100Seconds(World& world) {
  world.clock.Advance(seconds(99));
  world.Settle();
  EXPECT_EQ(world.Job()->status.state, "Pending");
  world.clock.Advance(seconds(1));
  world.Settle();
  EXPECT_EQ(world.Job()->status.state, "Failed");
}

TEST(ReconcilerTest, AClockThatWasBehindWhenAJobBeganMakesItNoOlder) {
  World world(Job("j").Workers(1).ActiveDeadlineSeconds(100).Build());
  world.clock.Step(-std::chrono::minutes(50));
  world.Settle();
  world.clock.Step(std::chrono::minutes(50));
  ExpectDeadlineIn100Seconds(world);
}

// However late this process looks at the job again.
TEST(ReconcilerTest, AJobHasBegunWhenThatWasWrittenNotWhenItWasSeenAgain) {
  World world(Job("j").Workers(1).ActiveDeadlineSeconds(100).Build());
  while (!world.Job()->status.start_time) {
    world.SyncAll();
    EXPECT_TRUE(world.Reconcile().ok());
  }
  ExpectDeadlineIn100Seconds(world);
}

TEST(ReconcilerTest, AClockThatWasBehindWhenAJobEndedMakesItNoOlder) {
  World world(Job("j").Workers(1).TtlSecondsAfterFinished(50).Build());
  world.Settle();
  world.clock.Step(-std::chrono::minutes(50));
  world.SetPod("j-worker-0", "Succeeded");
  world.Settle();
  world.clock.Step(std::chrono::minutes(50));
  world.clock.Advance(seconds(49));
  world.Settle();
  EXPECT_EQ(world.Job()->status.state, "Succeeded");
  world.clock.Advance(seconds(1));
  world.Settle();
  EXPECT_FALSE(world.Job());
}

TEST(ReconcilerTest, ATrainersClockThatIsAheadDelaysNoEndOfAJobWithAnEvaluator) {
  api::TrainingSpec training = testing::MnistTraining();
  training.checkpoint.directory = "/checkpoints";
  World world(Job("j").Workers(1).Evaluator().Training(training).Build());
  world.Settle();
  for (const char* pod : {"j-worker-0", "j-evaluator-0"}) world.SetPod(pod, "Running");
  world.progress.answer.emplace().step = 1;
  world.progress.answer->update_time = world.clock.Now() + std::chrono::hours(24);
  world.Settle();
  world.clock.Advance(seconds(10));
  world.Settle();
  ASSERT_TRUE(world.Job()->status.progress);
  world.SetPod("j-worker-0", "Succeeded");
  world.Settle();
  world.client.Remove(kube::kPodKind, {"default", "j-worker-0"});
  world.Settle();
  EXPECT_EQ(world.Job()->status.state, "Running");
  world.clock.Advance(std::chrono::minutes(6));
  world.Settle();
  EXPECT_EQ(world.Job()->status.state, "Succeeded");
}

TEST(ReconcilerTest, AClockThatIsSetForwardShortensNoGracePeriod) {
  World world(Job("j").Workers(2).RestartScope(api::RestartScope::kPod).Build());
  world.client.SetScheduler([](const kube::Object& /*pod*/) { return "node"; });
  world.Settle();
  for (const char* pod : {"j-worker-0", "j-worker-1"}) world.SetPod(pod, "Running");
  world.Settle();
  ASSERT_TRUE(world.client.Delete(kube::kPodKind, {"default", "j-worker-1"}, "").ok());
  world.Settle();
  world.clock.Step(std::chrono::hours(1));
  world.Settle();
  EXPECT_EQ(Writes(world, "force-delete", "Pod"), 0);
  world.clock.Advance(std::chrono::minutes(2));
  world.Settle();
  EXPECT_EQ(Writes(world, "force-delete", "Pod"), 1);
}

TEST(ReconcilerTest, AClockThatIsSetForwardLosesNoPodsOnASilentNode) {
  const auto owned = WorkerOneOnASilentNode();
  World& world = *owned;
  EXPECT_EQ(world.Settle(), seconds(120));
  world.clock.Step(std::chrono::hours(1));
  EXPECT_EQ(world.Settle(), seconds(120));
  EXPECT_EQ(Writes(world, "force-delete", "Pod"), 0);
  world.clock.Advance(seconds(120));
  world.Settle();
  EXPECT_EQ(Writes(world, "force-delete", "Pod"), 1);
}

TEST(ReconcilerTest, AClockThatIsSetForwardShortensNoWaitForTheFirstStart) {
  World world(Job("j").Workers(1).PendingDeadlineSeconds(60).Build());
  world.Settle();
  world.clock.Step(std::chrono::hours(1));
  world.clock.Advance(seconds(59));
  world.Settle();
  EXPECT_EQ(world.Job()->status.state, "Pending");
  world.clock.Advance(seconds(1));
  world.Settle();
  EXPECT_EQ(world.Job()->status.state, "Failed");
}

// Both replicas run, and the leading one tells of the same step for ever.
void GetStuck(World& world) {
  world.progress.group.in_step_for = std::chrono::hours(1);
  world.Settle();
  for (const char* pod : {"j-worker-0", "j-worker-1"}) world.SetPod(pod, "Running");
  world.Settle();
}

TEST(ReconcilerTest, AJobWithoutProgressIsRestartedOncePerDeadline) {
  World world(Job("j").Workers(2).Training().ProgressDeadlineSeconds(60).Build());
  GetStuck(world);
  world.clock.Step(std::chrono::hours(1));  // the wall clock alone
  world.clock.Advance(seconds(59));
  EXPECT_EQ(world.Settle(), seconds(1));
  EXPECT_EQ(world.Job()->status.attempt, 0);
  world.clock.Advance(seconds(1));
  world.Settle();
  EXPECT_EQ(world.Job()->status.attempt, 1);
  EXPECT_EQ(world.Job()->status.failure->reason, "ProgressDeadlineExceeded");
  for (const kube::Object& pod : world.Pods()) {
    if (kube::IsBeingDeleted(pod)) world.client.Remove(kube::kPodKind, kube::KeyOf(pod));
  }
  GetStuck(world);
  world.clock.Advance(seconds(59));
  world.Settle();
  EXPECT_EQ(world.Job()->status.attempt, 1) << "the time of the attempt before does not count";
  world.clock.Advance(seconds(1));
  world.Settle();
  EXPECT_EQ(world.Job()->status.attempt, 2);
  EXPECT_EQ(world.Job()->status.restarts.application, 2);
  const std::vector<std::string> events = world.EventReasons();
  EXPECT_EQ(std::ranges::count(events, "ProgressDeadlineExceeded"), 2);
}

TEST(ReconcilerTest, AnOperatorThatHasJustStartedCountsTheTimeWithoutProgressAnew) {
  World world(Job("j").Workers(2).Training().ProgressDeadlineSeconds(60).Build());
  GetStuck(world);
  world.clock.Advance(seconds(59));
  world.RestartOperator();
  world.Settle();
  world.clock.Advance(seconds(59));
  world.Settle();
  EXPECT_EQ(world.Job()->status.attempt, 0);
  world.clock.Advance(seconds(1));
  world.Settle();
  EXPECT_EQ(world.Job()->status.attempt, 1);
}

TEST(ReconcilerTest, AContainerThatTheKubeletHasRestartedHasItsTimeAnew) {
  World world(Job("j")
                  .Workers(2)
                  .Training()
                  .RestartScope(api::RestartScope::kPod)
                  .ProgressDeadlineSeconds(60)
                  .Build());
  GetStuck(world);
  world.clock.Advance(seconds(59));
  world.client.Modify(kube::kPodKind, {"default", "j-worker-1"}, [](kube::Object& pod) {
    pod["status"]["containerStatuses"] = {
        {{"name", pod.at("spec").at("containers").at(0).at("name")},
         {"restartCount", 1},
         {"state", {{"running", kube::Object::object()}}}}};
  });
  world.Settle();
  world.clock.Advance(seconds(59));
  world.Settle();
  EXPECT_EQ(world.Job()->status.attempt, 0);
  world.clock.Advance(seconds(1));
  world.Settle();
  EXPECT_EQ(world.Job()->status.attempt, 1);
  EXPECT_EQ(world.Job()->status.restarts.application, 2) << "the kubelet's is charged, too";
}

// An Evaluator that fails again and again may hold up nobody.
TEST(ReconcilerTest, AnEvaluatorThatTheKubeletHasRestartedChangesNoTime) {
  api::TrainingSpec training = testing::MnistTraining();
  training.checkpoint.directory = "/checkpoints";
  World world(Job("j")
                  .Workers(2)
                  .Evaluator()
                  .Training(training)
                  .RestartScope(api::RestartScope::kPod)
                  .ProgressDeadlineSeconds(60)
                  .Build());
  GetStuck(world);
  world.clock.Advance(seconds(59));
  world.client.Modify(kube::kPodKind, {"default", "j-evaluator-0"}, [](kube::Object& pod) {
    pod["status"]["phase"] = "Running";
    pod["status"]["containerStatuses"] = {
        {{"name", pod.at("spec").at("containers").at(0).at("name")},
         {"restartCount", 1},
         {"state", {{"running", kube::Object::object()}}}}};
  });
  world.Settle();
  EXPECT_EQ(world.Job()->status.attempt, 0);
  world.clock.Advance(seconds(1));
  world.Settle();
  EXPECT_EQ(world.Job()->status.attempt, 1);
}

// A job with an image of the user's own, whose program reports a step now and then.
class ReportingTest : public ::testing::Test {
 protected:
  void Start() {
    world_.reports.emplace();
    world_.RestartOperator();
    world_.Settle();
    world_.SetPod("j-worker-0", "Running");
    world_.Settle();
  }
  void Report(int step) {
    const std::string uid = world_.Job()->metadata.uid;
    world_.reports->Take(
        uid, Attempt(),
        {.loss = 0.5, .step = step, .total_steps = 100, .digest = static_cast<std::size_t>(step)},
        std::nullopt, world_.clock.Now(), world_.clock.SteadyNow());
    world_.Settle();
  }
  int Attempt() { return world_.Job()->status.attempt; }

  void Restart(const Settings& settings) {
    world_.reports.emplace();
    world_.RestartOperator(settings);
    EXPECT_TRUE(world_.tokens().Load().ok());
    world_.Settle();
  }
  void Restart() { Restart(kReporting); }
  int AttemptAfter(Duration time) {
    world_.clock.Advance(time);
    world_.Settle();
    return Attempt();
  }

  const Settings kReporting{.job_tokens = true, .progress_url = "http://op", .parallel_calls = 1};
  World world_{
      Job("j")
          .Workers(1)
          .ProgressDeadlineSeconds(60)
          .With([](api::TrainingJob& job) { job.spec.job_token = api::TokenMount::kMounted; })
          .Build(),
      kReporting};
};

TEST_F(ReportingTest, ItsProgressIsWrittenAtThePaceOfOthers) {
  Start();
  world_.clock.Advance(seconds(10));
  Report(1);
  const api::Progress progress = *world_.Job()->status.progress;
  EXPECT_EQ(progress.step, 1);
  EXPECT_EQ(progress.loss, 0.5);
  EXPECT_EQ(progress.update_time, world_.clock.Now());
  const std::size_t writes = world_.client.writes().size();
  for (int step = 2; step < 10; ++step) {
    world_.clock.Advance(seconds(1));
    Report(step);
  }
  EXPECT_EQ(world_.client.writes().size(), writes);
  world_.clock.Advance(seconds(2));
  world_.Settle();
  EXPECT_EQ(world_.client.writes().size(), writes + 1);
  EXPECT_EQ(world_.Job()->status.progress->step, 9);
}

TEST_F(ReportingTest, AProgramThatReportsNothingMoreIsRestarted) {
  Start();
  world_.clock.Advance(std::chrono::hours(1));
  world_.Settle();
  EXPECT_EQ(Attempt(), 0) << "one that has never reported is not judged";
  Report(1);
  world_.clock.Advance(seconds(59));
  Report(2);
  world_.clock.Advance(seconds(59));
  Report(2);
  EXPECT_EQ(Attempt(), 0);
  world_.clock.Advance(seconds(1));
  world_.Settle();
  EXPECT_EQ(Attempt(), 1);
  EXPECT_EQ(world_.Job()->status.failure->reason, "ProgressDeadlineExceeded");
  for (const kube::Object& pod : world_.Pods()) {
    if (kube::IsBeingDeleted(pod)) world_.client.Remove(kube::kPodKind, kube::KeyOf(pod));
  }
  world_.Settle();
  world_.SetPod("j-worker-0", "Running");
  world_.clock.Advance(std::chrono::hours(1));
  world_.Settle();
  EXPECT_EQ(Attempt(), 1) << "the next attempt has not reported yet";
  Restart();
  world_.clock.Advance(std::chrono::hours(1));
  world_.Settle();
  EXPECT_EQ(Attempt(), 1) << "what the status has is the attempt's before";
}

TEST_F(ReportingTest, AnotherOperatorGivesAProgramThatHasReportedItsTimeAnew) {
  Start();
  world_.clock.Advance(seconds(10));
  Report(1);
  world_.clock.Advance(seconds(59));
  Restart();
  world_.clock.Advance(seconds(59));
  world_.Settle();
  EXPECT_EQ(Attempt(), 0);
  world_.clock.Advance(seconds(1));
  world_.Settle();
  EXPECT_EQ(Attempt(), 1);
}

// With restartScope Pod: neither the attempt nor the pod is another one.
TEST_F(ReportingTest, AContainerThatStartsAgainMayTakeItsTime) {
  const auto restart_container = [this](int count) {
    world_.client.Modify(
        kube::kPodKind, {"default", "j-worker-0"}, [this, count](kube::Object& pod) {
          pod["status"]["containerStatuses"] = {
              {{"name", pod.at("spec").at("containers").at(0).at("name")},
               {"restartCount", count},
               {"state",
                {{"running", {{"startedAt", FormatRfc3339(WholeSeconds(world_.clock.Now()))}}}}},
               {"lastState", {{"terminated", {{"exitCode", 1}}}}}}};
        });
    world_.Settle();
  };
  Start();
  world_.clock.Advance(seconds(10));
  Report(1);
  restart_container(1);
  EXPECT_EQ(AttemptAfter(std::chrono::hours(1)), 0);
  Report(1);
  Restart();
  restart_container(2);
  EXPECT_EQ(AttemptAfter(std::chrono::hours(1)), 0) << "nor does what the status has count";
  Restart();
  EXPECT_EQ(AttemptAfter(std::chrono::hours(1)), 0) << "nor for an operator that did not see it";
  Report(1);
  EXPECT_EQ(AttemptAfter(seconds(60)), 1);
}

// One drain takes the leading pod and the operator.
TEST_F(ReportingTest, APodThatIsReplacedMayTakeItsTime) {
  world_.client.Modify(kTrainingJobKind, world_.key,
                       [](kube::Object& job) { job["spec"]["restartScope"] = "Pod"; });
  Start();
  world_.clock.Advance(seconds(10));
  Report(1);
  world_.client.Remove(kube::kPodKind, {"default", "j-worker-0"});
  Restart();
  world_.Settle();
  world_.SetPod("j-worker-0", "Running");
  EXPECT_EQ(AttemptAfter(std::chrono::hours(1)), 0);
  Restart();
  EXPECT_EQ(AttemptAfter(std::chrono::hours(1)), 0);
}

// An operator that has another key, or is told another URL, leaves pods with the old ones.
TEST_F(ReportingTest, NothingIsExpectedFromAProgramThatReportsElsewhere) {
  Start();
  world_.clock.Advance(seconds(10));
  Report(1);
  Settings elsewhere = kReporting;
  elsewhere.progress_url = "http://op2";
  Restart(elsewhere);
  EXPECT_EQ(AttemptAfter(std::chrono::hours(1)), 0);
  ASSERT_TRUE(world_.client.Delete(kube::kSecretKind, testing::kOperatorKey, "").ok());
  Restart();
  EXPECT_EQ(AttemptAfter(std::chrono::hours(1)), 0);
  Report(2);
  EXPECT_EQ(AttemptAfter(seconds(60)), 1) << "it has reached this one";
}

TEST_F(ReportingTest, WithoutItsKeyAnOperatorHearsNothing) {
  Start();
  world_.clock.Advance(seconds(10));
  Report(1);
  world_.reports.emplace();
  world_.RestartOperator();
  EXPECT_EQ(world_.Settle(), seconds(60)) << "the job is looked at again";
  EXPECT_EQ(AttemptAfter(std::chrono::hours(1)), 0);
  ASSERT_TRUE(world_.tokens().Load().ok());
  EXPECT_EQ(world_.Settle(), seconds(60));
  EXPECT_EQ(AttemptAfter(seconds(59)), 0);
  EXPECT_EQ(AttemptAfter(seconds(1)), 1);
}

TEST_F(ReportingTest, ASilenceThatTheServerMayHaveCausedTellsNothing) {
  Start();
  world_.clock.Advance(seconds(10));
  Report(1);
  for (int i = 0; i < 2; ++i) {
    world_.clock.Advance(seconds(59));
    world_.reports->NoteLoss(world_.clock.SteadyNow());
    EXPECT_EQ(AttemptAfter(seconds(59)), 0) << i;
    if (i == 0) Restart();
  }
  EXPECT_EQ(AttemptAfter(seconds(1)), 1);
}

// A namespace that cannot be listed keeps the operator from being ready for as long as it lasts.
TEST_F(ReportingTest, AServiceThatSendsNothingToAnOperatorThatIsNotReadyHasNoProgramRestarted) {
  Start();
  world_.clock.Advance(seconds(10));
  Report(1);
  Restart();
  world_.reports->NoteReadiness(false, world_.clock.SteadyNow());
  EXPECT_EQ(AttemptAfter(std::chrono::hours(1)), 0);
  EXPECT_EQ(world_.Settle(), seconds(60)) << "the job is looked at again";
  world_.reports->NoteReadiness(true, world_.clock.SteadyNow());
  EXPECT_EQ(AttemptAfter(seconds(59)), 0);
  EXPECT_EQ(AttemptAfter(seconds(1)), 1);
}

TEST_F(ReportingTest, AProgramOfALaterAttemptIsJudgedByItsOnlyReportToThisOperator) {
  Start();
  Report(1);
  world_.clock.Advance(seconds(60));
  world_.Settle();
  for (const kube::Object& pod : world_.Pods()) {
    if (kube::IsBeingDeleted(pod)) world_.client.Remove(kube::kPodKind, kube::KeyOf(pod));
  }
  Start();
  EXPECT_EQ(Attempt(), 1);
  Report(1);
  world_.clock.Advance(seconds(60));
  world_.Settle();
  EXPECT_EQ(Attempt(), 2);
}

TEST_F(ReportingTest, AProgramThatIsDoneMayTakeItsTimeToEnd) {
  Start();
  Report(1);
  Report(100);
  world_.clock.Advance(std::chrono::hours(1));
  world_.Settle();
  EXPECT_EQ(Attempt(), 0);
  Restart();
  world_.clock.Advance(std::chrono::hours(1));
  world_.Settle();
  EXPECT_EQ(Attempt(), 0) << "the status tells the next process";
  world_.SetPod("j-worker-0", "Succeeded");
  world_.Settle();
  EXPECT_EQ(world_.Job()->status.progress->step, 100);
}

// A program sends its last report once. The operator may end before it writes other progress.
TEST_F(ReportingTest, ThatAProgramIsDoneIsWrittenAtOnce) {
  Start();
  world_.clock.Advance(seconds(10));
  Report(1);
  Report(99);
  EXPECT_EQ(world_.Job()->status.progress->step, 1);
  Report(100);
  EXPECT_EQ(world_.Job()->status.progress->step, 100);
  Restart();
  EXPECT_EQ(AttemptAfter(std::chrono::hours(1)), 0);
}

TEST(ReconcilerTest, AClockThatIsSetForwardTakesNoTimeFromAnEvaluator) {
  World world(Job("j").Workers(1).Evaluator().Build());
  world.Settle();
  for (const char* pod : {"j-worker-0", "j-evaluator-0"}) world.SetPod(pod, "Running");
  world.Settle();
  world.SetPod("j-worker-0", "Succeeded");
  world.Settle();
  world.client.Remove(kube::kPodKind, {"default", "j-worker-0"});
  world.clock.Step(std::chrono::hours(1));
  world.Settle();
  EXPECT_EQ(world.Job()->status.state, "Running");
  world.clock.Advance(std::chrono::minutes(5));
  world.Settle();
  EXPECT_EQ(world.Job()->status.state, "Succeeded");
}

// The second loss would be an incident of its own, and its successor would have to wait.
TEST(ReconcilerTest, AClockThatIsSetForwardSplitsNoIncident) {
  World world(Job("j").Workers(3).RestartScope(api::RestartScope::kPod).Build());
  world.client.SetScheduler([](const kube::Object& /*pod*/) { return "node"; });
  world.Settle();
  for (const char* pod : {"j-worker-0", "j-worker-1", "j-worker-2"}) world.SetPod(pod, "Running");
  world.Settle();
  for (const char* pod : {"j-worker-1", "j-worker-2"}) {
    ASSERT_TRUE(world.client.Delete(kube::kPodKind, {"default", pod}, "").ok());
    world.Settle();
    world.clock.Step(std::chrono::minutes(1));
  }
  EXPECT_EQ(world.Job()->status.restarts, (api::RestartCounts{0, 2, 1}));
}

TEST(ReconcilerTest, TheDeadlineAndTheTimeToLiveSurviveARestartOfTheOperator) {
  World world(Job("j").Workers(1).ActiveDeadlineSeconds(100).TtlSecondsAfterFinished(50).Build());
  world.Settle();
  world.SetPod("j-worker-0", "Running");
  EXPECT_EQ(world.Settle(), seconds(100));
  world.clock.Advance(seconds(40));
  world.RestartOperator();
  EXPECT_EQ(world.Settle(), seconds(60));
  world.clock.Advance(seconds(60));
  EXPECT_EQ(world.Settle(), seconds(50));
  EXPECT_EQ(world.Job()->status.state, "Failed");
  world.clock.Advance(seconds(20));
  world.RestartOperator();
  EXPECT_EQ(world.Settle(), seconds(30));
  world.clock.Advance(seconds(30));
  world.Settle();
  EXPECT_EQ(world.Job(), std::nullopt);
}

TEST(ReconcilerTest, ANamesakeOfADeletedJobStartsAfresh) {
  World world(Job("j").Workers(1).Build());
  world.Settle();
  const kube::Object old = world.Pods().front();
  world.client.Remove(kTrainingJobKind, world.key);
  ASSERT_TRUE(
      world.client.Create(kTrainingJobKind, api::TrainingJobToJson(Job("j").Workers(1).Build()))
          .ok());
  world.Settle();  // the old pod still has the name
  EXPECT_EQ(FindCondition(world.Job()->status, kRunning)->reason, "NameConflict");
  world.client.Remove(kube::kPodKind, kube::KeyOf(old));
  world.client.Remove(kube::kServiceKind, {"default", "j"});
  world.Settle();  // their ends are the sign, no time passes
  ASSERT_THAT(world.Pods(), SizeIs(1));
  EXPECT_THAT(world.client.Objects(kube::kServiceKind), SizeIs(1));
  EXPECT_EQ(kube::ControllerUid(world.Pods().front()), world.Job()->metadata.uid);
}

// The composition, with its own threads: a job goes from creation to success.
TEST(JobControllerTest, RunsAJobFromCreationToSuccess) {
  HookedClient client;
  const SystemClock clock;
  const DnsAddresses addresses;
  NoProgress progress;
  JobController controller(client, addresses, progress, clock);
  controller.Start();
  const auto job = Job("j").Workers(2).CleanPodPolicy(api::CleanPodPolicy::kNone).Build();
  ASSERT_TRUE(client.Create(kTrainingJobKind, api::TrainingJobToJson(job)).ok());
  const auto wait_for = [&client](const std::string& state) {
    while (true) {
      const auto current = client.Get(kTrainingJobKind, {"default", "j"});
      const auto status = current->value("status", kube::Object::object());
      if (status.value("state", "") == state) return;
      std::this_thread::yield();
    }
  };
  wait_for("Pending");
  for (const auto& [phase, state] : {std::pair("Running", "Running"), {"Succeeded", "Succeeded"}}) {
    for (const char* name : {"j-worker-0", "j-worker-1"}) {
      client.Modify(kube::kPodKind, {"default", name}, [&phase](kube::Object& pod) {
        pod["status"] = {{"phase", phase},
                         {"conditions", {{{"type", "Ready"}, {"status", "True"}}}}};
      });
    }
    wait_for(state);
  }
  EXPECT_TRUE(controller.HasSynced());
  controller.Stop();
}

}  // namespace
}  // namespace lockstep::controller
