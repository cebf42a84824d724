// The operator, killed before and after every write, refused, cut off and confused, over a store
// that keeps every version. Whatever happened: the invariants hold, the job ends as it does without
// faults, and then nothing is written any more.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <optional>
#include <utility>

#include "operator/controller/children/build_network_policy.h"
#include "operator/local/memory_client.h"
#include "tests/faults/fault_client.h"
#include "tests/faults/process.h"
#include "tests/faults/scenarios.h"
#include "tests/support/referee.h"

namespace lockstep::testing {
namespace {

using controller::kTrainingJobKind;

const kube::Key kJob{"default", "j"};
constexpr char kBarrier[] = "zz-barrier";

// What is left of a job in the end, without what differs from run to run.
struct Outcome {
  kube::Object status;
  std::vector<std::string> objects;
  bool operator==(const Outcome&) const = default;
};

void PrintTo(const Outcome& outcome, std::ostream* out) {
  *out << outcome.status.dump(1);
  for (const std::string& object : outcome.objects) *out << "\n" << object;
}

class Life {
 public:
  explicit Life(const Scenario& scenario)
      : scenario_(scenario),
        kubelet_(
            store_, "default", [this](const kube::Object& pod) { return FateOf(pod); },
            [this](const kube::Key& pod, const std::string& uid) {
              (void)store_.ConfirmDeleted(pod, uid);
            }) {
    const auto made = store_.Create(kTrainingJobKind, api::TrainingJobToJson(scenario.job.Build()));
    EXPECT_TRUE(made.ok()) << made.status();
  }

  struct Lived {
    std::size_t writes = 0;  // of the first process, if nothing has disturbed it
    bool struck = false;     // whether its faults have struck
  };

  // Lives through the scenario, with a new process after each death; the first one has the faults.
  // Afterwards a process that has just started writes nothing.
  Lived Live(const Faults& faults, const Outcome* expected) {
    process_ = std::make_unique<Process>(store_, faults);
    std::optional<bool> struck;
    const bool ended = Eventually([&] {
      if (process_->client().dead()) {
        if (!struck) struck = process_->client().struck();
        process_.reset();
        process_ = std::make_unique<Process>(store_, Faults{});
      }
      ActAsUser();
      return expected == nullptr ? State() == scenario_.end : Look() == *expected;
    });
    if (!struck) struck = process_->client().struck();
    if (expected == nullptr) {  // what follows the end, too
      AwaitRest();
      AwaitCollection();
    }
    const std::size_t writes = OwnWrites();
    EXPECT_TRUE(ended) << "state: " << State();
    if (expected != nullptr) {
      EXPECT_EQ(Look(), *expected);
    }
    ExpectRest();
    CheckHistory();
    CheckGuards();
    return {writes, *struck};
  }

  Outcome Look() {
    Outcome outcome;
    const auto job = store_.Get(kTrainingJobKind, kJob);
    if (job.ok()) outcome.status = Masked(job->value("status", kube::Object::object()));
    for (const kube::Kind& kind : {kube::kPodKind, kube::kServiceKind}) {
      // A job may fail before its Service could be made, and needs none afterwards.
      if (kind == kube::kServiceKind && State() == "Failed") continue;
      const auto page = store_.List(kind, {.namespace_name = "default", .limit = 0});
      for (const kube::Object& object : page->items) {
        outcome.objects.push_back(fmt::format("{} {} {}", kind.kind, kube::Name(object),
                                              kube::Label(object, api::kLabelAttempt)));
      }
    }
    return outcome;
  }

 private:
  static kube::Object Masked(kube::Object status) {
    kube::Object masked;
    for (const char* field :
         {"state", "attempt", "observedGeneration", "restartCount", "restarts"}) {
      masked[field] = status.value(field, kube::Object());
    }
    // What is False has been True or not, as the pods were slow or fast.
    for (const kube::Object& condition : status.value("conditions", kube::Object::array())) {
      if (condition["status"] == "True") masked[condition["type"]] = condition["reason"];
    }
    if (status.contains("failure")) masked["exitCode"] = status["failure"]["exitCode"];
    return masked;
  }

  std::string State() {
    const auto job = store_.Get(kTrainingJobKind, kJob);
    return job.ok() ? job->value("/status/state"_json_pointer, "none yet") : "";
  }

  FakeKubelet::Fate FateOf(const kube::Object& pod) {
    if (kube::Name(pod) == "j-worker-0") ++started_;
    return scenario_.script(pod, seen_[kube::Name(pod)]++);
  }

