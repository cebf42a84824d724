// Random worlds: stale caches, kills before and after any write, lost answers, failing pods.
// Whatever happens, the invariants hold; when faults stop, the job ends and the operator comes to
// rest.
#include <gtest/gtest.h>

#include <random>

#include "tests/operator/controller/world.h"

namespace lockstep::controller {
namespace {

using api::RestartScope;
using std::chrono::seconds;
using testing::FakeClient;
using testing::Job;
using testing::World;

constexpr int kBackoffLimit = 3;

int AttemptOf(const kube::Object& pod) {
  return std::stoi(kube::Label(pod, "training.lockstep.dev/attempt"));
}

// Replays the API server's journal and checks every version of every object.
class Referee {
 public:
  explicit Referee(bool gang) : gang_(gang) {}

  void Check(const World& world) {
    for (const FakeClient::Change& change : world.client.JournalSince(seen_)) {
      seen_ = change.version;
      if (change.kind == kTrainingJobKind) CheckJob(change.event.object);
      if (change.kind == kube::kPodKind) CheckPod(change.event);
    }
  }

 private:
  void CheckJob(const kube::Object& object) {
    const auto job = api::TrainingJobFromJson(object);
    ASSERT_TRUE(job.ok()) << job.status();
    const api::TrainingJobStatus& status = job->status;
    uid_ = job->metadata.uid;
    EXPECT_FALSE(IsTrue(status, kSucceeded) && IsTrue(status, kFailed));
    EXPECT_FALSE(IsTerminal(status) && IsTrue(status, kRunning));
    EXPECT_FALSE(IsTrue(status, kRestarting) && IsTrue(status, kRunning));
    if (IsTerminal(last_)) {
      EXPECT_EQ(status, last_) << "a terminal status changed";
    }
    EXPECT_GE(status.attempt, last_.attempt);
    EXPECT_GE(status.restarts.application, last_.restarts.application);
    EXPECT_GE(status.restarts.disruption, last_.restarts.disruption);
    EXPECT_GE(status.restart_count, last_.restart_count);
    EXPECT_LE(status.restarts.application, kBackoffLimit + (IsTrue(status, kFailed) ? 1000 : 0));
    if (gang_) {
      EXPECT_LE(status.restarts.application, kBackoffLimit + 1);
    }
    last_ = status;
  }

  void CheckPod(const kube::WatchEvent& event) {
    const kube::Object& pod = event.object;
    EXPECT_EQ(kube::ControllerUid(pod), uid_);
    if (event.type == kube::WatchEvent::Type::kDeleted) {
      alive_.erase(kube::Name(pod));
      return;
    }
    if (event.type == kube::WatchEvent::Type::kAdded) {
      EXPECT_FALSE(IsTerminal(last_)) << kube::Name(pod) << " was made after the job's end";
      EXPECT_FALSE(IsTrue(last_, kSuspended)) << kube::Name(pod) << " was made while suspended";
      for (const auto& [name, attempt] : alive_) {
        EXPECT_EQ(attempt, AttemptOf(pod)) << name << " of another attempt is still alive";
      }
    }
    alive_[kube::Name(pod)] = AttemptOf(pod);
  }

