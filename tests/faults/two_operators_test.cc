// Two operators, one of which can reach everything but its lease.
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>

#include "operator/controller/state/kinds.h"
#include "operator/kube/runtime/leader_elector.h"
#include "operator/local/memory_client.h"
#include "tests/faults/process.h"
#include "tests/support/builders.h"
#include "tests/support/fake_clock.h"
#include "tests/support/fake_kubelet.h"

namespace lockstep::testing {
namespace {

using controller::kTrainingJobKind;
using std::chrono::milliseconds;

constexpr Duration kLeaseDuration = std::chrono::seconds(1), kRenewDeadline = milliseconds(500);
const kube::Key kLease{"default", "lease"};

// One operator with its lease: it starts when it leads and is gone the moment it does not.
class Candidate {
 public:
  Candidate(kube::Client& store, const Clock& lease_clock, const std::string& name)
      : store_(store),
        lease_way_(store, Faults{}),
        elector_(lease_way_, lease_clock, OptionsOf(name), [this](const std::string&) {
          if (process_ != nullptr) process_->client().Kill();  // main exits here
          lost_ = true;
        }) {}

  bool Lead(std::stop_token stop = {}) {
    if (!elector_.Acquire(std::move(stop)).ok()) return false;
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
    options.lease = kLease;
    options.identity = name;
    options.lease_duration = kLeaseDuration;
    options.renew_deadline = kRenewDeadline;
    options.retry_period = milliseconds(10);
    return options;
  }

  kube::Client& store_;
  FaultClient lease_way_;
  std::atomic<bool> lost_{false};
  std::unique_ptr<Process> process_;
  kube::LeaderElector elector_;
};

std::string HolderOfLease(kube::Client& store) {
  return store.Get(kube::kLeaseKind, kLease)->at("spec").at("holderIdentity");
}

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
  // It stands still unless the test lets it go on, so that no lease is lost because a thread has to
  // wait for its turn on a machine with other work.
  FakeClock lease_clock;
  Candidate first(store, lease_clock, "first"), second(store, lease_clock, "second");
  ASSERT_TRUE(first.Lead());
  const auto job = Job("j").Workers(2).RestartScope(api::RestartScope::kPod).Build();
  ASSERT_TRUE(store.Create(kTrainingJobKind, api::TrainingJobToJson(job)).ok());
  ASSERT_TRUE(Eventually([&] { return first.writes() > 20; }));
  std::atomic<bool> second_leads{false};
  std::size_t writes_then = 0;
  std::jthread waiting([&](std::stop_token stop) {
    ASSERT_TRUE(second.Lead(std::move(stop)));
    EXPECT_TRUE(first.lost());
    EXPECT_FALSE(first.leads());
    writes_then = first.writes();
    second_leads = true;
  });
  first.CutLease();
  const std::size_t before = first.writes();
  lease_clock.Advance(kRenewDeadline - milliseconds(1));
  // It goes on for a while: only its lease is out of reach.
  ASSERT_TRUE(Eventually([&] { return first.writes() > before; }));
  lease_clock.Advance(milliseconds(1));
  ASSERT_TRUE(Eventually([&] { return first.lost(); }));
  EXPECT_FALSE(second_leads);
  // In real time from here to where the second has the lease, for the writes that are under way.
  ASSERT_TRUE(Eventually([&] {
    if (HolderOfLease(store) == "second") return true;
    std::this_thread::sleep_for(milliseconds(10));
    lease_clock.Advance(milliseconds(10));
    return false;
  }));
  ASSERT_TRUE(Eventually([&] { return second_leads.load(); }));
  waiting.join();
  ASSERT_TRUE(Eventually([&] { return second.writes() > 20; }));
  EXPECT_EQ(first.writes(), writes_then);
}

}  // namespace
}  // namespace lockstep::testing