  void ActAsUser() {
    if (scenario_.finish_after > 0 && started_ >= scenario_.finish_after && State() == "Running") {
      kubelet_.FinishAll();
    }
    if (scenario_.loses_a_pod && !lost_ && State() == "Running") LosePod();
    if (scenario_.resume_at.empty() || resumed_ || State() != scenario_.resume_at) return;
    kube::Object job = *store_.Get(kTrainingJobKind, kJob);
    job["spec"]["suspend"] = false;
    resumed_ = store_.Update(kTrainingJobKind, job).ok();
  }

  void LosePod() {
    const kube::Key key{"default", "j-worker-0"};
    const auto pod = store_.Get(kube::kPodKind, key);
    lost_ = pod.ok();
    if (!lost_) return;
    (void)store_.Delete(kube::kPodKind, key, {});
    (void)store_.ConfirmDeleted(key, kube::Uid(*pod));
  }

  // Until the process has seen all there is, has nothing to do, and has done nothing meanwhile.
  void AwaitRest() {
    std::size_t before = 0;
    do {
      before = OwnWrites();
      AwaitBarrier();
      EXPECT_TRUE(Eventually([this] { return process_->IsIdle(); }));
    } while (OwnWrites() != before && !::testing::Test::HasFailure());
  }

  // A deleted job's objects go after it, in the background.
  void AwaitCollection() {
    if (!State().empty()) return;
    EXPECT_TRUE(Eventually([this] { return Look().objects.empty(); }));
  }

  std::size_t OwnWrites() {
    const auto writes = process_->client().writes();
    return static_cast<std::size_t>(std::ranges::count_if(
        writes, [](const auto& write) { return !write.name.starts_with(kBarrier); }));
  }

  // A suspended job: when it has a status, the process has seen all that came before it.
  void AwaitBarrier() {
    const std::string name = fmt::format("{}-{}", kBarrier, ++barriers_);
    const auto made = store_.Create(
        kTrainingJobKind, api::TrainingJobToJson(Job(name).Workers(1).Suspended().Build()));
    ASSERT_TRUE(made.ok()) << made.status();
    EXPECT_TRUE(Eventually([&] {
      const auto barrier = store_.Get(kTrainingJobKind, {"default", name});
      return barrier->value("/status/state"_json_pointer, "") == "Suspended";
    }));
  }

  void ExpectRest() {
    process_.reset();
    process_ = std::make_unique<Process>(store_, Faults{});
    AwaitRest();
    for (const FaultClient::Write& write : process_->client().writes()) {
      EXPECT_TRUE(write.name.starts_with(kBarrier))
          << "written at rest: " << write.verb << " " << write.kind << " " << write.name;
    }
    process_.reset();
  }

  // No pod was ever there before what keeps strangers from it.
  void CheckGuards() {
    const auto first = [this](const kube::Kind& kind, const std::string& prefix) {
      std::uint64_t version = UINT64_MAX;
      for (const kube::WatchEvent& event : HistoryOf(store_, kind)) {
        if (!kube::Name(event.object).starts_with(prefix)) continue;
        version =
            std::min<std::uint64_t>(version, std::stoull(kube::ResourceVersion(event.object)));
      }
      return version;
    };
    const std::uint64_t pod = first(kube::kPodKind, "j-worker-");
    const bool trains = scenario_.job.Build().spec.training.has_value();
    for (const kube::Kind& kind : {kube::kSecretKind, controller::kNetworkPolicyKind}) {
      const std::uint64_t guard = first(kind, "j-");
      EXPECT_EQ(guard != UINT64_MAX, trains) << kind.kind;
      if (trains) {
        EXPECT_LT(guard, pod) << kind.kind;
      }
    }
  }

  // Versions of jobs and pods in the order in which they came to be.
  void CheckHistory() {
    Referee referee(scenario_.gang, scenario_.backoff_limit);
    std::map<std::uint64_t, std::pair<bool, kube::WatchEvent>> versions;  // is it a pod
    for (const kube::Kind& kind : {kTrainingJobKind, kube::kPodKind}) {
      for (kube::WatchEvent& event : HistoryOf(store_, kind)) {
        const bool is_pod = kind == kube::kPodKind;
        if (!is_pod && kube::Name(event.object) != kJob.name) continue;
        const std::uint64_t version = std::stoull(kube::ResourceVersion(event.object));
        versions.emplace(version, std::pair(is_pod, std::move(event)));
      }
    }
    for (const auto& [version, change] : versions) {
      if (change.first) {
        referee.CheckPod(change.second);
      } else {
        referee.CheckJob(change.second.object);
      }
    }
  }

