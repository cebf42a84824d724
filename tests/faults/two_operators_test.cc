// Two operators, one of which can reach everything but its lease.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "operator/controller/state/kinds.h"
#include "operator/kube/runtime/leader_elector.h"
#include "operator/local/memory_client.h"
#include "tests/faults/process.h"
#include "tests/support/builders.h"
#include "tests/support/fake_kubelet.h"
#include "tests/support/time_limit.h"

namespace lockstep::testing {
namespace {

using controller::kTrainingJobKind;
using std::chrono::milliseconds;

// One operator with its lease: it starts when it leads and is gone the moment it does not.
class Candidate {
 public:
  Candidate(kube::Client& store, const std::string& name)
      : store_(store),
        lease_way_(store, Faults{}),
        elector_(lease_way_, kRealTime, OptionsOf(name), [this](const std::string&) {
          process_->client().Kill();  // main exits here
          lost_ = true;
        }) {}

  bool Lead() {
    if (!elector_.Acquire({}).ok()) return false;
    process_ = std::make_unique<Process>(store_, Faults{});
    return true;
  }
  void CutLease() { lease_way_.Kill(); }
  bool lost() const { return lost_; }
  bool leads() const { return elector_.IsLeader(); }
  std::size_t writes() { return process_->client().writes().size(); }

 private:
  static kube::LeaderElectionOptions OptionsOf(const std::string& name) {
    kube::LeaderElectionOptions options;
    options.lease = {"default", "lease"};
    options.identity = name;
    // Between the two, the thread that renews the lease must be given a turn.
    options.lease_duration = Slowed(std::chrono::seconds(1));
    options.renew_deadline = Slowed(milliseconds(500));
    options.retry_period = milliseconds(10);
    return options;
  }

  kube::Client& store_;
  FaultClient lease_way_;
  std::atomic<bool> lost_{false};
  std::unique_ptr<Process> process_;
  kube::LeaderElector elector_;
};

TEST(TwoOperatorsTest, WhoeverIsCutOffFromTheLeaseWritesNothingOnceAnotherLeads) {
  local::MemoryClient store(kRealTime, {.history = 1U << 16U, .node_name = "node"});
  // A job that is recreated all the time keeps its operator writing.
  FakeKubelet kubelet(
      store, "default",
      [](const kube::Object& pod) {
        return kube::Name(pod) == "j-worker-0" ? FakeKubelet::Fate::kEvicted
                                               : FakeKubelet::Fate::kRuns;
      },
      [&store](const kube::Key& pod, const std::string& uid) {
        (void)store.ConfirmDeleted(pod, uid);
      });
  Candidate first(store, "first"), second(store, "second");
  ASSERT_TRUE(first.Lead());
  const auto job = Job("j").Workers(2).RestartScope(api::RestartScope::kPod).Build();
  ASSERT_TRUE(store.Create(kTrainingJobKind, api::TrainingJobToJson(job)).ok());
  ASSERT_TRUE(Eventually([&] { return first.writes() > 20; }));
  std::atomic<bool> second_leads{false};
  std::size_t writes_then = 0;
  std::jthread waiting([&] {
    ASSERT_TRUE(second.Lead());
    EXPECT_TRUE(first.lost());
    EXPECT_FALSE(first.leads());
    writes_then = first.writes();
    second_leads = true;
  });
  first.CutLease();
  const std::size_t before = first.writes();
  ASSERT_TRUE(Eventually([&] { return second_leads.load(); }));
  waiting.join();
  EXPECT_GT(writes_then, before);  // it went on for a while: only its lease was out of reach
  ASSERT_TRUE(Eventually([&] { return second.writes() > 20; }));
  EXPECT_EQ(first.writes(), writes_then);
}

}  // namespace
}  // namespace lockstep::testing
