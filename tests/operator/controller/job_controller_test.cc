// The whole operator over an in-memory API server; tests/integration has a real one.
#include "operator/controller/job_controller.h"
#include "operator/controller/rules/parts/status.h"
#include "operator/controller/state/kinds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tests/operator/controller/world.h"
#include "tests/support/eventually.h"
#include "tests/support/fake_kubelet.h"

namespace lockstep::controller {
namespace {

using std::chrono::milliseconds;
using testing::Eventually;
using testing::FakeKubelet;
using testing::HookedClient;
using testing::Job;

class NamespacesTest : public ::testing::Test {
 protected:
  NamespacesTest() {
    for (const char* name : {"a", "b", "c"}) {
      kubelets_.push_back(std::make_unique<FakeKubelet>(
          client_, name, [](const kube::Object&) { return FakeKubelet::Fate::kSucceeds; }));
    }
  }

  void StartOperator(std::vector<std::string> namespaces) {
    JobControllerOptions options;
    options.namespaces = std::move(namespaces);
    options.settings.status_interval = milliseconds(1);
    options.retry = options.watch_retry = {.initial = milliseconds(1), .limit = milliseconds(5)};
    operator_ = std::make_unique<JobController>(client_, addresses_, progress_, clock_, options);
    operator_->Start();
  }
  void Submit(const std::string& name) {
    for (const char* where : {"a", "b", "c"}) {
      auto job = Job(name).Namespace(where).Uid(where + ("-" + name)).Workers(2).Build();
      job.spec.run_policy.clean_pod_policy =
          api::CleanPodPolicy::kNone;  // so that pods are counted
      ASSERT_TRUE(client_.Create(kTrainingJobKind, api::TrainingJobToJson(job)).ok());
    }
  }
  std::string StateOf(const std::string& where, const std::string& name) {
    const auto job = client_.Get(kTrainingJobKind, {where, name});
    return job.ok() ? job->value("/status/state"_json_pointer, "") : "gone";
  }
  int Pods(const std::string& where) {
    const auto pods = client_.Objects(kube::kPodKind);
    return static_cast<int>(std::ranges::count(pods, where, kube::Namespace));
  }

