// When statuses are written, and what happens if the server refuses them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/controller/rules/parts/status.h"
#include "tests/operator/controller/world.h"

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

TEST(StatusWritesTest, NothingIsWrittenBeforeTheCachesHaveSeenTheLastWrites) {
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
TEST(StatusWritesTest, AStatusIsSentWithAllMetadataAndNoSpec) {
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
  int Statuses() const { return world.client.Count("update-status", "TrainingJob"); }

  World world;
};

TEST(StatusWritesTest, StatusesThatCanWaitTakeTurnsAndPodsDoNot) {
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

TEST(StatusWritesTest, FirstSightsAndReasonsGoAheadOfCounts) {
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

TEST(StatusWritesTest, ATurnIsKeptUntilAStatusIsWritten) {
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

TEST(StatusWritesTest, ASlowServersTurnsAreFartherApart) {
  Jobs jobs(/*status_rate=*/1000, /*status_burst=*/1);
  jobs.world.client.SetAfter([&jobs](const HookedClient::Call& call) {
    const bool is_first = call.verb == "update-status" && call.name == "j0";
    if (is_first) jobs.world.clock.Advance(seconds(8));
    return absl::OkStatus();
  });
  EXPECT_THAT(jobs.Reconcile(), ElementsAre(seconds(2), seconds(10), milliseconds(400),
                                            milliseconds(800), milliseconds(1200)));
}

// No next status says what they say.
TEST(StatusWritesTest, ASlowServersTurnsOfReasonsAreCloserTogether) {
  Jobs jobs(/*status_rate=*/1000, /*status_burst=*/Jobs::kCount);
  jobs.Reconcile();
  ASSERT_EQ(jobs.Statuses(), Jobs::kCount) << "each has told that it is there";
  jobs.world.clock.Advance(seconds(20));
  for (int i = 0; i < Jobs::kCount; ++i) {
    jobs.world.client.Modify(
        kube::kPodKind, {"default", "j" + std::to_string(i) + "-worker-0"}, [](kube::Object& pod) {
          kube::Object container = {{"name", pod["spec"]["containers"][0]["name"]}};
          container["state"]["waiting"]["reason"] = "ImagePullBackOff";
          pod["status"] = {{"phase", "Pending"}, {"containerStatuses", {container}}};
        });
  }
  jobs.world.client.SetAfter([&jobs](const HookedClient::Call& call) {
    const bool is_first = call.verb == "update-status" && call.name == "j0";
    if (is_first) jobs.world.clock.Advance(seconds(8));
    return absl::OkStatus();
  });
  const auto delays = jobs.Reconcile();
  EXPECT_GT(delays.at(3), Duration::zero());
  EXPECT_LE(delays.at(3), milliseconds(200)) << "j1 waited longest, j2 is next";
}

TEST(StatusWritesTest, AStatusThatTheServerFindsInvalidIsWrittenWithoutWhatPodsReported) {
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

TEST(StatusWritesTest, AJobIsSuspendedThoughTheServerRefusesItsStatus) {
  World world(Job("j").Workers(2).Build());
  world.Settle();
  for (const char* name : {"j-worker-0", "j-worker-1"}) world.SetPod(name, "Running");
  world.Settle();
  world.client.SetBefore(RefuseStatuses());
  world.SetSuspend(true);
  ReconcileThrice(world);
  EXPECT_THAT(world.Pods(), IsEmpty());
  EXPECT_THAT(world.EventReasons(), ElementsAre("Running", "StatusRefused"));
  world.SetSuspend(false);
  ReconcileThrice(world);
  EXPECT_THAT(world.Pods(), IsEmpty()) << "pods that nothing could stop";
  world.SetSuspend(true);
  world.client.SetBefore({});
  world.Settle();
  EXPECT_EQ(world.Job()->status.state, "Suspended");
  world.SetSuspend(false);
  world.Settle();
  EXPECT_THAT(world.Pods(), SizeIs(2));
}

TEST(StatusWritesTest, AStatusWhoseAnswerWasLostReplacesTheOneThatWasRefused) {
  World world(Job("j").Workers(2).Build());
  world.Settle();
  world.client.SetBefore(RefuseStatuses());
  world.SetSuspend(true);
  ReconcileThrice(world);
  world.client.SetBefore({});
  world.client.SetAfter([](const HookedClient::Call& call) {
    return call.verb == "update-status" ? absl::UnavailableError("no answer") : absl::OkStatus();
  });
  world.SetSuspend(false);
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

TEST(StatusWritesTest, AJobPastItsDeadlineEndsAndGoesThoughTheServerRefusesItsStatus) {
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

TEST(StatusWritesTest, AConflictingStatusWriteIsTriedAgainFromTheNewVersion) {
  World world(Job("j").Workers(1).Build());
  world.client.Modify(kTrainingJobKind, world.key,
                      [](kube::Object& job) { job["metadata"]["labels"]["a"] = "b"; });
  EXPECT_TRUE(absl::IsAborted(world.Reconcile().status()));
  world.Settle();
  EXPECT_EQ(world.Job()->status.state, "Pending");
  EXPECT_EQ(world.Job()->metadata.labels.at("a"), "b");
}

}  // namespace
}  // namespace lockstep::controller
