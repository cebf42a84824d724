// The client against the real service, over loopback.
#include "trainer/rendezvous/rendezvous.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <future>
#include <limits>
#include <mutex>
#include <thread>

#include "api/proto/rendezvous.grpc.pb.h"
#include "api/proto/trainer_status.grpc.pb.h"
#include "base/check.h"
#include "tests/support/eventually.h"
#include "tests/support/fake_clock.h"
#include "tests/support/http_request.h"
#include "tests/support/time_limit.h"
#include "tests/trainer/identity/identities.h"
#include "trainer/rendezvous/identity_roster.h"
#include "trainer/rendezvous/rendezvous_client.h"
#include "trainer/rendezvous/rendezvous_service.h"

namespace lockstep::train {
namespace {

using namespace std::chrono_literals;
using lockstep::testing::Slowed;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr char kFingerprint[] = "trainSamples=8;";

TEST(MembershipTest, TheFurthestIsTheLowestRankOfThoseWithTheMostSteps) {
  Membership membership;
  membership.members = {{"worker", 0, 0, 3}, {"worker", 1, 0, 4}, {"worker", 2, 0, 4}};
  EXPECT_EQ(membership.FurthestRank(100), 1);
  membership.members = {{"worker", 0, 0, -1}, {"worker", 1, 0, 0}};
  EXPECT_EQ(membership.FurthestRank(100), 1);
  membership.members = {{"worker", 0, 0, -1}};
  EXPECT_EQ(membership.FurthestRank(100), -1);
}

TEST(MembershipTest, WhoClaimsMoreStepsThanTheRunHasIsNotTheFurthest) {
  Membership membership;
  membership.members = {{"worker", 0, 0, 3}, {"worker", 1, 0, 101}, {"worker", 2, 0, 100}};
  EXPECT_EQ(membership.FurthestRank(100), 2);
  EXPECT_EQ(membership.FurthestRank(50), 0);
}

// What a test waits for; never longer than a stuck test should take.
class Happening {
 public:
  void Now(const std::string& what) {
    const std::lock_guard lock(mutex_);
    what_ = what;
    ++count_;
    changed_.notify_all();
  }
  bool Wait(int count = 1) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, testing::Slowed(20s), [&] { return count_ >= count; });
  }
  int count() {
    const std::lock_guard lock(mutex_);
    return count_;
  }
  std::string what() {
    const std::lock_guard lock(mutex_);
    return what_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int count_ = 0;
  std::string what_;
};

// A replica as a thread's object.
struct Replica {
  Replica(const Identity& identity, const Clock& clock, RendezvousClientOptions options) {
    options.stop_requested = [this] { return ++looks >= stop_at_look || stop; };
    rendezvous = MakeRendezvousClient(identity, clock, options);
    rendezvous->OnGenerationEnd(
        [this](std::uint64_t, const std::string& reason) { ended.Now(reason); });
  }
  std::future<absl::StatusOr<Membership>> JoinLater(std::int64_t step = -1,
                                                    const std::string& fingerprint = kFingerprint) {
    return std::async(std::launch::async,
                      [=, this] { return rendezvous->Join(step, fingerprint); });
  }

  // True once the call behind `result` has looked at the clock again and goes on waiting.
  template <typename Result>
  bool StillWaits(const std::future<Result>& result) const {
    for (const int before = looks; looks < before + 2;) {
      if (result.wait_for(1ms) == std::future_status::ready) return false;
    }
    return true;
  }

  std::atomic<bool> stop{false};
  std::atomic<int> looks{0};  // at the stop flag, and with it at the clock
  std::atomic<int> stop_at_look{std::numeric_limits<int>::max()};
  Happening ended;
  std::unique_ptr<Rendezvous> rendezvous;  // last: its thread calls the others
};

class RendezvousTest : public ::testing::Test {
 protected:
  static constexpr int kWorkers = 3;

