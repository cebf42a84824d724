// What explains a peer's end with scope Pod, where each replica fails by itself.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/rfc3339.h"
#include "operator/controller/state/times.h"
#include "tests/operator/controller/world.h"
#include "tests/support/observed_builder.h"

namespace lockstep::controller {
namespace {

using api::RestartPolicy;
using api::Role;
using std::chrono::seconds;
using testing::HookedClient;
using testing::Job;
using testing::World;

// Two workers, whose exit with 1 fails the job unless a peer explains it, and a parameter server
// that its kubelet restarts. All of them run.
class SeenCausesTest : public ::testing::Test {
 protected:
  SeenCausesTest() {
    world_.Settle();
    for (const char* name : {"j-worker-0", "j-worker-1", "j-ps-0"}) world_.SetPod(name, "Running");
    world_.Settle();
    EXPECT_EQ(world_.Job()->status.state, "Running");
    world_.clock.Advance(std::chrono::hours(1));
    world_.Settle();
  }
  // The server's program has ended, and its kubelet starts it again after its back-off.
  void EndServer(int exit_code, const std::string& reason) {
    end_ = {{"exitCode", exit_code}, {"reason", reason}};
    if (kubelet_knows_times_) {
      end_["finishedAt"] = FormatRfc3339(WholeSeconds(world_.clock.Now()));
    }
    SetServer({{"state", {{"terminated", end_}}}});
  }
  void StartServerAgain() {
    ++restarts_;
    SetServer(
        {{"state", {{"running", kube::Object::object()}}}, {"lastState", {{"terminated", end_}}}});
  }
  void RestartServer(int exit_code, const std::string& reason) {
    EndServer(exit_code, reason);
    StartServerAgain();
  }
  // Its pod has failed for good, with the restarts before.
  void FailServer() {
    EndServer(137, "OOMKilled");
    world_.client.Modify(kube::kPodKind, {"default", "j-ps-0"},
                         [](kube::Object& pod) { pod["status"]["phase"] = "Failed"; });
    world_.Settle();
  }
  void SetServer(kube::Object container) {
    world_.client.Modify(kube::kPodKind, {"default", "j-ps-0"}, [&](kube::Object& pod) {
      container["name"] = pod.at("spec").at("containers").at(0).at("name");
      container["restartCount"] = restarts_;
      pod["status"]["containerStatuses"] = kube::Object::array({container});
    });
  }
  // Worker 0 exits with 1, which is judged when its time has come. Returns the job's state then.
  std::string FailWorker() {
    world_.SetPod("j-worker-0", "Failed", 1);
    world_.Settle();
    world_.clock.Advance(seconds(10));
    world_.Settle();
    return world_.Job()->status.state;
  }

