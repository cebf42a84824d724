// Random worlds: stale caches, kills before and after any write, lost answers, writes that the
// server refuses for a while, failing pods, silent nodes, deleted children, steps of the clock.
// Whatever happens, the invariants hold; Kueue's eviction is obeyed though the job cannot be
// written; when faults stop, the job ends and the operator comes to rest.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <random>
#include <set>
#include <string>

#include "operator/controller/children/pod_revision.h"
#include "operator/controller/rules/parts/status.h"
#include "tests/operator/controller/world.h"
#include "tests/support/referee.h"

namespace lockstep::controller {
namespace {

using api::RestartScope;
using std::chrono::seconds;
using testing::HookedClient;
using testing::Job;
using testing::World;

constexpr int kBackoffLimit = 3;
constexpr int kNodes = 4;
constexpr auto kReady = api::DependencyStatus::kReady;
constexpr auto kComplete = api::DependencyStatus::kComplete;

// Replays the API server's journal to the referee.
class JournalReader {
 public:
  explicit JournalReader(bool gang) : referee_(gang, kBackoffLimit) {}

  void Check(World& world) {
    for (const kube::WatchEvent& event : world.client.JournalSince(seen_)) {
      seen_ = testing::VersionOf(event.object);
      if (testing::IsOf(kTrainingJobKind, event.object)) referee_.CheckJob(event.object);
      if (testing::IsOf(kube::kPodKind, event.object)) referee_.CheckPod(event);
    }
  }

