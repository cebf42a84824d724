// Whom the operator asks for progress, and until when an Evaluator has time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "absl/status/status.h"
#include "tests/operator/controller/world.h"

namespace lockstep::controller {
namespace {

using std::chrono::seconds;
using ::testing::IsEmpty;
using testing::Job;
using testing::World;

TEST(ProgressTest, WhereTheLeadingPodIsAskedFollowsAnEdit) {
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

TEST(ProgressTest, ProgressIsAskedOfTheLeaderAndWrittenAtMostOnceAnInterval) {
  World world(Job("j").Workers(2).Training().Build());
  world.Settle();
  for (const char* name : {"j-worker-0", "j-worker-1"}) world.SetPod(name, "Running");
  world.Settle();
  const int writes = world.client.Count("update-status", "TrainingJob");
  for (int second = 0; second < 30; ++second) {
    world.progress.answer.emplace().step = second + 1;
    world.clock.Advance(seconds(1));
    world.Settle();
  }
  EXPECT_EQ(world.client.Count("update-status", "TrainingJob"), writes + 3);
  EXPECT_EQ(world.progress.asked.host, "10.0.0.1");
  EXPECT_EQ(world.progress.asked.port, 2222);
  EXPECT_EQ(world.progress.asked.job_uid, world.Job()->metadata.uid);
  EXPECT_EQ(world.Job()->status.progress->step, 30);
  world.SetPod("j-worker-0", "Succeeded");
  world.Settle();
  EXPECT_EQ(world.progress.forgotten, world.Job()->metadata.uid);
}

// Two workers of an elastic job run, and their leading pod has answered.
struct ResizableWorld : World {
  ResizableWorld()
      : World(testing::Job("j")
                  .Workers(2)
                  .RestartScope(api::RestartScope::kInPlace)
                  .Training()
                  .With([](api::TrainingJob& job) {
                    job.spec.elastic = api::ElasticSpec{1, 5};
                    job.spec.training->checkpoint.directory = "/checkpoints";
                  })
                  .Build()) {
    progress.tells = true;
    Settle();
    for (const char* name : {"j-worker-0", "j-worker-1"}) SetPod(name, "Running");
    progress.group.workers = 2;
    progress.group.resizes = true;
    Settle();
    EXPECT_EQ(progress.told, 2);
  }
  void Scale(int workers) {
    client.Modify(kTrainingJobKind, key, [&](kube::Object& job) {
      job["spec"]["replicaSpecs"]["Worker"]["replicas"] = workers;
      job["metadata"]["generation"] = ++generation;
    });
    Settle();
  }
  // Lets time pass, and the operator look often.
  void Wait(Duration time) {
    for (Duration passed{}; passed < time; passed += seconds(10)) {
      clock.Advance(seconds(10));
      Settle();
    }
  }
  int generation = 1;
};

TEST(ProgressTest, AGroupIsGivenTwoMinutesForEachNumberWithoutTheTimeOfItsSave) {
  ResizableWorld world;
  world.Scale(1);
  EXPECT_EQ(world.progress.told, 1);
  world.Wait(seconds(110));
  world.Scale(3);
  world.SetPod("j-worker-2", "Running");
  world.Settle();
  EXPECT_EQ(world.progress.told, 3);
  world.Wait(seconds(110));
  EXPECT_EQ(world.Job()->status.attempt, 0);
  world.progress.group.keeps_workers = true;
  world.Wait(seconds(600));
  EXPECT_EQ(world.Job()->status.attempt, 0);
  world.progress.group.keeps_workers = false;
  world.Wait(seconds(130));
  EXPECT_EQ(world.Job()->status.attempt, 1);
}

TEST(ProgressTest, ANewOperatorWaitsTwoMinutesForAGroupThatMustFollowAndDoesNotAnswer) {
  for (const bool is_scaled : {false, true}) {
    ResizableWorld world;
    world.Scale(3);
    world.SetPod("j-worker-2", "Running");
    world.progress.group.workers = 3;
    world.Settle();
    world.progress.group = {};  // no answer ever
    world.RestartOperator();
    world.Settle();
    world.Wait(seconds(300));
    EXPECT_EQ(world.Job()->status.attempt, 0) << "it has its number";
    if (is_scaled) world.Scale(4);
    world.Wait(seconds(110));
    EXPECT_EQ(world.Job()->status.attempt, 0);
    world.Wait(seconds(30));
    EXPECT_EQ(world.Job()->status.attempt, is_scaled ? 1 : 0);
  }
}

// Made for two, it has grown to three and was told of two again: its note says nothing.
TEST(ProgressTest, ANewOperatorDeletesNoWorkerBeforeTheLeadingPodHasAnswered) {
  for (const bool answers : {false, true}) {
    ResizableWorld world;
    world.Scale(3);
    world.SetPod("j-worker-2", "Running");
    world.progress.group.workers = 3;
    world.Settle();
    world.Scale(2);
    world.progress.group = {};
    world.RestartOperator();
    world.Settle();
    EXPECT_EQ(world.progress.told, 2);
    world.Wait(seconds(110));
    EXPECT_EQ(world.Pods().size(), 3u);
    if (answers) {
      world.progress.group.workers = 2;
      world.progress.group.resizes = true;
    }
    world.Wait(seconds(30));
    EXPECT_EQ(world.Job()->status.attempt, answers ? 0 : 1);
    EXPECT_TRUE(!answers || world.Pods().size() == 2);
  }
}

// An HPA has just written the job, say, or the server's answer is lost.
TEST(ProgressTest, TheEventOfAResizeIsNotLostWithItsStatus) {
  for (const absl::StatusCode code : {absl::StatusCode::kAborted, absl::StatusCode::kUnavailable,
                                      absl::StatusCode::kDeadlineExceeded}) {
    for (const bool is_written : {false, true}) {
      SCOPED_TRACE(::testing::Message() << absl::StatusCodeToString(code) << is_written);
      ResizableWorld world;
      world.Scale(1);
      world.progress.group.workers = 1;
      world.SyncAll();
      int failures = 0;
      const auto fail_once = [&](const testing::HookedClient::Call& call) {
        const bool fails = call.verb == "update-status" && failures++ == 0;
        return fails ? absl::Status(code, "once") : absl::OkStatus();
      };
      if (is_written) {
        world.client.SetAfter(fail_once);
      } else {
        world.client.SetBefore(fail_once);
      }
      EXPECT_FALSE(world.Reconcile().ok());
      world.Settle();
      world.Wait(seconds(60));
      EXPECT_EQ(std::ranges::count(world.EventReasons(), "Resized"), 1);
      EXPECT_EQ(world.reconciler->shrunk(), 1);
    }
  }
}

TEST(ProgressTest, TheEventOfAResizeWaitsForTheTurnOfItsStatus) {
  ResizableWorld world;
  world.RestartOperator({.parallel_calls = 1, .status_rate = 0.01, .status_burst = 1});
  const auto grow = [&world](int workers) {
    world.clock.Advance(seconds(1));  // events are named by the time
    world.Scale(workers);
    world.SetPod("j-worker-" + std::to_string(workers - 1), "Running");
    world.Settle();
    world.progress.group.workers = workers;
    world.Settle();
    return std::ranges::count(world.EventReasons(), "Resized");
  };
  EXPECT_EQ(grow(3), 1) << "the first number that no pod was created for is written out of turn";
  EXPECT_EQ(grow(4), 2);
  EXPECT_EQ(grow(5), 2) << "the next turn comes after 100 s";
  world.Wait(seconds(300));
  EXPECT_EQ(std::ranges::count(world.EventReasons(), "Resized"), 3);
  EXPECT_EQ(world.reconciler->grown(), 3);
}

// The operator is replaced in the middle of each change.
TEST(ProgressTest, AGroupThatFollowsKeepsItsPodsWhateverBecomesOfTheOperator) {
  ResizableWorld world;
  const auto scale = [&](int workers) {
    world.Scale(workers);
    world.RestartOperator();
    world.Settle();
  };
  scale(3);
  ASSERT_EQ(world.Pods().size(), 3u);
  EXPECT_EQ(world.progress.told, 0) << "the new worker's pod does not run yet";
  world.SetPod("j-worker-2", "Running");
  world.Settle();
  EXPECT_EQ(world.progress.told, 3);
  world.progress.group.workers = 3;
  world.Settle();
  EXPECT_EQ(world.reconciler->grown(), 1);
  scale(1);
  EXPECT_EQ(world.progress.told, 1);
  EXPECT_EQ(world.Pods().size(), 3u) << "the group has not left them behind yet";
  world.progress.group.workers = 1;
  world.Settle();
  EXPECT_EQ(world.reconciler->shrunk(), 1);
  EXPECT_EQ(world.reconciler->grown(), 0) << "of this process";
  EXPECT_EQ(world.Pods().size(), 1u);
  world.progress.group = {};  // no answer yet, of three that it was told of or one
  world.RestartOperator();
  world.Settle();
  EXPECT_EQ(world.Pods().size(), 1u);
  EXPECT_EQ(world.Job()->status.attempt, 0);
  EXPECT_EQ(world.Job()->status.restarts, api::RestartCounts{});
}

// All pods that are left note the number before.
TEST(ProgressTest, ANewOperatorKeepsAGroupThatHasShrunkWhoseLeadingPodDoesNotRun) {
  ResizableWorld world;
  world.Scale(3);
  world.SetPod("j-worker-2", "Running");
  world.progress.group.workers = 3;
  world.Settle();
  world.Scale(1);
  world.progress.group.workers = 1;
  world.Settle();
  EXPECT_EQ(world.Job()->status.group_workers, 1);
  for (const bool leader_runs : {true, false}) {
    if (!leader_runs) world.SetPod("j-worker-0", "Failed", 137);
    world.progress.group = {};
    world.RestartOperator();
    world.Settle();
    world.Wait(seconds(300));
    EXPECT_EQ(world.Job()->status.attempt, 0) << leader_runs;
  }
}

// Its address may be another tenant's pod by then.
TEST(ProgressTest, NobodyIsAskedForProgressWhileTheJobHasNoLeadingPod) {
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
  world.SetSuspend(true);
  world.Settle();
  ASSERT_THAT(world.Pods(), IsEmpty());
  EXPECT_EQ(world.progress.paused, uid) << "the job is suspended";
}

TEST(ProgressTest, OnceTrainingHasEndedTheEvaluatorIsAsked) {
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
TEST(ProgressTest, TheEvaluatorIsAskedOnceTheLeadersNodeIsLostAtTheEnd) {
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
TEST(ProgressTest, AnEvaluatorHasItsTimeThoughTheFinishedLeadersPodIsDeleted) {
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
TEST(ProgressTest, TrainingThatWasOverBeforeTheEditThatSuspendsIsOver) {
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

TEST(ProgressTest, AJobThatANamesakeReplacesIsNotAskedForProgressAnyMore) {
  World world(Job("j").Workers(1).Training().Build());
  world.Settle();
  world.SetPod("j-worker-0", "Running");
  world.Settle();
  const std::string uid = world.Job()->metadata.uid;
  ASSERT_EQ(world.progress.asked.job_uid, uid);
  // The operator sees neither moment alone.
  ASSERT_TRUE(world.client.Delete(kTrainingJobKind, world.key, {}).ok());
  ASSERT_TRUE(
      world.client
          .Create(kTrainingJobKind, api::TrainingJobToJson(Job("j").Workers(1).Training().Build()))
          .ok());
  world.SyncAll();
  (void)world.Reconcile();
  ASSERT_NE(world.Job()->metadata.uid, uid);
  EXPECT_EQ(world.progress.forgotten, uid);
}

}  // namespace
}  // namespace lockstep::controller