  const Scenario& scenario_;
  std::map<std::string, int> seen_;  // pods by name; of the kubelet's thread
  std::atomic<int> started_{0};      // of them, those named j-worker-0
  local::MemoryClient store_{kRealTime, {.history = 1U << 16U, .node_name = "node"}};
  FakeKubelet kubelet_;
  std::unique_ptr<Process> process_;
  bool resumed_ = false, lost_ = false;
  int barriers_ = 0;
};

class FaultSweepTest : public ::testing::TestWithParam<Scenario> {
 protected:
  // The run that nothing disturbs.
  FaultSweepTest() {
    Life life(GetParam());
    writes_ = static_cast<int>(life.Live({}, nullptr).writes);
    expected_ = life.Look();
    EXPECT_GE(writes_, 5);
  }
  // Returns whether the faults have struck.
  bool Disturb(const Faults& faults) {
    Life life(GetParam());
    return life.Live(faults, &expected_).struck;
  }
  void SweepWrites(WriteFault fault) {
    for (fault.nth = 1; fault.nth <= writes_ && !HasFailure(); ++fault.nth) {
      SCOPED_TRACE(fmt::format("write {} of {}", fault.nth, writes_));
      Faults faults;
      faults.write = fault;
      const bool struck = Disturb(faults);
      // Where several pods change at once, a run may need some writes fewer than another.
      EXPECT_TRUE(struck || 2 * fault.nth > writes_);
    }
  }
  // Tries as many events as come of each kind, up to 8.
  void SweepWatches(WatchFault::Kind kind) {
    for (const char* plural : {"trainingjobs", "pods", "services"}) {
      bool struck = true;
      for (int nth = 1; nth <= 8 && struck && !HasFailure(); ++nth) {
        SCOPED_TRACE(fmt::format("event {} of {}", nth, plural));
        Faults faults;
        faults.watch = WatchFault{kind, plural, nth};
        struck = Disturb(faults);
        EXPECT_TRUE(struck || nth > 1);
      }
    }
  }
  static WriteFault Refusal(absl::Status status, int times = 1) {
    WriteFault fault;
    fault.kind = WriteFault::Kind::kRefused;
    fault.refusal = std::move(status);
    fault.times = times;
    return fault;
  }

  int writes_ = 0;
  Outcome expected_;
};

TEST_P(FaultSweepTest, KilledBeforeAnyWrite) {
  SweepWrites({.kind = WriteFault::Kind::kKillBefore});
}
TEST_P(FaultSweepTest, KilledAfterAnyWrite) {
  SweepWrites({.kind = WriteFault::Kind::kKillAfter});
}
TEST_P(FaultSweepTest, AnyAnswerIsLost) {
  SweepWrites({.kind = WriteFault::Kind::kLostAnswer});
}
TEST_P(FaultSweepTest, StormOfConflicts) {
  SweepWrites(Refusal(absl::AbortedError("conflict"), 4));
}
TEST_P(FaultSweepTest, TooManyRequests) {
  SweepWrites(Refusal(absl::ResourceExhaustedError("429"), 3));
}
TEST_P(FaultSweepTest, ServerErrors) {
  SweepWrites(Refusal(absl::UnavailableError("500"), 3));
}
TEST_P(FaultSweepTest, RightsAreRevokedForAWhile) {
  SweepWrites(Refusal(absl::PermissionDeniedError("403"), 3));
}
TEST_P(FaultSweepTest, WatchesEndAndBreak) {
  SweepWatches(WatchFault::Kind::kEnds);
  SweepWatches(WatchFault::Kind::kBreaks);
}
TEST_P(FaultSweepTest, HistoryIsForgottenMidStream) {
  SweepWatches(WatchFault::Kind::kGone);
}
TEST_P(FaultSweepTest, EventsStayHidden) {
  SweepWatches(WatchFault::Kind::kAway);
}
TEST_P(FaultSweepTest, OneCacheIsStale) {
  SweepWatches(WatchFault::Kind::kLate);
}
TEST_P(FaultSweepTest, WatchesTravelBack) {
  SweepWatches(WatchFault::Kind::kGoesBack);
  SweepWatches(WatchFault::Kind::kTwice);
}
TEST_P(FaultSweepTest, NothingIsReadableAtTheStart) {
  for (const absl::Status& status :
       {absl::OutOfRangeError("410"), absl::UnavailableError("500"),
        absl::PermissionDeniedError("403"), absl::ResourceExhaustedError("429")}) {
    Faults faults;
    faults.first_lists = status;
    faults.first_watches = status;
    EXPECT_TRUE(Disturb(faults));
  }
}

INSTANTIATE_TEST_SUITE_P(Lives, FaultSweepTest, ::testing::ValuesIn(Scenarios()),
                         [](const auto& instance) { return instance.param.name; });

}  // namespace
}  // namespace lockstep::testing