  int restarts_ = 0;
  bool kubelet_knows_times_ = true;
  kube::Object end_;
  World world_{Job("j")
                   .Workers(2)
                   .ParameterServers(1)
                   .RestartPolicy(Role::kWorker, RestartPolicy::kExitCode)
                   .Build()};
};

TEST_F(SeenCausesTest, AWorkersOwnEndFailsTheJob) {
  EXPECT_EQ(FailWorker(), "Failed");
}

TEST_F(SeenCausesTest, APeerThatItsKubeletHasRestartedIsACause) {
  RestartServer(137, "OOMKilled");
  world_.Settle();
  EXPECT_EQ(FailWorker(), "Running");
  EXPECT_EQ(world_.Job()->status.restarts, (api::RestartCounts{0, 0, 1})) << "the kubelet's counts";
}

TEST_F(SeenCausesTest, ThePeersRestartMayBeSeenAfterTheEndThatItExplains) {
  world_.SetPod("j-worker-0", "Failed", 1);
  world_.Settle();
  world_.clock.Advance(seconds(9));
  RestartServer(137, "OOMKilled");
  world_.Settle();
  EXPECT_EQ(world_.Job()->status.state, "Running");
}

// A kubelet's back-off may be longer than a peer's end waits for its cause.
TEST_F(SeenCausesTest, APeerThatItsKubeletHasYetToRestartIsACause) {
  EndServer(137, "OOMKilled");
  world_.Settle();
  EXPECT_EQ(FailWorker(), "Running");
}

TEST_F(SeenCausesTest, ACauseIsNoNewOneWhenTheKubeletStartsItsProgramAgain) {
  EndServer(137, "OOMKilled");
  world_.Settle();
  world_.clock.Advance(std::chrono::minutes(5));
  StartServerAgain();
  world_.Settle();
  EXPECT_EQ(FailWorker(), "Failed");
}

// As of a container that was gone when its node came back.
TEST_F(SeenCausesTest, EachEndCountsThoughItsTimeIsNotKnown) {
  kubelet_knows_times_ = false;
  RestartServer(137, "ContainerStatusUnknown");
  world_.Settle();
  world_.clock.Advance(std::chrono::hours(1));
  RestartServer(137, "ContainerStatusUnknown");
  world_.Settle();
  EXPECT_EQ(FailWorker(), "Running");
}

TEST_F(SeenCausesTest, ASuccessThatIsStartedAgainExplainsNothing) {
  RestartServer(0, "Completed");
  world_.Settle();
  EXPECT_EQ(FailWorker(), "Failed");
}

// A sidecar runs on, say.
TEST_F(SeenCausesTest, NorDoesASuccessWhosePodIsRemovedWhileItStillRuns) {
  world_.client.Modify(kube::kPodKind, {"default", "j-worker-1"}, [](kube::Object& pod) {
    pod["status"]["containerStatuses"] = {
        {{"name", pod.at("spec").at("containers").at(0).at("name")},
         {"state", {{"terminated", {{"exitCode", 0}, {"reason", "Completed"}}}}}}};
  });
  world_.SyncAll();
  EXPECT_TRUE(world_.Reconcile().ok());
  world_.client.Remove(kube::kPodKind, {"default", "j-worker-1"});
  EXPECT_EQ(FailWorker(), "Failed");
}

TEST_F(SeenCausesTest, ANewOperatorKnowsAPeersRestartByItsTime) {
  RestartServer(137, "OOMKilled");
  world_.RestartOperator();
  world_.Settle();
  EXPECT_EQ(FailWorker(), "Running");
}

TEST_F(SeenCausesTest, ARestartOfLongAgoExplainsNothing) {
  RestartServer(137, "OOMKilled");
  world_.Settle();
  world_.clock.Advance(seconds(11));
  world_.RestartOperator();
  EXPECT_EQ(FailWorker(), "Failed");
}

TEST_F(SeenCausesTest, APeerThatMayHaveEndedForThatReasonIsNone) {
  RestartServer(1, "Error");
  world_.Settle();
  EXPECT_EQ(FailWorker(), "Failed");
}

TEST_F(SeenCausesTest, APeerWhosePodVanishesIsACause) {
  world_.client.Remove(kube::kPodKind, {"default", "j-worker-1"});
  world_.Settle();
  EXPECT_EQ(FailWorker(), "Running");
}

TEST_F(SeenCausesTest, APodThatVanishesCountsAsDisruptedOnce) {
  world_.client.Remove(kube::kPodKind, {"default", "j-worker-1"});
  world_.client.SetBefore([](const HookedClient::Call& call) {
    return call.verb == "update-status" ? absl::UnavailableError("the connection broke")
                                        : absl::OkStatus();
  });
  world_.SyncAll();
  EXPECT_FALSE(world_.Reconcile().ok());
  world_.client.SetBefore(nullptr);
  world_.Settle();
  EXPECT_EQ(world_.Job()->status.restarts, (api::RestartCounts{0, 1, 1}));
  ASSERT_TRUE(world_.Job()->status.failure);
  EXPECT_EQ(world_.Job()->status.failure->reason, "PodVanished");
  EXPECT_THAT(world_.EventReasons(), ::testing::Contains("Restarting").Times(1));
  EXPECT_EQ(world_.Pods().size(), 3) << "it is replaced";
  world_.Settle();
  EXPECT_EQ(world_.Job()->status.restarts.disruption, 1);
}

// Something deletes it by force as soon as it runs.
TEST_F(SeenCausesTest, APodThatVanishesAgainAndAgainIsReplacedWithABackOff) {
  for (int i = 0; i < 2; ++i) {
    world_.SetPod("j-worker-1", "Running");
    world_.Settle();
    world_.client.Remove(kube::kPodKind, {"default", "j-worker-1"});
    world_.Settle();
  }
  EXPECT_EQ(world_.Pods().size(), 2);
  EXPECT_TRUE(world_.Job()->status.next_retry_time);
  EXPECT_EQ(world_.Job()->status.restarts.disruption, 2);
}

TEST_F(SeenCausesTest, NoPodOfASuspendedJobHasVanished) {
  world_.SetSuspend(true);
  world_.SyncAll();
  EXPECT_TRUE(world_.Reconcile().ok());
  for (const kube::Object& pod : world_.Pods()) {
    world_.client.Remove(kube::kPodKind, {"default", pod.at("metadata").at("name")});
  }
  world_.Settle();
  EXPECT_EQ(world_.Job()->status.restarts.disruption, 0);
  EXPECT_EQ(world_.Job()->status.state, "Suspended");
}

// A peer that lost the server, say, whose node is drained.
TEST_F(SeenCausesTest, AKubeletsRestartOfAPeerIsNotChargedIfALossExplainsIt) {
  RestartServer(1, "Error");
  world_.Settle();
  EXPECT_EQ(world_.reconciler->Reconcile(world_.key)->value_or(Duration::zero()), seconds(10))
      << "until it counts";
  world_.clock.Advance(seconds(5));
  world_.SetPod("j-worker-1", "Failed", 137);
  world_.Settle();
  EXPECT_EQ(world_.Job()->status.restarts.application, 1) << "of the worker";
  world_.clock.Advance(std::chrono::hours(1));
  // What was charged for the server shows when its pod is gone.
  FailServer();
  EXPECT_EQ(world_.Job()->status.restarts.application, 2);
}

TEST_F(SeenCausesTest, NorAreRestartsWhileAReplicaIsNotThere) {
  world_.SetPod("j-worker-1", "Failed", 137);
  world_.Settle();  // its successor waits for a node
  for (const int after : {15, 40}) {
    world_.clock.Advance(seconds(after));
    RestartServer(1, "Error");
    world_.Settle();
  }
  world_.SetPod("j-worker-1", "Running");
  world_.Settle();
  world_.clock.Advance(std::chrono::hours(1));
  world_.Settle();
  FailServer();
  EXPECT_EQ(world_.Job()->status.restarts.application, 2) << "of the worker and of the server";
}

// A program that ignores the SIGTERM ends with its grace period, long after its node is drained.
TEST_F(SeenCausesTest, NorIsOneAfterTheLateEndOfAPeerThatIsBeingDeleted) {
  world_.client.Modify(kube::kPodKind, {"default", "j-worker-1"}, [](kube::Object& pod) {
    pod["metadata"]["deletionTimestamp"] = "2099-01-01T00:00:00Z";
    pod["metadata"]["deletionGracePeriodSeconds"] = 3600;
  });
  world_.Settle();
  world_.clock.Advance(seconds(30));
  world_.client.Remove(kube::kPodKind, {"default", "j-worker-1"});
  RestartServer(1, "Error");
  world_.Settle();
  world_.SetPod("j-worker-1", "Running");
  world_.clock.Advance(std::chrono::hours(1));
  world_.Settle();
  FailServer();
  EXPECT_EQ(world_.Job()->status.restarts.application, 1) << "of the server";
}

TEST_F(SeenCausesTest, NorAreThoseOfANodeThatWasStartedAgain) {
  RestartServer(255, "Unknown");
  world_.Settle();
  world_.clock.Advance(std::chrono::hours(1));
  world_.Settle();
  FailServer();
  EXPECT_EQ(world_.Job()->status.restarts.application, 1);
}

// Two restarts may be seen at once.
TEST_F(SeenCausesTest, OneCauseExplainsAllRestartsOfThatTime) {
  RestartServer(1, "Error");
  RestartServer(1, "Error");
  world_.Settle();
  RestartServer(2, "Error");
  world_.Settle();
  world_.SetPod("j-worker-1", "Failed", 137);
  world_.Settle();
  world_.SetPod("j-worker-1", "Running");
  world_.clock.Advance(std::chrono::hours(1));
  world_.Settle();
  FailServer();
  EXPECT_EQ(world_.Job()->status.restarts.application, 2);
}

TEST_F(SeenCausesTest, ANewOperatorFailsNoJobForRestartsThatTheOneBeforeExcused) {
  for (int i = 0; i < 8; ++i) {  // backoffLimit is 6
    RestartServer(255, "Unknown");
    world_.Settle();
    world_.clock.Advance(std::chrono::minutes(1));
  }
  EXPECT_EQ(world_.Job()->status.state, "Running");
  world_.RestartOperator();
  world_.Settle();
  EXPECT_EQ(world_.Job()->status.state, "Running");
  world_.clock.Advance(std::chrono::minutes(1));
  RestartServer(137, "OOMKilled");
  world_.Settle();
  EXPECT_EQ(world_.Job()->status.state, "Failed") << "the next one counts";
}

// A scale-down removes the index of a pod that still ends.
TEST_F(SeenCausesTest, NorAreRestartsThatWereExcusedWhenAScaleDownRemovesTheirPod) {
  World world(Job("j")
                  .Workers(3)
                  .ElasticTorch(1, 3)
                  .RestartScope(api::RestartScope::kPod)
                  .BackoffLimit(6)
                  .Build());
  world.Settle();
  for (const char* name : {"j-worker-0", "j-worker-1", "j-worker-2"}) {
    world.SetPod(name, "Running");
  }
  world.Settle();
  for (int restarts = 1; restarts <= 7; ++restarts) {  // their node was started again
    world.client.Modify(kube::kPodKind, {"default", "j-worker-2"}, [&](kube::Object& pod) {
      kube::Object& container = pod["status"]["containerStatuses"][0];
      container["restartCount"] = restarts;
      container["lastState"] = {{"terminated", {{"exitCode", 255}, {"reason", "Unknown"}}}};
    });
    world.Settle();
  }
  world.client.Modify(kTrainingJobKind, world.key, [](kube::Object& job) {
    job["spec"]["replicaSpecs"]["Worker"]["replicas"] = 2;
  });
  world.Settle();
  EXPECT_EQ(world.Job()->status.restarts.application, 0);
  world.client.Modify(kube::kPodKind, {"default", "j-worker-1"}, [](kube::Object& pod) {
    pod["metadata"]["deletionTimestamp"] = "2099-01-01T00:00:00Z";
    pod["metadata"]["deletionGracePeriodSeconds"] = 30;
  });
  world.Settle();
  EXPECT_EQ(world.Job()->status.state, "Running");
}

// Its peers of the attempt that a loss has just closed are no workers that have vanished from the
// next one.
TEST(GoneWorkersTest, AnOptionalWorkerThatNeverStartedRestartsNobody) {
  World world(Job("j").Workers(4).ElasticTorch(2, 4).Build());
  world.Settle();
  for (const kube::Object& pod : world.Pods()) world.SetPod(kube::Name(pod), "Running");
  world.Settle();
  world.clock.Advance(seconds(20));
  world.Settle();
  ASSERT_EQ(world.Job()->status.ready_replicas, "4/4");
  world.SetPod("j-worker-1", "Failed", 137);
  world.Settle();
  ASSERT_EQ(world.Job()->status.attempt, 1);
  EXPECT_EQ(world.Job()->status.ready_replicas, "0/4");
  world.client.Modify(kube::kPodKind, {"default", "j-worker-3"}, [](kube::Object& pod) {
    pod["status"] = {{"phase", "Failed"}, {"reason", "UnexpectedAdmissionError"}};
  });
  world.Settle();
  EXPECT_EQ(world.Job()->status.attempt, 1);
}

TEST_F(SeenCausesTest, AKubeletsRestartOfAPeerIsChargedIfNothingExplainsIt) {
  RestartServer(1, "Error");
  world_.Settle();
  world_.clock.Advance(seconds(11));
  world_.Settle();
  FailServer();
  EXPECT_EQ(world_.Job()->status.restarts.application, 2);
}

TEST_F(SeenCausesTest, APodThatHasSucceededAndIsRemovedIsNone) {
  world_.SetPod("j-worker-1", "Succeeded");
  world_.Settle();
  world_.client.Remove(kube::kPodKind, {"default", "j-worker-1"});
  world_.Settle();
  EXPECT_EQ(FailWorker(), "Failed");
}

// The status that charges the cause is written, and the connection breaks.
TEST_F(SeenCausesTest, AChargeWhoseAnswerIsLostIsRememberedAndTold) {
  world_.client.SetAfter([](const HookedClient::Call& call) {
    return call.verb == "update-status" ? absl::UnavailableError("the connection broke")
                                        : absl::OkStatus();
  });
  world_.SetPod("j-worker-1", "Failed", 137);
  world_.SyncAll();
  EXPECT_FALSE(world_.Reconcile().ok());
  world_.client.SetAfter(nullptr);
  world_.Settle();
  EXPECT_EQ(world_.Job()->status.restarts.application, 1);
  EXPECT_THAT(world_.EventReasons(), ::testing::Contains("Restarting"));
  EXPECT_EQ(FailWorker(), "Running");
  EXPECT_EQ(world_.Job()->status.restarts.application, 1);
}

TEST_F(SeenCausesTest, AChargeThatWasNotWrittenIsForgotten) {
  world_.client.SetBefore([](const HookedClient::Call& call) {
    return call.verb == "update-status" ? absl::UnavailableError("the connection broke")
                                        : absl::OkStatus();
  });
  world_.SetPod("j-worker-1", "Failed", 137);
  world_.SyncAll();
  EXPECT_FALSE(world_.Reconcile().ok());
  world_.client.SetBefore(nullptr);
  world_.Settle();
  EXPECT_THAT(world_.EventReasons(), ::testing::Contains("Restarting").Times(1));
  EXPECT_EQ(world_.Job()->status.restarts.application, 1);
}

// An Evaluator and a worker that both find the configuration wrong, say.
TEST(NewJobTest, AnEvaluatorsEndIsNoCauseThatAnEarlierOperatorCharged) {
  World world(Job("j")
                  .Workers(2)
                  .Evaluator()
                  .RestartScope(api::RestartScope::kPod)
                  .RestartPolicy(Role::kWorker, RestartPolicy::kExitCode)
                  .Build());
  world.Settle();
  for (const char* name : {"j-worker-0", "j-worker-1", "j-evaluator-0"}) {
    world.SetPod(name, "Running");
  }
  world.Settle();
  world.SetPod("j-evaluator-0", "Failed", 1);
  world.Settle();
  ASSERT_EQ(world.Job()->status.failure->role, "evaluator");
  for (const char* name : {"j-worker-0", "j-worker-1"}) world.SetPod(name, "Failed", 1);
  world.Settle();
  EXPECT_EQ(world.Job()->status.state, "Failed");
}

}  // namespace
}  // namespace lockstep::controller
