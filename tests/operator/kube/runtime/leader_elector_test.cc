#include "operator/kube/runtime/leader_elector.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <thread>

#include "tests/support/fake_clock.h"
#include "tests/support/hooked_client.h"
#include "tests/support/time_limit.h"

namespace lockstep::kube {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::FakeClock;
using testing::HookedClient;

// A client whose connection can be cut, or that never answers.
class CutClient final : public Client {
 public:
  explicit CutClient(Client& client) : client_(client) {}
  std::atomic<bool> cut{false};
  std::atomic<bool> hangs{false};  // updates hang until it is cleared and notified

  absl::StatusOr<Object> Get(const Kind& kind, const Key& key) override {
    if (cut) return absl::UnavailableError("cut off");
    return client_.Get(kind, key);
  }
  absl::StatusOr<Object> Create(const Kind& kind, const Object& object) override {
    if (cut) return absl::UnavailableError("cut off");
    return client_.Create(kind, object);
  }
  absl::StatusOr<Object> Update(const Kind& kind, const Object& object) override {
    hangs.wait(true);
    if (cut) return absl::UnavailableError("cut off");
    return client_.Update(kind, object);
  }
  absl::StatusOr<Page> List(const Kind&, const ListOptions&) override { return Unused(); }
  absl::Status Watch(const Kind&, const WatchOptions&, std::stop_token,
                     const std::function<void(WatchEvent)>&) override {
    return Unused();
  }
  absl::StatusOr<Object> UpdateStatus(const Kind&, const Object&) override { return Unused(); }
  absl::Status Delete(const Kind&, const Key&, const Preconditions&) override { return Unused(); }
  absl::Status ForceDelete(const Kind&, const Key&, const Preconditions&) override {
    return Unused();
  }

 private:
  static absl::Status Unused() { return absl::UnimplementedError("not for leases"); }
  Client& client_;
};

class LeaderElectorTest : public ::testing::Test {
 protected:
  struct Candidate {
    Candidate(HookedClient& server, FakeClock& clock, const std::string& name)
        : client(server), elector(client, clock, OptionsOf(name), [this](const std::string& why) {
            reason = why;
            lost.set_value();
          }) {}

    static LeaderElectionOptions OptionsOf(const std::string& name) {
      LeaderElectionOptions options;
      options.lease = {"system", "operator"};
      options.identity = name;
      // The threads poll; the clock decides what time it is.
      options.retry_period = milliseconds(1);
      return options;
    }
    bool AwaitLost() {
      return lost.get_future().wait_for(testing::Slowed(seconds(10))) == std::future_status::ready;
    }

    CutClient client;
    std::promise<void> lost;
    std::string reason;
    LeaderElector elector;  // last: its threads use the members above
  };

  Object Lease() { return *server_.Get(kLeaseKind, {"system", "operator"}); }
  std::string Holder() { return Lease()["spec"]["holderIdentity"]; }
  // Waits until a renewal has ended that had yet to begin.
  void AwaitRenewal() {
    const int last = server_.Count("update", "Lease") + 2;
    while (server_.Count("update", "Lease") < last) std::this_thread::yield();
  }