  const bool gang_;
  std::uint64_t seen_ = 0;
  std::string uid_;
  api::TrainingJobStatus last_;
  std::map<std::string, int> alive_;
};

class Chaos {
 public:
  Chaos(unsigned seed, RestartScope scope)
      : random_(seed),
        world_(Job("j")
                   .Workers(3)
                   .RestartScope(scope)
                   .BackoffLimit(kBackoffLimit)
                   .ActiveDeadlineSeconds(100'000)
                   .Build()),
        referee_(scope == RestartScope::kGang) {
    world_.client.set_graceful(true);
  }

  void Run(int steps) {
    for (int i = 0; i < steps && !::testing::Test::HasFailure(); ++i) {
      Step();
      referee_.Check(world_);
    }
  }

  // Faults stop: the kubelet works, the programs end well.
  void Heal() {
    world_.client.SetBefore({});
    world_.client.SetAfter({});
    SetSuspended(false);
    for (int i = 0; i < 200 && !IsTerminal(world_.Job()->status); ++i) {
      world_.Settle();
      for (const kube::Object& pod : world_.Pods()) Work(pod, /*healthy=*/true);
      world_.clock.Advance(seconds(30));
      referee_.Check(world_);
    }
    EXPECT_TRUE(IsTerminal(world_.Job()->status)) << world_.Job()->status.state;
    for (const kube::Object& pod : world_.Pods()) Work(pod, true);
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

 private:
  int Draw(int bound) { return std::uniform_int_distribution<int>(0, bound - 1)(random_); }

  void Step() {
    switch (Draw(8)) {
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
        return Draw(10) == 0 ? SetSuspended(Draw(2) == 0) : WorkOnAnyPod();
      case 6:
        return ReconcileUnderFire();
      default:
        (void)world_.Reconcile();
        return;
    }
  }

  // The operator dies before or after its n-th write of this reconcile, or only an answer is lost.
  void ReconcileUnderFire() {
    int countdown = Draw(5);
    const bool before = Draw(2) == 0, dies = Draw(2) == 0;
    bool dead = false;
    const auto hook = [&](const FakeClient::Call& call) {
      if (dead) return absl::UnavailableError("the process is dead");
      if (!call.is_write() || countdown-- > 0) return absl::OkStatus();
      dead = dies;
      return absl::UnavailableError("no answer");
    };
    if (before) {
      world_.client.SetBefore(hook);
    } else {
      world_.client.SetBefore([&dead](const FakeClient::Call&) {
        return dead ? absl::UnavailableError("the process is dead") : absl::OkStatus();
      });
      world_.client.SetAfter(hook);
    }
    (void)world_.Reconcile();
    world_.client.SetBefore({});
    world_.client.SetAfter({});
    if (dead) world_.RestartOperator();
  }

  void WorkOnAnyPod() {
    const std::vector<kube::Object> pods = world_.Pods();
    if (!pods.empty())
      Work(pods[static_cast<std::size_t>(Draw(static_cast<int>(pods.size())))], false);
  }

  void Work(const kube::Object& pod, bool healthy) {
    const std::string name = kube::Name(pod);
    if (kube::IsBeingDeleted(pod)) return world_.client.Finalize(kube::kPodKind, kube::KeyOf(pod));
    const auto status = pod.value("status", kube::Object::object());
    const std::string phase = status.value("phase", "Pending");
    if (phase == "Pending") return world_.SetPod(name, "Running");
    if (phase != "Running") return;
    const int fate = healthy ? 0 : Draw(12);
    if (fate == 0 && (healthy || Draw(4) == 0)) return world_.SetPod(name, "Succeeded");
    if (fate == 1) return world_.SetPod(name, "Failed", 137);
    if (fate == 2) Evict(pod);
    if (fate == 3)
      world_.client.Finalize(kube::kPodKind, kube::KeyOf(pod));  // gone without a trace
    if (fate == 4) {
      (void)world_.client.Delete(kube::kPodKind, kube::KeyOf(pod), "");  // drained
    }
  }

  void Evict(const kube::Object& pod) {
    world_.client.Modify(kube::kPodKind, kube::KeyOf(pod), [](kube::Object& evicted) {
      evicted["status"] = {{"phase", "Failed"}, {"reason", "Evicted"}};
    });
  }

  void SetSuspended(bool suspend) {
    world_.client.Modify(kTrainingJobKind, world_.key,
                         [suspend](kube::Object& job) { job["spec"]["suspend"] = suspend; });
  }

  std::mt19937 random_;
  World world_;
  Referee referee_;
};

class ConvergenceTest : public ::testing::TestWithParam<RestartScope> {};

TEST_P(ConvergenceTest, InvariantsHoldAndTheJobEndsWhenFaultsStop) {
  for (unsigned seed = 1; seed <= 40 && !HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    Chaos chaos(seed, GetParam());
    chaos.Run(200);
    chaos.Heal();
  }
}

INSTANTIATE_TEST_SUITE_P(Scopes, ConvergenceTest,
                         ::testing::Values(RestartScope::kGang, RestartScope::kInPlace,
                                           RestartScope::kPod));

}  // namespace
}  // namespace lockstep::controller