 private:
  std::uint64_t seen_ = 0;
  testing::Referee referee_;
};

struct Variation {
  const char* name;
  RestartScope scope = RestartScope::kGang;
  bool elastic = false;
  std::string gang_scheduler;
  bool kueue = false;
  std::optional<api::DependencyStatus> servers_first = {};  // how far, before workers start
  bool whole = false;  // with a chief, parameter servers and an Evaluator
  // Instead of programs that hang: nodes go silent, come back or are deleted, the clock steps, and
  // what belongs to the job is deleted. What the job is charged for is counted.
  bool storm = false;
  bool only_disruptions = false;  // no program fails by itself
  bool resizes = false;           // the group takes a new size without a restart
};

api::TrainingJob JobOf(const Variation& variation) {
  auto job = Job("j")
                 .Workers(3)
                 .RestartScope(variation.scope)
                 .BackoffLimit(kBackoffLimit)
                 .ActiveDeadlineSeconds(variation.storm ? 10'000'000 : 100'000);
  if (!variation.storm) job.ProgressDeadlineSeconds(60);
  if (variation.whole) job.Chief().ParameterServers(2).Evaluator();
  if (variation.scope == RestartScope::kInPlace) {
    api::TrainingSpec training = testing::MnistTraining();
    training.checkpoint.directory = "/checkpoints";
    job.Training(training);
  }
  if (variation.servers_first) {
    job.ParameterServers(2).DependsOn(api::Role::kWorker, api::Role::kParameterServer,
                                      *variation.servers_first);
  }
  return job
      .With([&variation](api::TrainingJob& made) {
        if (variation.elastic) made.spec.elastic = api::ElasticSpec{1, 4};
        if (variation.kueue) made.metadata.labels["kueue.x-k8s.io/queue-name"] = "queue";
      })
      .Build();
}

class Chaos {
 public:
  Chaos(unsigned seed, const Variation& variation)
      : random_(seed),
        variation_(variation),
        world_(JobOf(variation), {.gang_scheduler_name = variation.gang_scheduler,
                                  .kueue = variation.kueue,
                                  .job_tokens = true,
                                  .network_policies = true,
                                  .parallel_calls = 1,
                                  .watch_nodes = variation.storm}),
        referee_(variation.scope == RestartScope::kGang) {
    world_.client.SetScheduler([](const kube::Object& pod) {
      return "node-" + kube::Label(pod, api::kLabelReplicaIndex);
    });
    CalmNodes();
    world_.progress.tells = variation.resizes;
  }

  void Run(int steps) {
    for (int i = 0; i < steps && !::testing::Test::HasFailure(); ++i) {
      Step();
      if (variation_.resizes) PlayGroup();
      referee_.Check(world_);
      if (variation_.storm) CheckCharges();
    }
  }

  // The server takes nothing that is written to the job, perhaps not even its status.
  void EvictForGood() {
    refused_ = {"update TrainingJob"};
    if (Draw(2) == 0) refused_.insert("update-status TrainingJob");
    Refuse();
    CalmNodes();
    Admit(false);
    for (int i = 0; i < 30; ++i) {
      world_.SyncAll();
      (void)world_.Reconcile();
      for (const kube::Object& pod : world_.Pods()) {
        if (kube::IsBeingDeleted(pod)) Work(pod, /*healthy=*/true);
      }
      world_.clock.Advance(seconds(30));
      referee_.Check(world_);
    }
    for (const kube::Object& pod : world_.Pods()) {
      EXPECT_TRUE(AllContainersEnded(*ObservePod(pod))) << "it has no quota";
    }
  }

  // Faults stop: the kubelet works, the programs end well.
  void Heal() {
    world_.progress.group.in_step_for.reset();
    refused_.clear();
    world_.client.SetBefore({});
    world_.client.SetAfter({});
    CalmNodes();
    if (!variation_.kueue) world_.SetSuspend(false);
    for (int i = 0; i < 200 && !IsTerminal(world_.Job()->status); ++i) {
      world_.Settle();
      for (const kube::Object& pod : world_.Pods()) Work(pod, /*healthy=*/true);
      if (variation_.kueue) Admit(true);
      world_.clock.Advance(seconds(30));
      if (variation_.resizes) PlayGroup();
      referee_.Check(world_);
      if (variation_.storm) CheckCharges();
    }
    EXPECT_TRUE(IsTerminal(world_.Job()->status)) << world_.Job()->status.state;
    for (const kube::Object& pod : world_.Pods()) Work(pod, true);
    world_.Settle();
    world_.clock.Advance(seconds(60));  // what still runs is deleted
    world_.Settle();
    const std::size_t writes = world_.client.writes().size();
    world_.RestartOperator();
    for (int i = 0; i < 5; ++i) {
      world_.clock.Advance(seconds(60));
      world_.Settle();
    }
    EXPECT_EQ(world_.client.writes().size(), writes) << "the operator does not rest";
    referee_.Check(world_);
  }

  int resizes() const { return resizes_; }

 private:
  int Draw(int bound) { return std::uniform_int_distribution<int>(0, bound - 1)(random_); }

  void Step() {
    if (Draw(25) == 0) ToggleRefusal();
    if (variation_.storm) {
      Storm();
    } else if (Draw(25) == 0) {  // some leading pods tell that they make no progress
      world_.progress.group.in_step_for = seconds(Draw(120));
    }
    switch (Draw(9)) {
      case 0:
        return world_.Sync(kube::kPodKind, static_cast<std::size_t>(Draw(4)));
      case 1:
        return world_.Sync(kTrainingJobKind, static_cast<std::size_t>(Draw(3)));
      case 2:
        return world_.Sync(kube::kServiceKind, 1);
      case 3:
        return world_.clock.Advance(seconds(Draw(20)));
      case 4:
        return WorkOnAnyPod();
      case 5:
        return Draw(10) == 0 ? world_.SetSuspend(Draw(2) == 0) : WorkOnAnyPod();
      case 6:
        return ReconcileUnderFire();
      case 7:
        return OutsidersStep();
      default:
        (void)world_.Reconcile();
        return;
    }
  }

  void Storm() {
    if (Draw(20) == 0) ToggleNode();
    if (Draw(40) == 0) world_.nodes_are_current = Draw(3) != 0;
    if (Draw(30) == 0) world_.clock.Step(seconds(Draw(1200) - 600));
    if (Draw(30) == 0) DeleteChild();
    if (Draw(5) == 0) world_.Sync(kNodeKind, 2);
  }

  void CalmNodes() {
    for (int i = 0; i < kNodes; ++i) world_.SetNode("node-" + std::to_string(i), "True");
    silent_nodes_.clear();
    world_.nodes_are_current = true;
  }

  void ToggleNode() {
    const std::string node = "node-" + std::to_string(Draw(kNodes));
    if (silent_nodes_.erase(node) > 0) return world_.SetNode(node, "True");
    silent_nodes_.insert(node);
    if (Draw(4) == 0) return world_.client.Remove(kNodeKind, {"", node});
    world_.SetNode(node, "Unknown");
  }

  // As a user or a garbage collector does it.
  void DeleteChild() {
    switch (Draw(3)) {
      case 0:
        return world_.client.Remove(kube::kServiceKind, {"default", "j"});
      case 1:
        if (variation_.kueue) world_.client.Remove(kWorkloadKind, {"default", "trainingjob-j"});
        return;
      default:
        for (const kube::Object& secret : world_.client.Objects(kube::kSecretKind)) {
          if (kube::Namespace(secret) == "default") {
            world_.client.Remove(kube::kSecretKind, kube::KeyOf(secret));
          }
        }
    }
  }

  // Nobody is charged for what no program has done.
  void CheckCharges() {
    const auto job = world_.Job();
    if (!job) return;
    EXPECT_LE(job->status.restarts.application, failures_);
    if (variation_.only_disruptions) {
      EXPECT_NE(job->status.state, "Failed") << api::TrainingJobToJson(*job).dump(1);
    }
  }

  // The leading pod tells how many workers train, and sooner or later does what it was told.
  void PlayGroup() {
    controller::GroupReport& group = world_.progress.group;
    const auto leader = world_.client.Get(kube::kPodKind, {"default", "j-worker-0"});
    const bool answers = leader.ok() && !silent_nodes_.contains("node-0") &&
                         kube::TextMember(kube::Member(*leader, "status"), "phase") == "Running";
    if (!answers) {
      group.workers.reset();
      group.answers = false;
      return;
    }
    if (Draw(3) == 0) return;
    group.resizes = true;
    group.answers = true;
    if (const std::string uid = kube::Uid(*leader); uid != leader_) {
      leader_ = uid;
      group.workers = WorkersOfShape(*world_.Job(), ObservePod(*leader)->cluster_shape);
      world_.progress.told = 0;
    } else if (world_.progress.told > 0 && Draw(2) == 0) {
      resizes_ += group.workers == world_.progress.told ? 0 : 1;
      group.workers = world_.progress.told;
    }
  }

  // Who scales, a gang scheduler's and Kueue's caches, and Kueue itself.
  void OutsidersStep() {
    if (variation_.elastic && Draw(4) == 0) {
      const int workers = 1 + Draw(4);
      world_.client.Modify(kTrainingJobKind, world_.key, [workers](kube::Object& job) {
        job["spec"]["replicaSpecs"]["Worker"]["replicas"] = workers;
      });
    }
    if (!variation_.gang_scheduler.empty()) {
      world_.Sync(PodGroupKind({.gang_scheduler_name = variation_.gang_scheduler}), 1);
    }
    if (!variation_.kueue) return;
    world_.Sync(kWorkloadKind, 2);
    if (Draw(3) == 0) Admit(Draw(3) != 0);
  }

  // Or evict. As Kueue does it: a Workload is admitted when it holds nothing, evicted when it does.
  void Admit(bool admit) {
    const kube::Key key{"default", "trainingjob-j"};
    const auto workload = world_.client.Get(kWorkloadKind, key);
    if (!workload.ok()) return;
    const ObservedWorkload seen = ReadWorkload(*workload);
    if (seen.finished || seen.reserved == admit) return;
    world_.client.Modify(kWorkloadKind, key, [&](kube::Object& object) {
      object = WithWorkloadCondition(object, "Evicted", !admit, "Preempted", "by another",
                                     world_.clock.Now());
      if (!admit) return;
      for (const char* type : {"QuotaReserved", "Admitted"}) {
        object = WithWorkloadCondition(object, type, true, "Admitted", "", world_.clock.Now());
      }
      object["status"]["admission"]["podSetAssignments"] = {
          {{"name", "worker"}, {"count", GrantedCount(seen)}}};
    });
  }

  // A job that may do with fewer workers sometimes gets fewer.
  int GrantedCount(const ObservedWorkload& seen) {
    const int asked = seen.counts.at(api::Role::kWorker);
    if (!variation_.storm || !seen.min_workers) return asked;
    const int least = std::min(*seen.min_workers, asked);
    return least + Draw(asked - least + 1);
  }

  absl::Status Refusal(const HookedClient::Call& call) const {
    const std::string what = call.verb + " " + call.kind;
    return refused_.contains(what) ? absl::FailedPreconditionError(what + ": no")
                                   : absl::OkStatus();
  }
  void Refuse() {
    world_.client.SetBefore([this](const HookedClient::Call& call) { return Refusal(call); });
  }
  void ToggleRefusal() {
    static const std::vector<std::string> kCalls = {
        "create Pod",      "create Service",           "delete Pod",      "create Workload",
        "delete Workload", "update-status Workload",   "update PodGroup", "update TrainingJob",
        "delete PodGroup", "update-status TrainingJob"};
    const std::string& call =
        kCalls[static_cast<std::size_t>(Draw(static_cast<int>(kCalls.size())))];
    if (refused_.erase(call) == 0) refused_.insert(call);
    Refuse();
  }

  // The operator dies before or after its n-th write of this reconcile, or only an answer is lost.
  void ReconcileUnderFire() {
    int countdown = Draw(5);
    const bool before = Draw(2) == 0, dies = Draw(2) == 0;
    bool dead = false;
    const auto hook = [&](const HookedClient::Call& call) {
      if (dead) return absl::UnavailableError("the process is dead");
      if (absl::Status refusal = Refusal(call); !refusal.ok()) return refusal;
      if (!call.is_write() || countdown-- > 0) return absl::OkStatus();
      dead = dies;
      return absl::UnavailableError("no answer");
    };
    if (before) {
      world_.client.SetBefore(hook);
    } else {
      world_.client.SetBefore([&](const HookedClient::Call& call) {
        return dead ? absl::UnavailableError("the process is dead") : Refusal(call);
      });
      world_.client.SetAfter(hook);
    }
    (void)world_.Reconcile();
    Refuse();
    world_.client.SetAfter({});
    if (dead) world_.RestartOperator();
  }

  void WorkOnAnyPod() {
    const std::vector<kube::Object> pods = world_.Pods();
    if (!pods.empty())
      Work(pods[static_cast<std::size_t>(Draw(static_cast<int>(pods.size())))], false);
  }

  void Work(const kube::Object& pod, bool healthy) {
    if (silent_nodes_.contains(kube::TextMember(kube::Member(pod, "spec"), "nodeName"))) return;
    const std::string name = kube::Name(pod);
    if (kube::IsBeingDeleted(pod)) return world_.client.Remove(kube::kPodKind, kube::KeyOf(pod));
    const auto status = pod.value("status", kube::Object::object());
    const std::string phase = status.value("phase", "Pending");
    if (phase == "Pending") return world_.SetPod(name, "Running");
    if (phase != "Running") return;
    const int fate = healthy ? 0 : Draw(12);
    if (fate == 0 && (healthy || Draw(4) == 0)) return world_.SetPod(name, "Succeeded");
    if (fate == 1 && !variation_.only_disruptions) {
      ++failures_;
      return world_.SetPod(name, "Failed", 137);
    }
    if (fate == 2) Evict(pod);
    if (fate == 3) world_.client.Remove(kube::kPodKind, kube::KeyOf(pod));  // gone without a trace
    if (fate == 4) {
      (void)world_.client.Delete(kube::kPodKind, kube::KeyOf(pod), {});  // drained
    }
  }

  void Evict(const kube::Object& pod) {
    world_.client.Modify(kube::kPodKind, kube::KeyOf(pod), [](kube::Object& evicted) {
      evicted["status"] = {{"phase", "Failed"},
                           {"reason", "Evicted"},
                           {"conditions", {{{"type", "DisruptionTarget"}, {"status", "True"}}}}};
    });
  }

  std::mt19937 random_;
  const Variation variation_;
  World world_;
  JournalReader referee_;
  std::set<std::string> refused_;  // "update TrainingJob"
  std::set<std::string> silent_nodes_;
  std::string leader_;  // the uid of the pod that PlayGroup has spoken for
  int failures_ = 0;    // of programs
  int resizes_ = 0;     // sizes that the group has followed
};

class ConvergenceTest : public ::testing::TestWithParam<Variation> {};

TEST_P(ConvergenceTest, InvariantsHoldAndTheJobEndsWhenFaultsStop) {
  int resizes = 0;
  for (unsigned seed = 1; seed <= 40 && !HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    Chaos chaos(seed, GetParam());
    chaos.Run(200);
    if (GetParam().kueue) chaos.EvictForGood();
    chaos.Heal();
    resizes += chaos.resizes();
  }
  EXPECT_EQ(resizes > 0, GetParam().resizes);
}

INSTANTIATE_TEST_SUITE_P(
    Variations, ConvergenceTest,
    ::testing::Values(
        Variation{"Gang"}, Variation{"InPlace", RestartScope::kInPlace},
        Variation{"Pod", RestartScope::kPod}, Variation{"ElasticGang", RestartScope::kGang, true},
        Variation{"ElasticInPlace", RestartScope::kInPlace, true},
        Variation{"ElasticPod", RestartScope::kPod, true},
        Variation{"Volcano", RestartScope::kGang, true, "volcano"},
        Variation{"SchedulerPlugins", RestartScope::kPod, false, "scheduler-plugins"},
        Variation{"ServersFirst", RestartScope::kPod, false, "", false, kReady},
        Variation{"InPlaceServersFirst", RestartScope::kInPlace, false, "", false, kReady},
        Variation{"HelpersFirst", RestartScope::kGang, false, "", false, kComplete},
        Variation{"VolcanoHelpersFirst", RestartScope::kGang, false, "volcano", false, kComplete},
        Variation{"Kueue", RestartScope::kGang, false, "", true},
        Variation{"KueueElastic", RestartScope::kInPlace, true, "", true},
        Variation{.name = "StormOnGang", .storm = true},
        Variation{.name = "DisruptedGang", .storm = true, .only_disruptions = true},
        Variation{.name = "StormOnPod", .scope = RestartScope::kPod, .storm = true},
        Variation{.name = "DisruptedInPlace",
                  .scope = RestartScope::kInPlace,
                  .storm = true,
                  .only_disruptions = true},
        Variation{.name = "StormOnResizing",
                  .scope = RestartScope::kInPlace,
                  .elastic = true,
                  .storm = true,
                  .resizes = true},
        Variation{.name = "DisruptedElasticPod",
                  .scope = RestartScope::kPod,
                  .elastic = true,
                  .storm = true,
                  .only_disruptions = true},
        Variation{.name = "StormOnWholeGang", .whole = true, .storm = true},
        Variation{.name = "DisruptedWhole",
                  .scope = RestartScope::kPod,
                  .whole = true,
                  .storm = true,
                  .only_disruptions = true},
        Variation{.name = "DisruptedPartialKueue",
                  .elastic = true,
                  .kueue = true,
                  .storm = true,
                  .only_disruptions = true}),
    [](const auto& instance) { return std::string(instance.param.name); });

}  // namespace
}  // namespace lockstep::controller