  Identity Member(int index) {
    Identity identity = lockstep::testing::Worker(index, {"a:1", "b:1", "c:1"});
    identity.rendezvous_address = address_;
    return identity;
  }
  void StartLeader() {
    auto started = RendezvousService::Start(roster_config_, address_, clock_);
    LOCKSTEP_CHECK(started.ok(), "the leader: {}", started.status().ToString());
    leader_ = *std::move(started);
    address_ = fmt::format("127.0.0.1:{}", leader_->port());
  }
  // A member of a group that can get another number of workers.
  Identity Resizable(int index) {
    Identity identity = Member(index);
    identity.training.checkpoint.directory = "/checkpoints";
    return identity;
  }
  std::unique_ptr<Replica> NewReplica(const Identity& identity) {
    return std::make_unique<Replica>(identity, clock_, options_);
  }
  std::unique_ptr<Replica> NewReplica(int index) { return NewReplica(Member(index)); }
  std::vector<std::unique_ptr<Replica>> AllReplicas() {
    std::vector<std::unique_ptr<Replica>> replicas;
    for (int i = 0; i < kWorkers; ++i) replicas.push_back(NewReplica(i));
    return replicas;
  }
  static std::vector<Membership> JoinAll(std::vector<std::unique_ptr<Replica>>& replicas) {
    std::vector<std::future<absl::StatusOr<Membership>>> joins;
    for (auto& replica : replicas) joins.push_back(replica->JoinLater());
    std::vector<Membership> memberships;
    for (auto& join : joins) {
      const auto membership = join.get();
      EXPECT_TRUE(membership.ok()) << membership.status();
      if (membership.ok()) memberships.push_back(*membership);
    }
    return memberships;
  }
  proto::GetStatusResponse Status(int workers = 0) {
    if (!status_stub_) {
      status_stub_ = proto::TrainerStatus::NewStub(
          grpc::CreateChannel(address_, grpc::InsecureChannelCredentials()));
    }
    grpc::ClientContext context;
    proto::GetStatusRequest request;
    request.set_workers(workers);
    proto::GetStatusResponse response;
    const grpc::Status status = status_stub_->GetStatus(&context, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response;
  }
  static bool IsTold(const Replica& replica, int workers) {
    return testing::Eventually([&] { return replica.rendezvous->NewWorkers() == workers; });
  }
  // A group that has formed, and whose members have been told of another number of workers.
  std::vector<std::unique_ptr<Replica>> GroupToldOf(int workers) {
    std::vector<std::unique_ptr<Replica>> replicas;
    for (int i = 0; i < kWorkers; ++i) replicas.push_back(NewReplica(Resizable(i)));
    JoinAll(replicas);
    Status(workers);
    for (const auto& replica : replicas) EXPECT_TRUE(IsTold(*replica, workers));
    return replicas;
  }

  SystemClock clock_;
  RosterConfig roster_config_ = RosterFor(lockstep::testing::Worker(0, {"a:1", "b:1", "c:1"}));
  RendezvousClientOptions options_;
  std::string address_ = "127.0.0.1:0";
  std::unique_ptr<RendezvousService> leader_;
  std::unique_ptr<proto::TrainerStatus::Stub> status_stub_;
};

// Heartbeats are an hour apart: what is told is told at the end.
class LastNumbersTest : public RendezvousTest {
 protected:
  LastNumbersTest() {
    options_.heartbeat_every = 1h;
    StartLeader();
    replicas_ = AllReplicas();
    JoinAll(replicas_);
  }
  void Report(std::int64_t step) { replicas_[0]->rendezvous->Report({.step = step}); }
  std::vector<std::unique_ptr<Replica>> replicas_;
};

TEST_F(LastNumbersTest, AProcessThatEndsTellsThemFirst) {
  Report(41);
  replicas_[0].reset();
  EXPECT_EQ(Status().progress().step(), 41);
}

// Processes that fail together end one after the other.
TEST_F(LastNumbersTest, AlsoIfItsGenerationHasEnded) {
  replicas_[2].reset();
  ASSERT_TRUE(replicas_[0]->ended.Wait());
  Report(42);
  replicas_[0].reset();
  EXPECT_EQ(Status().progress().step(), 42);
}

TEST_F(LastNumbersTest, AreToldBeforeAllHaveFinished) {
  Report(43);
  std::vector<std::future<absl::Status>> finishes;
  for (auto& replica : replicas_) {
    finishes.push_back(
        std::async(std::launch::async, [&] { return replica->rendezvous->Finish(); }));
  }
  for (auto& finish : finishes) EXPECT_TRUE(finish.get().ok());
  EXPECT_EQ(Status().progress().step(), 43);
}

TEST_F(RendezvousTest, AllGetTheSameGenerationAndDifferentRanks) {
  StartLeader();
  auto replicas = AllReplicas();
  const std::vector<Membership> memberships = JoinAll(replicas);
  ASSERT_EQ(memberships.size(), 3u);
  for (int i = 0; i < kWorkers; ++i) {
    EXPECT_EQ(memberships[static_cast<std::size_t>(i)].rank, i);
    EXPECT_EQ(memberships[static_cast<std::size_t>(i)].generation, 1u);
    EXPECT_EQ(memberships[static_cast<std::size_t>(i)].world(), 3);
  }
}

TEST_F(RendezvousTest, TheStoreBringsAValueToAReaderThatCameFirst) {
  StartLeader();
  auto replicas = AllReplicas();
  JoinAll(replicas);
  auto value = std::async(std::launch::async,
                          [&] { return replicas[1]->rendezvous->store().Get("rank 0", 20s); });
  ASSERT_TRUE(replicas[0]->rendezvous->store().Set("rank 0", std::string("a\0b", 3)).ok());
  const auto got = value.get();
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ(*got, std::string("a\0b", 3));
  const auto never = replicas[2]->rendezvous->store().Get("no such key", 20ms);
  EXPECT_EQ(never.status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(never.status().message()), HasSubstr("\"no such key\""));
}

TEST_F(RendezvousTest, ManyKeysAreReadAtOnceOnceAllOfThemAreThere) {
  StartLeader();
  auto replicas = AllReplicas();
  JoinAll(replicas);
  std::vector<std::string> keys;
  for (int i = 0; i < 600; ++i) keys.push_back(fmt::format("of {}", i));
  auto all = std::async(std::launch::async, [&] {
    return replicas[1]->rendezvous->store().GetAll(keys,
                                                   {.timeout = lockstep::testing::TimeLimit(20s)});
  });
  for (int i = 600; i-- > 0;) {
    const std::string& key = keys[static_cast<std::size_t>(i)];
    ASSERT_TRUE(replicas[0]->rendezvous->store().Set(key, fmt::format("value {}", i)).ok());
  }
  const auto values = all.get();
  ASSERT_TRUE(values.ok()) << values.status();
  ASSERT_EQ(values->size(), 600u);
  for (std::size_t i = 0; i < 600; ++i) EXPECT_EQ((*values)[i], fmt::format("value {}", i));
  const auto parts =
      replicas[1]->rendezvous->store().GetAll(keys, {.timeout = 20s, .offset = 6, .size = 2});
  ASSERT_TRUE(parts.ok()) << parts.status();
  for (std::size_t i = 0; i < 600; ++i) EXPECT_EQ((*parts)[i], std::to_string(i).substr(0, 2));
  const auto beyond =
      replicas[1]->rendezvous->store().GetAll({keys[0]}, {.timeout = 20s, .offset = 99, .size = 2});
  EXPECT_THAT(*beyond, ElementsAre(""));
  const auto never =
      replicas[1]->rendezvous->store().GetAll({keys[0], "no such key"}, {.timeout = 20ms});
  EXPECT_EQ(never.status().code(), absl::StatusCode::kDeadlineExceeded);
}

TEST_F(RendezvousTest, AStopEndsAWaitForAKeyAtOnce) {
  StartLeader();
  auto replicas = AllReplicas();
  JoinAll(replicas);
  std::stop_source stop;
  auto waiter = std::async(std::launch::async, [&] {
    return replicas[0]->rendezvous->store().GetAll({"never"},
                                                   {.timeout = 20s, .stop = stop.get_token()});
  });
  EXPECT_EQ(waiter.wait_for(100ms), std::future_status::timeout);
  const auto began = std::chrono::steady_clock::now();
  stop.request_stop();
  EXPECT_EQ(waiter.get().status().code(), absl::StatusCode::kCancelled);
  EXPECT_LT(std::chrono::steady_clock::now() - began, lockstep::testing::TimeLimit(15s));
}

TEST_F(RendezvousTest, TheStoreIsEmptyAgainInTheNextGenerationAndItsWaitersAreCancelled) {
  StartLeader();
  auto replicas = AllReplicas();
  JoinAll(replicas);
  ASSERT_TRUE(replicas[0]->rendezvous->store().Set("key", "old").ok());
  auto waiter = std::async(std::launch::async,
                           [&] { return replicas[0]->rendezvous->store().Get("other", 20s); });
  replicas[2] = nullptr;  // a death
  EXPECT_EQ(waiter.get().status().code(), absl::StatusCode::kCancelled);
  ASSERT_TRUE(replicas[0]->ended.Wait());
  EXPECT_EQ(replicas[0]->rendezvous->store().Set("key", "late").code(),
            absl::StatusCode::kCancelled);
  replicas[2] = NewReplica(2);
  const auto memberships = JoinAll(replicas);
  ASSERT_EQ(memberships.size(), 3u);
  EXPECT_EQ(memberships[0].generation, 2u);
  EXPECT_EQ(replicas[0]->rendezvous->store().Get("key", 20ms).status().code(),
            absl::StatusCode::kDeadlineExceeded);
}

TEST_F(RendezvousTest, ALostMemberIsReportedOnceToEverySurvivorByName) {
  StartLeader();
  auto replicas = AllReplicas();
  JoinAll(replicas);
  replicas[1] = nullptr;
  ASSERT_TRUE(replicas[0]->ended.Wait());
  ASSERT_TRUE(replicas[2]->ended.Wait());
  EXPECT_THAT(replicas[0]->ended.what(), HasSubstr("lost worker 1"));
  replicas[1] = NewReplica(1);
  JoinAll(replicas);
  EXPECT_EQ(replicas[0]->ended.count(), 1);
  EXPECT_EQ(replicas[2]->ended.count(), 1);
}

TEST_F(RendezvousTest, SurvivorsOfTheLeaderAreTogetherAgainUnderItsSuccessor) {
  StartLeader();
  auto replicas = AllReplicas();
  JoinAll(replicas);
  leader_ = nullptr;
  for (auto& replica : replicas) {
    ASSERT_TRUE(replica->ended.Wait());
    EXPECT_THAT(replica->ended.what(), HasSubstr("lost the rendezvous"));
  }
  std::vector<std::future<absl::StatusOr<Membership>>> joins;
  for (auto& replica : replicas) joins.push_back(replica->JoinLater(12));
  // Long enough without a leader that the clients' retries have reached their longest pause.
  ASSERT_EQ(joins[0].wait_for(2s), std::future_status::timeout);
  const auto start = std::chrono::steady_clock::now();
  StartLeader();
  for (auto& join : joins) {
    const auto membership = join.get();
    ASSERT_TRUE(membership.ok()) << membership.status();
    EXPECT_EQ(membership->generation, 2u);  // the successor knows nothing, its members do
    EXPECT_EQ(membership->FurthestRank(100), 0);
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, lockstep::testing::TimeLimit(10s));
}

TEST_F(RendezvousTest, AClientMayComeBeforeTheLeaderAndIsThereSoonAfterIt) {
  roster_config_.slots.resize(1);
  StartLeader();
  leader_ = nullptr;  // its address is known now
  auto replica = NewReplica(0);
  auto join = replica->JoinLater();
  ASSERT_EQ(join.wait_for(100ms), std::future_status::timeout);
  const auto start = std::chrono::steady_clock::now();
  StartLeader();
  ASSERT_TRUE(join.get().ok());
  EXPECT_LT(std::chrono::steady_clock::now() - start, lockstep::testing::TimeLimit(10s));
}

TEST_F(RendezvousTest, MembersLearnWhereTheOthersConnectFrom) {
  StartLeader();
  std::vector<std::unique_ptr<Replica>> replicas;
  for (int i = 0; i < kWorkers; ++i) {
    Identity identity = Member(i);
    identity.pod_ip = fmt::format("10.0.0.{}", i);
    replicas.push_back(std::make_unique<Replica>(identity, clock_, options_));
  }
  for (const Membership& membership : JoinAll(replicas)) {
    ASSERT_EQ(membership.members.size(), static_cast<std::size_t>(kWorkers));
    for (int i = 0; i < kWorkers; ++i) {
      EXPECT_EQ(membership.members[static_cast<std::size_t>(i)].address,
                fmt::format("10.0.0.{}", i));
    }
  }
  replicas[1]->rendezvous->WithholdAddress();
  for (int generation = 2; generation <= 3; ++generation) {  // for good
    for (const Membership& membership : JoinAll(replicas)) {
      ASSERT_EQ(membership.members.size(), static_cast<std::size_t>(kWorkers));
      EXPECT_EQ(membership.members[0].address, "10.0.0.0");
      EXPECT_EQ(membership.members[1].address, "");
      EXPECT_EQ(membership.members[2].address, "10.0.0.2");
    }
  }
}

TEST_F(RendezvousTest, APeerThatNeverComesIsNamedAtTheDeadline) {
  StartLeader();
  options_.timeout = Slowed(2s);
  auto replica = NewReplica(1);
  const auto membership = replica->rendezvous->Join(-1, kFingerprint);
  EXPECT_EQ(membership.status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(membership.status().message()),
              AllOf(HasSubstr(fmt::format("rendezvous at {}: not complete after ", address_)),
                    HasSubstr(": waiting for worker 0, worker 2")));
}

// Survivors and their deadline.

TEST_F(RendezvousTest, AGroupThatCannotSaveIsFormedAgainWithItsNumber) {
  roster_config_ = RosterFor(Resizable(0));
  StartLeader();
  std::vector<std::unique_ptr<Replica>> replicas = GroupToldOf(4);
  for (const auto& replica : replicas) replica->rendezvous->SetKeepsWorkers(true);
  ASSERT_TRUE(testing::Eventually([&] { return Status().keeps_workers(); }));
  replicas[2].reset();
  ASSERT_TRUE(replicas[0]->ended.Wait());
  replicas[2] = NewReplica(Resizable(2));
  auto first = replicas[0]->JoinLater(7);
  ASSERT_TRUE(testing::Eventually([&] { return Status().missing_size() == 2; }));
  Status(5);
  EXPECT_TRUE(IsTold(*replicas[0], 5));
  auto second = replicas[1]->JoinLater(7), last = replicas[2]->JoinLater();
  for (auto* join : {&first, &second, &last}) EXPECT_TRUE(join->get().ok());
  EXPECT_TRUE(IsTold(*replicas[2], 5));
  EXPECT_EQ(Status().workers(), 3);
}

TEST_F(RendezvousTest, MembersWaitForTheirLeaderToSaveForAnotherNumber) {
  roster_config_ = RosterFor(Resizable(0));
  StartLeader();
  std::vector<std::unique_ptr<Replica>> replicas = GroupToldOf(4);
  replicas[2].reset();
  ASSERT_TRUE(replicas[0]->ended.Wait());
  auto second = replicas[1]->JoinLater(7);
  EXPECT_TRUE(absl::IsCancelled(replicas[0]->JoinLater(7).get().status())) << "it must save";
  ASSERT_TRUE(testing::Eventually([&] { return Status().missing_size() == 2; }));
  EXPECT_EQ(Status().workers(), 3);
  replicas[0]->rendezvous->StateIsSaved();
  EXPECT_TRUE(absl::IsCancelled(second.get().status())) << "the group has the number";
  EXPECT_EQ(Status().workers(), 4);
}

// No later heartbeat says it again.
TEST_F(RendezvousTest, ALeaderThatEndsAtOnceHasSaidThatItHasSaved) {
  roster_config_ = RosterFor(Resizable(0));
  roster_config_.dead_after = options_.heartbeat_every = 1h;
  StartLeader();
  std::vector<std::unique_ptr<Replica>> replicas = GroupToldOf(4);
  replicas[0]->rendezvous->SetKeepsWorkers(true);
  ASSERT_TRUE(testing::Eventually([&] { return Status().keeps_workers(); }));
  replicas[0]->rendezvous->SetKeepsWorkers(false);
  replicas[0]->rendezvous->StateIsSaved();
  replicas[0].reset();
  EXPECT_TRUE(testing::Eventually([&] { return Status().workers() == 4; }));
}

TEST_F(RendezvousTest, SurvivorsWaitForASuccessorBeyondTheDeadline) {
  options_.timeout = Slowed(2s);
  options_.successors_come = true;
  StartLeader();
  auto replicas = AllReplicas();
  JoinAll(replicas);
  replicas[1] = nullptr;
  ASSERT_TRUE(replicas[0]->ended.Wait());
  auto first = replicas[0]->JoinLater(12), last = replicas[2]->JoinLater(12);
  EXPECT_EQ(first.wait_for(2 * options_.timeout), std::future_status::timeout);
  replicas[1] = NewReplica(1);
  auto successor = replicas[1]->JoinLater();
  for (auto* join : {&first, &successor, &last}) {
    const auto membership = join->get();
    EXPECT_TRUE(membership.ok()) << membership.status();
  }
}

TEST_F(RendezvousTest, SurvivorsOfTheLeaderWaitForItsSuccessorBeyondTheDeadline) {
  options_.timeout = Slowed(2s);
  options_.longest_retry = 20ms;  // the first to find the successor waits for the others
  options_.successors_come = true;
  StartLeader();
  auto replicas = AllReplicas();
  JoinAll(replicas);
  leader_ = nullptr;
  std::vector<std::future<absl::StatusOr<Membership>>> joins;
  for (auto& replica : replicas) joins.push_back(replica->JoinLater(12));
  EXPECT_EQ(joins[0].wait_for(2 * options_.timeout), std::future_status::timeout);
  StartLeader();
  for (auto& join : joins) {
    const auto membership = join.get();
    EXPECT_TRUE(membership.ok()) << membership.status();
  }
}

// It hangs, or cannot be reached from here: its pod is not replaced.
TEST_F(RendezvousTest, ALeaderWhosePodStaysIsNotWaitedForWithoutEnd) {
  options_.timeout = Slowed(2s);
  options_.successors_come = true;
  options_.given_up_within = Slowed(500ms);
  StartLeader();
  auto replicas = AllReplicas();
  JoinAll(replicas);
  leader_ = nullptr;
  const auto began = std::chrono::steady_clock::now();
  EXPECT_EQ(replicas[1]->rendezvous->Join(12, kFingerprint).status().code(),
            absl::StatusCode::kDeadlineExceeded);
  EXPECT_GE(std::chrono::steady_clock::now() - began,
            Slowed(2400ms));  // its successor is waited for first
  for (auto& replica : replicas) replica->stop = true;
}

TEST_F(RendezvousTest, TheDeadlineCountsOnceAllPodsAreThere) {
  // Shared, because the leader's thread asks until after the test's body.
  const auto scheduled = std::make_shared<std::atomic<bool>>(false);
  roster_config_.has_address = [scheduled](const std::string& host) {
    return host != "c" || *scheduled;
  };
  roster_config_.hosts = {"a", "b", "c"};
  options_.timeout = 3s;  // longer than what lies between two looks at the addresses
  options_.successors_come = true;
  StartLeader();
  auto first = NewReplica(0), second = NewReplica(1);
  auto waits = first->JoinLater(), waits_too = second->JoinLater();
  EXPECT_EQ(waits.wait_for(5s), std::future_status::timeout);
  *scheduled = true;  // and yet nobody joins from there
  const auto membership = waits.get();
  EXPECT_EQ(membership.status().code(), absl::StatusCode::kDeadlineExceeded);
  // The other one's deadline has passed, too: it may have left.
  EXPECT_THAT(std::string(membership.status().message()),
              AnyOf(HasSubstr("waiting for worker 2"), HasSubstr("worker 1, worker 2")));
  first->stop = second->stop = true;
}

TEST_F(RendezvousTest, WithoutAnOperatorNobodyIsWaitedForBeyondTheDeadline) {
  options_.timeout = Slowed(2s);
  StartLeader();
  auto replicas = AllReplicas();
  JoinAll(replicas);
  replicas[1] = nullptr;
  ASSERT_TRUE(replicas[0]->ended.Wait());
  EXPECT_EQ(replicas[0]->rendezvous->Join(12, kFingerprint).status().code(),
            absl::StatusCode::kDeadlineExceeded);
}

TEST_F(RendezvousTest, AMemberKnowsIfItsGenerationEndedBecauseAnotherWasLost) {
  StartLeader();
  auto replicas = AllReplicas();
  JoinAll(replicas);
  EXPECT_FALSE(replicas[0]->rendezvous->LostMember());
  replicas[2] = nullptr;
  ASSERT_TRUE(replicas[0]->ended.Wait());
  replicas[2] = NewReplica(2);
  JoinAll(replicas);
  EXPECT_TRUE(replicas[0]->rendezvous->LostMember());
  EXPECT_FALSE(replicas[2]->rendezvous->LostMember()) << "it was in none";
  JoinAll(replicas);  // one asks again, as after an error of the communicator
  EXPECT_FALSE(replicas[0]->rendezvous->LostMember());
}

TEST_F(RendezvousTest, StatusNamesThePodsThatAreLost) {
  StartLeader();
  EXPECT_THAT(Status().missing_members(), IsEmpty());  // nobody has been there
  auto replicas = AllReplicas();
  JoinAll(replicas);
  EXPECT_THAT(Status().missing_members(), IsEmpty());
  replicas[2] = nullptr;
  ASSERT_TRUE(replicas[0]->ended.Wait());
  EXPECT_THAT(Status().missing_members(), ElementsAre("worker-2"));
  replicas[2] = NewReplica(2);
  JoinAll(replicas);
  EXPECT_THAT(Status().missing_members(), IsEmpty());
}

TEST_F(RendezvousTest, APausedMemberIsNamed) {
  options_.heartbeat_every = 100ms;
  StartLeader();
  auto replicas = AllReplicas();
  options_.heartbeat_every = 1h;
  replicas[2] = NewReplica(2);
  JoinAll(replicas);
  const auto start = std::chrono::steady_clock::now();
  ASSERT_TRUE(replicas[0]->ended.Wait());
  EXPECT_THAT(Status().missing_members(), ElementsAre("worker-2"));
  EXPECT_LT(std::chrono::steady_clock::now() - start, lockstep::testing::TimeLimit(15s));
}

// Two processes of one place.

TEST_F(RendezvousTest, ALostPodThatComesBackDoesNotEvictItsSuccessor) {
  StartLeader();
  auto replicas = AllReplicas();
  const auto pod_of = [&](std::int64_t started) {
    Identity identity = Member(1);
    identity.incarnation = {started, started + 1};
    return std::make_unique<Replica>(identity, clock_, options_);
  };
  replicas[1] = pod_of(2000);
  JoinAll(replicas);
  auto lost = pod_of(1000);
  auto kept_out = lost->JoinLater();
  EXPECT_EQ(kept_out.wait_for(500ms), std::future_status::timeout);
  EXPECT_EQ(replicas[0]->ended.count(), 0) << "the generation was ended by a process of the past";
  lost->stop = true;
  EXPECT_EQ(kept_out.get().status().code(), absl::StatusCode::kCancelled);

  auto later = pod_of(3000);
  auto joins = later->JoinLater();
  ASSERT_TRUE(replicas[1]->ended.Wait());  // which does not end the job
  EXPECT_EQ(replicas[1]->rendezvous->Join(5, kFingerprint).status().code(),
            absl::StatusCode::kAborted);
  later->stop = true;
  EXPECT_EQ(joins.get().status().code(), absl::StatusCode::kCancelled);
}

// A job with a token.

class TokenTest : public RendezvousTest {
 protected:
  TokenTest() { roster_config_.token = kToken; }
  std::unique_ptr<Replica> Holder(int index, const api::JobToken& token = kToken) {
    Identity identity = Member(index);
    identity.token = token;
    return std::make_unique<Replica>(identity, clock_, options_);
  }
  // Asks the leader at `address`.
  static proto::GetStatusResponse AskAt(const std::string& address,
                                        const proto::GetStatusRequest& request) {
    const auto stub = proto::TrainerStatus::NewStub(
        grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
    grpc::ClientContext context;
    proto::GetStatusResponse response;
    EXPECT_TRUE(stub->GetStatus(&context, request, &response).ok());
    return response;
  }
  proto::GetStatusResponse Ask(const std::string& nonce, const std::string& proof) {
    proto::GetStatusRequest request;
    request.set_nonce(nonce);
    request.set_proof(proof);
    return AskAt(address_, request);
  }

  static inline const api::JobToken kToken{"a token of sixteen bytes or more"};
  static inline const api::JobToken kOther{"another token of the same length"};
};

TEST_F(TokenTest, WhoKnowsItMayJoinAndStore) {
  StartLeader();
  std::vector<std::unique_ptr<Replica>> replicas;
  for (int i = 0; i < kWorkers; ++i) replicas.push_back(Holder(i));
  JoinAll(replicas);
  EXPECT_TRUE(replicas[0]->rendezvous->store().Set("key", "value").ok());
  EXPECT_EQ(*replicas[2]->rendezvous->store().Get("key", Slowed(60s)), "value");
  EXPECT_EQ(leader_->refusals(), 0);
}

TEST_F(TokenTest, WhoDoesNotLearnsNothingAndEvictsNobody) {
  options_.timeout = Slowed(4s);
  StartLeader();
  std::vector<std::unique_ptr<Replica>> replicas;
  for (int i = 0; i < kWorkers; ++i) replicas.push_back(Holder(i));
  JoinAll(replicas);
  for (const api::JobToken& token : {kOther, api::JobToken()}) {
    auto stranger = Holder(1, token);
    const auto refused = stranger->rendezvous->Join(1'000'000, "some fingerprint");
    EXPECT_EQ(refused.status().code(), absl::StatusCode::kDeadlineExceeded);
    EXPECT_THAT(std::string(refused.status().message()), Not(HasSubstr(Member(0).ClusterHash())));
  }
  EXPECT_GE(leader_->refusals(), 2);
  for (auto& replica : replicas) EXPECT_EQ(replica->ended.count(), 0);
}

// An operator that replaces lost pods is no reason to ask without end: this leader is not lost.
TEST_F(TokenTest, WhoIsTurnedAwayGivesUpAtTheDeadlineAndAsksLessAndLessOften) {
  options_.timeout = Slowed(2s);
  options_.successors_come = true;
  StartLeader();
  auto stranger = Holder(1, kOther);
  const auto began = std::chrono::steady_clock::now();
  auto join = stranger->JoinLater();
  EXPECT_EQ(join.wait_for(5 * options_.timeout), std::future_status::ready);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
  stranger->stop = true;
  EXPECT_EQ(join.get().status().code(), absl::StatusCode::kDeadlineExceeded);
  // Ten or so until two attempts are half a second apart.
  EXPECT_LE(static_cast<double>(leader_->refusals()), 10 + 2 * took.count());
}

TEST_F(TokenTest, TheStoreIsClosedToCallersWithoutProof) {
  StartLeader();
  std::vector<std::unique_ptr<Replica>> replicas;
  for (int i = 0; i < kWorkers; ++i) replicas.push_back(Holder(i));
  JoinAll(replicas);
  ASSERT_TRUE(replicas[0]->rendezvous->store().Set("key", "value").ok());
  grpc::ChannelArguments own;
  own.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  for (std::uint64_t session = 0; session < 5; ++session) {
    // A stranger may not ask often on one connection.
    const auto stub = proto::Rendezvous::NewStub(
        grpc::CreateCustomChannel(address_, grpc::InsecureChannelCredentials(), own));
    grpc::ClientContext put_context, get_context;
    proto::PutRequest put;
    put.set_generation(1);
    put.set_key("key");
    put.set_value("forged");
    put.set_session(session);
    put.set_proof(kToken.Prove(api::kProofOfStore, "not the nonce",
                               api::PutProofContent(1, "key", "forged")));
    proto::PutResponse put_response;
    EXPECT_EQ(stub->Put(&put_context, put, &put_response).error_code(),
              grpc::StatusCode::UNAUTHENTICATED);
    proto::GetRequest get;
    get.set_generation(1);
    get.add_keys("key");
    get.set_session(session);
    proto::GetResponse get_response;
    const grpc::Status refused = stub->Get(&get_context, get, &get_response);
    EXPECT_EQ(refused.error_code(), grpc::StatusCode::UNAUTHENTICATED);
    EXPECT_EQ(refused.error_message(), "");
  }
  EXPECT_EQ(*replicas[1]->rendezvous->store().Get("key", Slowed(60s)), "value");
}

TEST_F(TokenTest, StatusIsForThoseWhoProveItForAFreshNonce) {
  StartLeader();
  const proto::GetStatusResponse first = Ask("", "");
  EXPECT_EQ(first.job(), "");
  EXPECT_EQ(first.generation(), 0u);
  EXPECT_THAT(first.missing_members(), IsEmpty());
  ASSERT_FALSE(first.nonce().empty());
  const auto prove = [&](const api::JobToken& token, const std::string& nonce) {
    return token.Prove(api::kProofOfStatus, nonce, "");
  };
  EXPECT_EQ(Ask(first.nonce(), prove(kToken, first.nonce())).job(), "mnist");
  EXPECT_EQ(Ask(first.nonce(), prove(kOther, first.nonce())).job(), "");
  for (const std::string& made_up :
       {std::string("1 made up"), std::string(), first.nonce() + "x"}) {
    EXPECT_EQ(Ask(made_up, prove(kToken, made_up)).job(), "");
  }
  EXPECT_GE(leader_->refusals(), 4);
}

TEST_F(TokenTest, StatusIsForThoseWhoHaveDialledThisLeader) {
  Identity identity = lockstep::testing::Worker(0, {"a:1"});
  identity.token = kToken;
  const auto leader = *RendezvousService::Start(RosterFor(identity), "127.0.0.2:0", clock_);
  const auto ask = [&](const proto::GetStatusRequest& request) {
    return AskAt(fmt::format("127.0.0.2:{}", leader->port()), request);
  };
  proto::GetStatusRequest request;
  request.set_nonce(ask(request).nonce());
  for (const auto& [dialled, is_told] :
       {std::pair{"127.0.0.2", true}, {"127.0.0.1", false}, {"", true}}) {
    request.set_dialled(dialled);
    request.clear_proof();
    const std::string content = *dialled == '\0' ? "" : request.SerializeAsString();
    request.set_proof(kToken.Prove(api::kProofOfStatus, request.nonce(), content));
    EXPECT_EQ(!ask(request).job().empty(), is_told)
        << dialled << ", of an earlier version if empty";
  }
  request.set_dialled("127.0.0.1");
  request.clear_proof();
  request.set_proof(
      kToken.Prove(api::kProofOfStatus, request.nonce(), request.SerializeAsString()));
  request.set_dialled("127.0.0.2");  // as a stranger would change it
  EXPECT_EQ(ask(request).job(), "");
  EXPECT_EQ(leader->refusals(), 2);
}

// Whoever reads the operator's traffic can send a question again while its nonce is valid.
TEST_F(TokenTest, ANumberOfWorkersThatIsToldAgainCountsNoMore) {
  Identity identity = lockstep::testing::Worker(0, {"a:1", "b:1"});
  identity.training.checkpoint.directory = "/checkpoints";
  identity.token = kToken;
  lockstep::testing::FakeClock clock;
  const auto leader = *RendezvousService::Start(RosterFor(identity), "127.0.0.2:0", clock);
  const auto ask = [&](const proto::GetStatusRequest& request) {
    return AskAt(fmt::format("127.0.0.2:{}", leader->port()), request);
  };
  const auto question = [&](int workers) {
    proto::GetStatusRequest request;
    request.set_nonce(ask({}).nonce());
    request.set_dialled("127.0.0.2");
    request.set_workers(workers);
    request.set_proof(
        kToken.Prove(api::kProofOfStatus, request.nonce(), request.SerializeAsString()));
    return request;
  };
  const proto::GetStatusRequest first = question(2), second = question(3);
  EXPECT_EQ(ask(first).workers(), 2);
  EXPECT_EQ(ask(second).workers(), 3);
  EXPECT_EQ(ask(first).workers(), 3) << "of the same second";
  clock.Advance(1s);
  const proto::GetStatusRequest third = question(2);
  EXPECT_EQ(ask(third).workers(), 2) << "the operator says so again";
  EXPECT_EQ(ask(second).workers(), 2) << "of an earlier second";
  clock.Advance(1s);
  EXPECT_EQ(ask(question(2)).workers(), 2);
  EXPECT_EQ(ask(question(4)).workers(), 4);
  EXPECT_EQ(ask(third).workers(), 4);
}

TEST_F(TokenTest, TheStatusIsProvedForTheCallersNonce) {
  StartLeader();
  const std::string nonce = Ask("", "").nonce();
  proto::GetStatusRequest request;
  request.set_nonce(nonce);
  request.set_proof(kToken.Prove(api::kProofOfStatus, nonce, ""));
  request.set_answer_nonce("the caller's");
  proto::GetStatusResponse said = AskAt(address_, request);
  EXPECT_EQ(said.job(), "mnist");
  const std::string proof = said.proof();
  said.clear_proof();
  EXPECT_TRUE(
      kToken.Accepts(api::kProofOfStatusAnswer, "the caller's", said.SerializeAsString(), proof));
}

// Strangers at the port of a job with a token.

// A session of one who never joins.
class SilentSession final
    : public grpc::ClientBidiReactor<proto::ReplicaMessage, proto::CoordinatorMessage> {
 public:
  SilentSession(proto::Rendezvous::Stub& stub, Happening& challenged, Happening& ended)
      : challenged_(challenged), ended_(ended) {
    stub.async()->Session(&context_, this);
    StartRead(&message_);
    StartCall();
  }
  void Cancel() { context_.TryCancel(); }
  void OnReadDone(bool ok) override {
    if (!ok) return;
    challenged_.Now("");
    StartRead(&message_);
  }
  void OnDone(const grpc::Status&) override { ended_.Now(""); }

 private:
  Happening &challenged_, &ended_;
  grpc::ClientContext context_;
  proto::CoordinatorMessage message_;
};

TEST_F(TokenTest, AStrangersStreamsKeepNoMemberOut) {
  roster_config_.dead_after = 1h;  // no silent session ends by itself
  StartLeader();
  const auto stub =
      proto::Rendezvous::NewStub(grpc::CreateChannel(address_, grpc::InsecureChannelCredentials()));
  constexpr int kSessions = 300;  // many times what the job needs
  Happening challenged, ended;
  std::deque<SilentSession> sessions;
  for (int i = 0; i < kSessions; ++i) sessions.emplace_back(*stub, challenged, ended);
  ASSERT_TRUE(challenged.Wait(8));
  options_.timeout = 15s;
  std::vector<std::unique_ptr<Replica>> replicas;
  for (int i = 0; i < kWorkers; ++i) replicas.push_back(Holder(i));
  EXPECT_EQ(JoinAll(replicas).size(), 3u);
  for (SilentSession& session : sessions) session.Cancel();
  EXPECT_TRUE(ended.Wait(kSessions));
}

TEST_F(TokenTest, ConnectionsThatProveNothingKeepNoMemberOutThoughOfItsAddress) {
  StartLeader();
  std::deque<lockstep::testing::TcpClient> silent;
  for (int i = 0; i < 400; ++i) silent.emplace_back(leader_->port());
  std::vector<std::unique_ptr<Replica>> replicas;
  for (int i = 0; i < kWorkers; ++i) replicas.push_back(Holder(i));
  EXPECT_EQ(JoinAll(replicas).size(), 3u);
}

// More than there are places for strangers. Under a sanitizer so many in one process do not get to
// answer gRPC's pings in time.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::size_t kLargeGang = 20;
#else
constexpr std::size_t kLargeGang = 150;
#endif

TEST_F(TokenTest, ALargeGangOfOneAddressComesIn) {
  const std::vector<std::string> addresses(kLargeGang, "a:1");
  roster_config_ = RosterFor(lockstep::testing::Worker(0, addresses));
  roster_config_.token = kToken;
  StartLeader();
  std::vector<std::unique_ptr<Replica>> replicas;
  for (int i = 0; i < static_cast<int>(addresses.size()); ++i) {
    Identity identity = lockstep::testing::Worker(i, addresses);
    identity.rendezvous_address = address_;
    identity.token = kToken;
    replicas.push_back(std::make_unique<Replica>(identity, clock_, options_));
  }
  EXPECT_EQ(JoinAll(replicas).size(), addresses.size());
}

TEST_F(TokenTest, WhatAStrangerSendsIsNotWaitedFor) {
  StartLeader();
  const auto stub =
      proto::Rendezvous::NewStub(grpc::CreateChannel(address_, grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + 20s);
  proto::PutRequest put;
  put.set_value(std::string(1 << 20, 'v'));
  proto::PutResponse response;
  // Not UNAUTHENTICATED: that would be said after all of it had come.
  EXPECT_EQ(stub->Put(&context, put, &response).error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST_F(TokenTest, NothingIsDecompressedForAStranger) {
  StartLeader();
  const auto stub =
      proto::Rendezvous::NewStub(grpc::CreateChannel(address_, grpc::InsecureChannelCredentials()));
  const auto refusal = [&stub](const std::string& value, grpc_compression_algorithm algorithm) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + Slowed(20s));
    context.set_compression_algorithm(algorithm);
    proto::PutRequest put;
    put.set_value(value);
    proto::PutResponse response;
    return stub->Put(&context, put, &response).error_code();
  };
  // A kilobyte, as it is sent. Not UNAUTHENTICATED: that would be said after it had been read.
  EXPECT_EQ(refusal(std::string(1 << 20, '0'), GRPC_COMPRESS_GZIP),
            grpc::StatusCode::UNIMPLEMENTED);
  EXPECT_EQ(refusal(std::string(1 << 10, '0'), GRPC_COMPRESS_NONE),
            grpc::StatusCode::UNAUTHENTICATED);
}

// What a caller may make the leader hold.

TEST_F(RendezvousTest, TheStoreTakesNoMoreThanCommunicatorsNeed) {
  StartLeader();
  auto replicas = AllReplicas();
  JoinAll(replicas);
  KeyValueStore& store = replicas[0]->rendezvous->store();
  const auto text = [](const auto& result) { return result.ToString(); };
  EXPECT_THAT(text(store.Set(std::string(300, 'k'), "value")),
              HasSubstr("kkk…\" has 300 bytes, expected at most 256"));
  EXPECT_THAT(text(store.Set("key", std::string((1 << 20) + 1, 'v'))),
              HasSubstr("the value of key \"key\" has 1048577 bytes, expected at most 1048576"));
  EXPECT_TRUE(store.Set("key", std::string(1 << 20, 'v')).ok());
  EXPECT_TRUE(store.GetAll({"key", "key"}, {.timeout = 20s}).ok());
  EXPECT_THAT(
      text(store.GetAll({"key", "key", "key"}, {.timeout = 20s}).status()),
      HasSubstr("the values of 3 keys, from \"key\" on, have 3145728 bytes, expected at most "
                "2097152 in one answer"));
  EXPECT_THAT(text(store.Get(std::string(300, 'k'), 20s).status()),
              HasSubstr("kkk…\" has 300 bytes, expected at most 256"));
  absl::Status status;
  for (int i = 0; i < 100 && status.ok(); ++i) {
    status = store.Set(fmt::format("key{}", i), std::string(1 << 20, 'v'));
  }
  EXPECT_THAT(text(status), HasSubstr("with key \"key62\", all entries of generation 1 have "));
}

// Over many connections: each alone may not have so many calls.
TEST_F(RendezvousTest, OnlySoManyCallsWaitForKeys) {
  StartLeader();
  auto replicas = AllReplicas();
  JoinAll(replicas);
  constexpr int kMost = 64 + 16 * kWorkers, kCallsOfAConnection = 8;
  grpc::ChannelArguments own;
  own.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  std::vector<std::unique_ptr<proto::Rendezvous::Stub>> stubs;
  Happening refused;
  std::vector<std::future<std::string>> gets;
  for (int i = 0; i <= kMost; ++i) {
    if (i % kCallsOfAConnection == 0) {
      stubs.push_back(proto::Rendezvous::NewStub(
          grpc::CreateCustomChannel(address_, grpc::InsecureChannelCredentials(), own)));
    }
    gets.push_back(std::async(std::launch::async, [&refused, stub = stubs.back().get()] {
      grpc::ClientContext context;
      context.set_deadline(std::chrono::system_clock::now() + Slowed(60s));
      proto::GetRequest request;
      request.set_generation(1);
      request.add_keys("later");
      proto::GetResponse response;
      const grpc::Status status = stub->Get(&context, request, &response);
      if (!status.ok()) refused.Now(status.error_message());
      return status.ok() ? response.values(0) : "";
    }));
  }
  EXPECT_TRUE(refused.Wait());
  EXPECT_EQ(refused.what(), "key \"later\": 112 calls wait for keys already, expected at most 112");
  EXPECT_TRUE(replicas[0]->rendezvous->store().Set("later", "value").ok());
  int found = 0;
  for (auto& get : gets) found += get.get() == "value" ? 1 : 0;
  EXPECT_EQ(found, kMost);
}

// A process that has not heard of the end of its generation yet.
TEST_F(RendezvousTest, NothingIsStoredForAnotherGeneration) {
  StartLeader();
  auto replicas = AllReplicas();
  JoinAll(replicas);
  const auto stub =
      proto::Rendezvous::NewStub(grpc::CreateChannel(address_, grpc::InsecureChannelCredentials()));
  for (const std::uint64_t generation : {0, 2}) {
    grpc::ClientContext context;
    proto::PutRequest put;
    put.set_generation(generation);
    put.set_key("key");
    put.set_value("of another generation");
    proto::PutResponse response;
    const grpc::Status refused = stub->Put(&context, put, &response);
    EXPECT_EQ(refused.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
    EXPECT_EQ(refused.error_message(),
              fmt::format("generation {} is not the current one (1)", generation));
  }
  KeyValueStore& store = replicas[1]->rendezvous->store();
  EXPECT_TRUE(store.Set("key", "value").ok());
  EXPECT_EQ(*replicas[0]->rendezvous->store().Get("key", Slowed(60s)), "value");
}

TEST_F(RendezvousTest, ALeaderThatNeverComesIsNamedAtTheDeadline) {
  StartLeader();
  leader_ = nullptr;
  options_.timeout = Slowed(300ms);
  auto replica = NewReplica(1);
  const auto membership = replica->rendezvous->Join(-1, kFingerprint);
  EXPECT_EQ(membership.status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(membership.status().message()),
              HasSubstr(fmt::format("rendezvous at {}", address_)));
  EXPECT_THAT(std::string(membership.status().message()),
              HasSubstr("its leader does not answer ("));
}

TEST_F(RendezvousTest, AnotherClusterHashIsRefusedForGoodAndLearnsNothingOfTheLeaders) {
  StartLeader();
  Identity stranger = Member(1);
  stranger.training.seed = 99;
  Replica replica(stranger, clock_, options_);
  for (int attempt = 0; attempt < 2; ++attempt) {
    const auto membership = replica.rendezvous->Join(-1, kFingerprint);
    EXPECT_EQ(membership.status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(membership.status().message()), HasSubstr(stranger.ClusterHash()));
    EXPECT_THAT(std::string(membership.status().message()),
                Not(HasSubstr(Member(0).ClusterHash())));
  }
}

TEST_F(RendezvousTest, AnotherFingerprintIsRefusedNamingBothSides) {
  StartLeader();
  auto first = NewReplica(0), second = NewReplica(1);
  auto waiting = first->JoinLater();
  // Refused once the first is in; until then it is itself the one that waits.
  options_.timeout = 20s;
  auto refused = second->JoinLater(-1, "trainSamples=9;");
  const auto is_ready = [](const auto& join) {
    return join.wait_for(0s) == std::future_status::ready;
  };
  ASSERT_TRUE(
      lockstep::testing::Eventually([&] { return is_ready(refused) || is_ready(waiting); }));
  const auto answer = is_ready(refused) ? refused.get() : waiting.get();
  EXPECT_EQ(answer.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(answer.status().message()),
              AllOf(HasSubstr("trainSamples=8"), HasSubstr("trainSamples=9")));
  first->stop = second->stop = true;
}

TEST_F(RendezvousTest, AStopWhileWaitingIsCancelled) {
  StartLeader();
  auto replica = NewReplica(0);
  auto join = replica->JoinLater();
  replica->stop = true;
  const auto membership = join.get();
  EXPECT_EQ(membership.status().code(), absl::StatusCode::kCancelled);
}

// As rank 0 does when its pod is stopped: it saves its state before it exits.
TEST_F(RendezvousTest, AMemberWhoseJoinHasFailedIsNotCounted) {
  StartLeader();
  auto leaving = NewReplica(0);
  auto left = leaving->JoinLater(9);
  while (Status().missing_size() == kWorkers) std::this_thread::sleep_for(5ms);
  leaving->stop = true;
  EXPECT_EQ(left.get().status().code(), absl::StatusCode::kCancelled);
  options_.timeout = Slowed(3s);
  auto second = NewReplica(1), third = NewReplica(2);
  auto second_join = second->JoinLater(9), third_join = third->JoinLater(9);
  for (auto* join : {&second_join, &third_join}) {
    const absl::Status failed = join->get().status();
    EXPECT_EQ(failed.code(), absl::StatusCode::kDeadlineExceeded) << failed;
    EXPECT_THAT(std::string(failed.message()), HasSubstr("worker 0"));
  }
}

TEST_F(RendezvousTest, FinishHoldsEveryoneUntilAllHaveFinishedAndDrainsTheLeader) {
  StartLeader();
  auto replicas = AllReplicas();
  JoinAll(replicas);
  std::vector<std::future<absl::Status>> finishes;
  for (auto& replica : {replicas[0].get(), replicas[1].get()}) {
    finishes.push_back(
        std::async(std::launch::async, [replica] { return replica->rendezvous->Finish(); }));
  }
  EXPECT_EQ(finishes[0].wait_for(100ms), std::future_status::timeout);
  EXPECT_FALSE(leader_->WaitUntilDrained(0ms));
  EXPECT_TRUE(replicas[2]->rendezvous->Finish().ok());
  for (auto& finish : finishes) EXPECT_TRUE(finish.get().ok());
  EXPECT_TRUE(leader_->WaitUntilDrained(Slowed(60s)));
  for (auto& replica : replicas) EXPECT_EQ(replica->ended.count(), 0);
  auto late = NewReplica(1);
  EXPECT_EQ(late->rendezvous->Join(-1, kFingerprint).status().code(),
            absl::StatusCode::kAlreadyExists);
}

// The others' clock moves only once they know who is busy.
TEST_F(RendezvousTest, ASlowSaveOfAnotherMemberMakesNobodyGiveUp) {
  options_.timeout = 1min;
  options_.heartbeat_every = roster_config_.waiting_every = 10ms;
  roster_config_.dead_after = 1h;  // their heartbeats stand still with their clock
  StartLeader();
  lockstep::testing::FakeClock clock;
  std::vector<std::unique_ptr<Replica>> replicas;
  replicas.push_back(NewReplica(0));
  for (const int i : {1, 2}) {
    replicas.push_back(std::make_unique<Replica>(Member(i), clock, options_));
  }
  JoinAll(replicas);
  replicas[0]->rendezvous->SetActivity(api::Activity::kCheckpoint);
  while (Status().activity() != proto::ACTIVITY_CHECKPOINT) std::this_thread::yield();
  auto finish = std::async(std::launch::async, [&] { return replicas[1]->rendezvous->Finish(); });
  ASSERT_TRUE(replicas[1]->StillWaits(finish));
  clock.Advance(options_.timeout * 5 / 4);
  EXPECT_TRUE(replicas[1]->StillWaits(finish));
  // The wait ends with Aborted if the generation ends meanwhile.
  replicas[2] = nullptr;
  EXPECT_EQ(finish.get().code(), absl::StatusCode::kAborted);
  replicas[2] = std::make_unique<Replica>(Member(2), clock, options_);
  for (const int i : {1, 2}) {
    Replica& replica = *replicas[static_cast<std::size_t>(i)];
    std::string waits_for;
    while (waits_for.find("still saving or sharing state: worker 0") == std::string::npos) {
      replica.stop_at_look = replica.looks + 3;
      const absl::Status stopped = replica.rendezvous->Join(9, kFingerprint).status();
      ASSERT_EQ(stopped.code(), absl::StatusCode::kCancelled) << stopped;
      waits_for = std::string(stopped.message());
    }
    replica.stop_at_look = std::numeric_limits<int>::max();
  }
  auto second = replicas[1]->JoinLater(9), third = replicas[2]->JoinLater();
  for (int i = 0; i < 4; ++i) {
    clock.Advance(options_.timeout / 2);
    EXPECT_TRUE(replicas[1]->StillWaits(second));
    EXPECT_TRUE(replicas[2]->StillWaits(third));
  }
  auto first = replicas[0]->JoinLater(9);
  for (auto* join : {&first, &second, &third}) {
    const auto membership = join->get();
    EXPECT_TRUE(membership.ok()) << membership.status();
  }
}

// Its volume hangs, say: the member heartbeats, and nothing else would end the wait.
TEST_F(RendezvousTest, AMemberThatNeverFinishesIsGivenUp) {
  options_.timeout = options_.busy_within = Slowed(2s);
  StartLeader();
  auto replicas = AllReplicas();
  JoinAll(replicas);
  replicas[0]->rendezvous->SetActivity(api::Activity::kCheckpoint);
  const absl::Status finished = replicas[1]->rendezvous->Finish();
  EXPECT_EQ(finished.code(), absl::StatusCode::kDeadlineExceeded) << finished;
  EXPECT_THAT(std::string(finished.message()), HasSubstr("the other members have not finished"));
}

TEST_F(RendezvousTest, AStopIsHeardWhileTheOthersFinish) {
  StartLeader();
  auto replicas = AllReplicas();
  JoinAll(replicas);
  auto finish = std::async(std::launch::async, [&] { return replicas[1]->rendezvous->Finish(); });
  ASSERT_TRUE(replicas[1]->StillWaits(finish));
  replicas[1]->stop = true;
  const absl::Status stopped = finish.get();
  EXPECT_EQ(stopped.code(), absl::StatusCode::kCancelled) << stopped;
}

TEST_F(RendezvousTest, FinishIsAbortedByALossAndWorksInTheNextGeneration) {
  StartLeader();
  auto replicas = AllReplicas();
  JoinAll(replicas);
  auto finish = std::async(std::launch::async, [&] { return replicas[0]->rendezvous->Finish(); });
  replicas[1] = nullptr;
  const absl::Status aborted = finish.get();
  EXPECT_EQ(aborted.code(), absl::StatusCode::kAborted);
  EXPECT_THAT(std::string(aborted.message()), HasSubstr("lost worker 1"));
  replicas[1] = NewReplica(1);
  JoinAll(replicas);
  std::vector<std::future<absl::Status>> finishes;
  for (auto& replica : replicas) {
    finishes.push_back(
        std::async(std::launch::async, [&replica] { return replica->rendezvous->Finish(); }));
  }
  for (auto& each : finishes) EXPECT_TRUE(each.get().ok());
}

TEST_F(RendezvousTest, StatusSaysWhoIsMissingAndWhatRankZeroReportedAndDoes) {
  options_.heartbeat_every = 10ms;
  StartLeader();
  auto replicas = AllReplicas();
  EXPECT_THAT(Status().missing(), ElementsAre("worker 0", "worker 1", "worker 2"));
  JoinAll(replicas);
  EXPECT_THAT(Status().missing(), IsEmpty());
  EXPECT_EQ(Status().job(), "mnist");
  EXPECT_EQ(Status().job_uid(), "mnist-uid");
  EXPECT_EQ(Status().generation(), 1u);
  api::Progress progress;
  progress.step = 321;
  progress.loss = 0.5;
  replicas[1]->rendezvous->SetActivity(api::Activity::kCheckpoint);
  replicas[0]->rendezvous->SetActivity(api::Activity::kEvaluation);
  replicas[0]->rendezvous->Report(progress);
  const auto deadline = std::chrono::steady_clock::now() + 20s;
  while (!Status().has_progress()) ASSERT_LT(std::chrono::steady_clock::now(), deadline);
  EXPECT_EQ(Status().progress().step(), 321);
  EXPECT_EQ(Status().progress().loss(), 0.5);
  EXPECT_EQ(Status().activity(), proto::ACTIVITY_EVALUATION);
  EXPECT_FALSE(Status().progress().has_accuracy());
}

TEST_F(RendezvousTest, StatusNamesTheMembersThatOthersWaitForInAStep) {
  options_.heartbeat_every = 10ms;
  StartLeader();
  auto replicas = AllReplicas();
  JoinAll(replicas);
  const auto set = [&replicas](std::size_t rank, api::StepPart part) {
    replicas[rank]->rendezvous->SetActivity(api::Activity::kStep);
    replicas[rank]->rendezvous->SetStepPart(part);
  };
  const auto names = [this] {
    std::vector<std::string> all;
    const proto::GetStatusResponse said = Status();
    for (const proto::Straggler& one : said.stragglers()) {
      all.push_back(fmt::format("{} {} {} {}", one.replica(), one.rank(),
                                static_cast<int>(one.activity()),
                                static_cast<int>(one.step_part())));
    }
    return all;
  };
  const auto wait_for = [&names](const std::vector<std::string>& expected) {
    const auto deadline = std::chrono::steady_clock::now() + 20s;
    while (names() != expected && std::chrono::steady_clock::now() < deadline) {
    }
    EXPECT_EQ(names(), expected);
  };
  set(0, api::StepPart::kInput);
  replicas[0]->rendezvous->Report({});
  while (!Status().has_progress()) {  // a heartbeat has come that says so
  }
  wait_for({});  // nobody waits
  set(0, api::StepPart::kPeers);
  set(2, api::StepPart::kInput);
  wait_for({"worker-2 2 2 1"});  // nothing is known of rank 1
  set(1, api::StepPart::kCompute);
  wait_for({"worker-1 1 2 2", "worker-2 2 2 1"});
  replicas[2]->rendezvous->SetActivity(api::Activity::kCheckpoint);
  set(1, api::StepPart::kPeers);
  wait_for({"worker-2 2 4 0"});
  set(2, api::StepPart::kPeers);
  wait_for({});  // all wait
}

TEST_F(RendezvousTest, AMemberOfTheNextGenerationIsInNoStepBeforeItSaysSo) {
  options_.heartbeat_every = 10ms;
  StartLeader();
  auto replicas = AllReplicas();
  JoinAll(replicas);
  const auto deadline = std::chrono::steady_clock::now() + 20s;
  replicas[0]->rendezvous->SetActivity(api::Activity::kStep);
  while (Status().activity() != proto::ACTIVITY_STEP) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline);
  }
  replicas[1] = nullptr;
  replicas[1] = NewReplica(1);
  JoinAll(replicas);
  api::Progress progress;  // shows that a heartbeat of this generation has come
  progress.step = 7;
  replicas[0]->rendezvous->Report(progress);
  while (!Status().has_progress()) ASSERT_LT(std::chrono::steady_clock::now(), deadline);
  EXPECT_EQ(Status().generation(), 2u);
  EXPECT_EQ(Status().activity(), proto::ACTIVITY_UNKNOWN);
}

TEST_F(RendezvousTest, ASilentMemberIsLostThoughItsConnectionIsOpen) {
  roster_config_.dead_after = Slowed(300ms);
  options_.heartbeat_every = Slowed(50ms);
  StartLeader();
  auto replicas = AllReplicas();
  options_.heartbeat_every = 1h;  // hangs from the start
  replicas[1] = NewReplica(1);
  JoinAll(replicas);
  ASSERT_TRUE(replicas[0]->ended.Wait());
  EXPECT_THAT(replicas[0]->ended.what(), HasSubstr("lost worker 1: no heartbeat for "));
}

TEST_F(RendezvousTest, ATakenPortIsNamedWithTheReason) {
  StartLeader();
  const auto second = RendezvousService::Start(roster_config_, address_, clock_);
  EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(std::string(second.status().message()),
            fmt::format("cannot listen at {}: Address already in use", address_));
}

}  // namespace
}  // namespace lockstep::train