  const SystemClock clock_;
  const DnsAddresses addresses_;
  NoProgress progress_;
  HookedClient client_;
  std::vector<std::unique_ptr<FakeKubelet>> kubelets_;
  std::unique_ptr<JobController> operator_;
};

TEST_F(NamespacesTest, JobsOfTheNamespacesServedRunAndThoseOfOthersAreLeftAlone) {
  Submit("j");
  StartOperator({"a", "b"});
  Submit("later");
  for (const char* where : {"a", "b"}) {
    for (const char* name : {"j", "later"}) {
      EXPECT_TRUE(Eventually([&] { return StateOf(where, name) == "Succeeded"; })) << where << name;
    }
  }
  // Matched by name alone, pods would count for the job of the same name in another namespace.
  EXPECT_EQ(Pods("a"), 4);
  EXPECT_EQ(Pods("b"), 4);
  EXPECT_EQ(Pods("c"), 0);
  EXPECT_EQ(StateOf("c", "j"), "");
  for (const JobControllerStats::Cache& cache : operator_->Stats().caches) {
    EXPECT_EQ(cache.feeds.size(), 2U) << cache.kind.plural;
  }
}

// Without a look at once, the job would notice only when something else changes, perhaps never.
TEST_F(NamespacesTest, AJobMissesAPodThatIsTakenFromIt) {
  kubelets_.clear();
  kubelets_.push_back(std::make_unique<FakeKubelet>(
      client_, "a", [](const kube::Object&) { return FakeKubelet::Fate::kRuns; }));
  Submit("j");
  StartOperator({"a"});
  ASSERT_TRUE(Eventually([&] { return StateOf("a", "j") == "Running"; }));
  auto pod = *client_.Get(kube::kPodKind, {"a", "j-worker-1"});
  pod["metadata"].erase("ownerReferences");
  ASSERT_TRUE(client_.Update(kube::kPodKind, pod).ok());
  EXPECT_TRUE(Eventually([&] { return StateOf("a", "j") != "Running"; }));
}

TEST_F(NamespacesTest, ANamespaceThatTheServerDeniesDoesNotDelayOthers) {
  std::atomic<bool> may_enter{false};
  client_.SetBefore([&may_enter](const HookedClient::Call& call) {
    const bool enters = call.kind == "TrainingJob" && call.namespace_name == "b";
    return enters && !may_enter ? absl::PermissionDeniedError("list b: forbidden")
                                : absl::OkStatus();
  });
  Submit("j");
  StartOperator({"a", "b"});
  EXPECT_TRUE(Eventually([&] { return StateOf("a", "j") == "Succeeded"; }));
  EXPECT_FALSE(operator_->HasSynced());
  EXPECT_TRUE(operator_->IsOpen("a"));
  EXPECT_FALSE(operator_->IsOpen("b"));
  EXPECT_FALSE(operator_->IsOpen("c"));
  EXPECT_EQ(StateOf("b", "j"), "");
  EXPECT_EQ(Pods("b"), 0);
  may_enter = true;
  EXPECT_TRUE(Eventually([&] { return StateOf("b", "j") == "Succeeded"; }));
  EXPECT_TRUE(operator_->HasSynced());
  EXPECT_TRUE(operator_->IsOpen("b"));
  EXPECT_EQ(Pods("c"), 0);
  operator_.reset();  // the client's hook reads may_enter
}

// The namespace stays open, since the server may have denied it for a moment only.
TEST_F(NamespacesTest, ANamespaceThatIsLostLaterCountsAsNotSyncedUntilItIsBack) {
  std::atomic<bool> is_lost{false};
  client_.SetBefore([&is_lost](const HookedClient::Call& call) {
    return is_lost && call.namespace_name == "b" ? absl::PermissionDeniedError("watch b: forbidden")
                                                 : absl::OkStatus();
  });
  StartOperator({"a", "b"});
  const auto synced = [&] {
    const auto caches = operator_->Stats().caches;
    return std::ranges::count_if(caches, &JobControllerStats::Cache::synced);
  };
  EXPECT_TRUE(Eventually([&] { return synced() == 3; }));
  is_lost = true;
  EXPECT_TRUE(Eventually([&] {
    client_.EndWatches(absl::OkStatus());
    return synced() == 0;
  }));
  EXPECT_TRUE(operator_->HasSynced());
  EXPECT_TRUE(operator_->IsOpen("b"));
  Submit("j");
  EXPECT_TRUE(Eventually([&] { return StateOf("a", "j") == "Succeeded"; }));
  EXPECT_EQ(Pods("b"), 0);
  EXPECT_EQ(synced(), 0);
  is_lost = false;
  EXPECT_TRUE(Eventually([&] { return StateOf("b", "j") == "Succeeded"; }));
  EXPECT_TRUE(Eventually([&] { return synced() == 3; }))
      << "events come, though no watch has ended";
  operator_.reset();  // the client's hook reads is_lost
}

// A program may report every second, and each look at a job of many pods is costly.
TEST(JobControllerTest, ALookAtAJobIsAtOnceOnlyOnDemand) {
  const SystemClock clock;
  const DnsAddresses addresses;
  NoProgress progress;
  HookedClient client;
  JobControllerOptions options;
  options.settings.status_interval = std::chrono::hours(1);
  JobController controller(client, addresses, progress, clock, options);
  controller.Look({"default", "j"}, false);
  EXPECT_EQ(controller.Stats().queue.delayed, 0U) << "its namespace is not open";
  controller.Start();
  EXPECT_TRUE(Eventually([&] { return controller.HasSynced(); }));
  for (int i = 0; i < 3; ++i) controller.Look({"default", "j"}, false);
  const kube::WorkQueueStats queue = controller.Stats().queue;
  EXPECT_EQ(queue.adds, 0);
  EXPECT_EQ(queue.delayed, 1U);
  controller.Look({"default", "j"}, true);
  EXPECT_TRUE(Eventually([&] { return controller.Stats().successes == 1; }));
  controller.Stop();
  EXPECT_FALSE(controller.IsOpen("default")) << "nobody would write what is reported now";
}

// The metrics count every job that on_job_change gets.
TEST(JobControllerTest, JobsOfAnotherControllerAreNotReported) {
  const SystemClock clock;
  const DnsAddresses addresses;
  NoProgress progress;
  HookedClient client;
  std::mutex mutex;
  std::vector<std::string> reported;  // guarded by mutex
  JobControllerOptions options;
  options.on_job_change = [&](const api::TrainingJob*, const api::TrainingJob& job) {
    const std::lock_guard lock(mutex);
    reported.push_back(job.metadata.name);
  };
  JobController controller(client, addresses, progress, clock, options);
  for (const char* name : {"foreign", "own"}) {
    api::TrainingJob job = Job(name).Workers(1).Build();
    if (job.metadata.name == "foreign") job.spec.managed_by = "example.org/dispatcher";
    ASSERT_TRUE(client.Create(kTrainingJobKind, api::TrainingJobToJson(job)).ok());
  }
  controller.Start();
  EXPECT_TRUE(Eventually([&] { return controller.HasSynced(); }));
  controller.Stop();
  EXPECT_THAT(reported, ::testing::Each("own"));
  EXPECT_FALSE(reported.empty());
}

// A kubelet writes several statuses of each pod that starts, and a look at a job copies its pods.
TEST(JobControllerTest, ChangesThatAskForNothingAreLookedAtTogether) {
  const SystemClock clock;
  const DnsAddresses addresses;
  NoProgress progress;
  HookedClient client;
  JobControllerOptions options;
  options.workers = 1;  // looks come in the order of changes
  options.settings.change_hold = std::chrono::hours(1);
  JobController controller(client, addresses, progress, clock, options);
  controller.Start();
  for (const char* name : {"j", "other", "last"}) {
    const api::TrainingJob job = Job(name).Workers(2).BackoffLimit(6).Build();
    ASSERT_TRUE(client.Create(kTrainingJobKind, api::TrainingJobToJson(job)).ok());
  }
  const auto state_of = [&client](const char* name) {
    return client.Get(kTrainingJobKind, {"default", name})->value("/status/state"_json_pointer, "");
  };
  ASSERT_TRUE(Eventually([&] {
    return client.Objects(kube::kPodKind).size() == 6 && state_of("j") == "Pending" &&
           state_of("other") == "Pending" && state_of("last") == "Pending";
  }));
  client.Modify(kTrainingJobKind, {"default", "last"},
                [](kube::Object& job) { job["spec"]["suspend"] = true; });
  // Then the statuses that the others got before have been looked at.
  ASSERT_TRUE(Eventually([&] { return state_of("last") == "Suspended"; }));
  const auto set = [&client](const char* name, const kube::Object& status) {
    client.Modify(kube::kPodKind, {"default", name},
                  [&status](kube::Object& pod) { pod["status"] = status; });
  };
  const kube::Object ready = {{{"type", "Ready"}, {"status", "True"}}};
  for (const char* name : {"j-worker-0", "j-worker-1"}) {
    set(name, {{"phase", "Running"}, {"conditions", ready}});
  }
  set("other-worker-0", {{"phase", "Failed"}});
  ASSERT_TRUE(Eventually([&] { return state_of("other") == "Restarting"; }));
  EXPECT_EQ(state_of("j"), "Pending");
  set("j-worker-1", {{"phase", "Failed"}});
  EXPECT_TRUE(Eventually([&] { return state_of("j") == "Restarting"; })) << "this asks for a look";
}

// Nothing of the job or of its pod's node changes when the outage ends.
TEST(JobControllerTest, JobsOnUnreadyNodesAreLookedAtWhenAWideOutageEnds) {
  const SystemClock clock;
  const DnsAddresses addresses;
  NoProgress progress;
  HookedClient client;
  client.SetScheduler([](const kube::Object&) { return "node-1"; });
  const auto set_node = [&client](const std::string& name, const char* ready) {
    client.Modify(kNodeKind, {"", name}, [ready](kube::Object& node) {
      node["status"]["conditions"] = {{{"type", "Ready"}, {"status", ready}}};
    });
  };
  for (const char* name : {"node-0", "node-1", "node-2", "node-3"}) {
    client.Add(kNodeKind, {{"metadata", {{"name", name}}}});
    set_node(name, "Unknown");
  }
  const api::TrainingJob job = Job("j").Workers(1).Build();
  ASSERT_TRUE(client.Create(kTrainingJobKind, api::TrainingJobToJson(job)).ok());
  JobControllerOptions options;
  options.settings.watch_nodes = true;
  options.settings.status_interval = milliseconds(1);
  options.settings.node_lost_after = milliseconds(1);
  JobController controller(client, addresses, progress, clock, options);
  controller.Start();
  const auto pod_uid = [&client] {
    const auto pod = client.Get(kube::kPodKind, {"default", "j-worker-0"});
    return pod.ok() ? kube::Uid(*pod) : std::string();
  };
  ASSERT_TRUE(Eventually([&] { return !pod_uid().empty(); }));
  const std::string uid = pod_uid();
  const auto is_at_rest = [&] {
    const JobControllerStats stats = controller.Stats();
    for (const JobControllerStats::Cache& cache : stats.caches) {
      if (cache.objects != client.Objects(cache.kind).size()) return false;
    }
    const auto live = client.Get(kTrainingJobKind, {"default", "j"});
    const bool is_seen =
        live->contains("status") &&
        controller.jobs().Get({"default", "j"})->resource_version == kube::ResourceVersion(*live);
    return is_seen && stats.queue.ready + stats.queue.delayed == 0 &&
           stats.queue.longest.name.empty();
  };
  ASSERT_TRUE(Eventually(is_at_rest));
  EXPECT_EQ(pod_uid(), uid);
  set_node("node-0", "True");
  set_node("node-2", "True");
  EXPECT_TRUE(Eventually([&] { return pod_uid() != uid; }));
}

}  // namespace
}  // namespace lockstep::controller