  FakeClock clock_;
  HookedClient server_{clock_};
};

TEST_F(LeaderElectorTest, TheFirstCandidateMakesTheLease) {
  Candidate a(server_, clock_, "a");
  EXPECT_FALSE(a.elector.IsLeader());
  ASSERT_TRUE(a.elector.Acquire({}).ok());
  EXPECT_TRUE(a.elector.IsLeader());
  const Object spec = Lease()["spec"];
  EXPECT_EQ(spec["holderIdentity"], "a");
  EXPECT_EQ(spec["leaseDurationSeconds"], 15);
  EXPECT_EQ(spec["leaseTransitions"], 0);
  EXPECT_THAT(spec["renewTime"].get<std::string>(), ::testing::EndsWith(".000000Z"));
}

TEST_F(LeaderElectorTest, ALeaderThatRenewsKeepsTheLeaseForAsLongAsItLikes) {
  Candidate a(server_, clock_, "a");
  ASSERT_TRUE(a.elector.Acquire({}).ok());
  for (int i = 0; i < 20; ++i) {
    clock_.Advance(seconds(9));
    AwaitRenewal();
    AwaitRenewal();  // a renewal that was sent after the clock moved
    EXPECT_TRUE(a.elector.IsLeader());
  }
  EXPECT_EQ(Lease()["spec"]["leaseTransitions"], 0);
}

TEST_F(LeaderElectorTest, ALeaderThatIsCutOffStopsBeforeAnotherCanLead) {
  Candidate a(server_, clock_, "a"), b(server_, clock_, "b");
  ASSERT_TRUE(a.elector.Acquire({}).ok());
  std::promise<absl::Status> acquired;
  std::jthread waiting([&] { acquired.set_value(b.elector.Acquire({})); });
  std::future<absl::Status> b_leads = acquired.get_future();

  a.client.cut = true;
  clock_.Advance(seconds(10));
  EXPECT_FALSE(a.elector.IsLeader());  // whether its threads are late or not
  ASSERT_TRUE(a.AwaitLost());
  EXPECT_THAT(a.reason, ::testing::HasSubstr("not renewed for 10 s"));
  EXPECT_NE(b_leads.wait_for(milliseconds(50)), std::future_status::ready);
  EXPECT_FALSE(b.elector.IsLeader());

  // b counts from when it last saw the lease change, so it may take up to 15 s more. Once it has
  // the lease, the clock stands still, since its threads may be late with the first renewal.
  while (b_leads.wait_for(milliseconds(5)) != std::future_status::ready) {
    if (Holder() != "b") clock_.Advance(seconds(1));
  }
  EXPECT_TRUE(b_leads.get().ok());
  EXPECT_TRUE(b.elector.IsLeader());
  EXPECT_FALSE(a.elector.IsLeader());
  EXPECT_EQ(Lease()["spec"]["leaseTransitions"], 1);
  a.client.cut = false;
  EXPECT_EQ(Holder(), "b");
}

TEST_F(LeaderElectorTest, ARenewalThatHangsDoesNotHideThatTheLeaseIsLost) {
  Candidate a(server_, clock_, "a");
  ASSERT_TRUE(a.elector.Acquire({}).ok());
  a.client.hangs = true;
  clock_.Advance(seconds(10));
  EXPECT_TRUE(a.AwaitLost());
  a.client.hangs = false;
  a.client.hangs.notify_all();
  // The late renewal has completed; it must not make this process the leader again.
  a.elector.Release();
  EXPECT_FALSE(a.elector.IsLeader());
}

TEST_F(LeaderElectorTest, WhoeverSeesAnotherHolderHasLost) {
  Candidate a(server_, clock_, "a");
  ASSERT_TRUE(a.elector.Acquire({}).ok());
  server_.Modify(kLeaseKind, {"system", "operator"},
                 [](Object& lease) { lease["spec"]["holderIdentity"] = "thief"; });
  ASSERT_TRUE(a.AwaitLost());
  EXPECT_FALSE(a.elector.IsLeader());
  EXPECT_THAT(a.reason, ::testing::HasSubstr("thief holds the lease"));
  EXPECT_EQ(Holder(), "thief");
}

// An API server gives this code for a redirection or a request that a webhook refuses, too.
TEST_F(LeaderElectorTest, ARefusedRenewalIsTriedAgain) {
  Candidate a(server_, clock_, "a");
  ASSERT_TRUE(a.elector.Acquire({}).ok());
  std::atomic<int> refused{0};
  server_.SetBefore([&refused](const HookedClient::Call& call) {
    if (call.verb != "update") return absl::OkStatus();
    ++refused;
    return absl::FailedPreconditionError("HTTP 400");
  });
  while (refused < 3) {
    if (!a.elector.IsLeader()) break;
    std::this_thread::yield();
  }
  server_.SetBefore({});
  EXPECT_GE(refused, 3);
  EXPECT_TRUE(a.elector.IsLeader());
}

TEST_F(LeaderElectorTest, AReleasedLeaseIsTakenAtOnce) {
  Candidate a(server_, clock_, "a"), b(server_, clock_, "b");
  ASSERT_TRUE(a.elector.Acquire({}).ok());
  a.elector.Release();
  EXPECT_FALSE(a.elector.IsLeader());
  EXPECT_EQ(Holder(), "");
  ASSERT_TRUE(b.elector.Acquire({}).ok());  // without advancing the clock
  EXPECT_EQ(Holder(), "b");
}

TEST_F(LeaderElectorTest, ADeadLeadersLeaseIsTakenWhenItHasBeenSeenUnchangedForItsDuration) {
  {
    Candidate a(server_, clock_, "a");
    ASSERT_TRUE(a.elector.Acquire({}).ok());
  }  // dies without releasing the lease
  clock_.Advance(std::chrono::hours(1));  // nobody watched, so this time does not count
  Candidate b(server_, clock_, "b");
  std::promise<absl::Status> acquired;
  std::jthread waiting([&] { acquired.set_value(b.elector.Acquire({})); });
  std::future<absl::Status> b_leads = acquired.get_future();
  // One get is a's; with b's second, b has processed its first.
  while (server_.Count("get", "Lease") < 3) std::this_thread::yield();
  clock_.Advance(milliseconds(14'999));
  EXPECT_NE(b_leads.wait_for(milliseconds(30)), std::future_status::ready);
  clock_.Advance(milliseconds(1));
  EXPECT_TRUE(b_leads.get().ok());
}

TEST_F(LeaderElectorTest, ALostAnswerToARenewalDoesNotLoseTheLease) {
  Candidate a(server_, clock_, "a");
  ASSERT_TRUE(a.elector.Acquire({}).ok());
  std::atomic<int> lost_answers{3};
  server_.SetAfter([&](const HookedClient::Call& call) {
    if (call.verb == "update" && lost_answers-- > 0) return absl::UnavailableError("no answer");
    return absl::OkStatus();
  });
  while (lost_answers > 0) std::this_thread::yield();
  AwaitRenewal();
  clock_.Advance(seconds(9));
  AwaitRenewal();
  EXPECT_TRUE(a.elector.IsLeader());
  EXPECT_EQ(Lease()["spec"]["leaseTransitions"], 0);
}

TEST_F(LeaderElectorTest, AcquireCanBeStopped) {
  Candidate a(server_, clock_, "a"), b(server_, clock_, "b");
  ASSERT_TRUE(a.elector.Acquire({}).ok());
  std::stop_source stop;
  std::jthread stopper([&] {
    while (server_.Count("get", "Lease") < 2) std::this_thread::yield();
    stop.request_stop();
  });
  EXPECT_TRUE(absl::IsCancelled(b.elector.Acquire(stop.get_token())));
  EXPECT_FALSE(b.elector.IsLeader());
}

}  // namespace
}  // namespace lockstep::kube
