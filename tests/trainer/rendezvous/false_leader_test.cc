// Others than the leader at the leader's address.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "api/proto/rendezvous.grpc.pb.h"
#include "tests/support/eventually.h"
#include "tests/support/ipv6.h"
#include "tests/support/time_limit.h"
#include "tests/trainer/identity/identities.h"
#include "trainer/rendezvous/identity_roster.h"
#include "trainer/rendezvous/rendezvous_client.h"
#include "trainer/rendezvous/rendezvous_service.h"

namespace lockstep::train {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

using Messages = std::vector<proto::CoordinatorMessage>;

// A stranger that does not know the token. Answers a stream and each Join with its lists.
class FalseLeader final : public proto::Rendezvous::Service {
 public:
  using Answer = std::function<Messages(const proto::Join&)>;

  FalseLeader(Messages welcome, Answer answer, int most_streams = 100,
              std::string host = "127.0.0.1")
      : welcome_(std::move(welcome)), answer_(std::move(answer)), host_(std::move(host)) {
    grpc::ServerBuilder builder;
    builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, most_streams);
    builder.AddListeningPort(host_ + ":0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  ~FalseLeader() override { server_->Shutdown(std::chrono::system_clock::now() + 1s); }
  void StopReading() { reads_ = false; }
  void Compress() { compresses_ = true; }

  std::string address() const { return host_ + ":" + std::to_string(port_); }
  int streams() const { return streams_; }
  int heartbeats() const { return heartbeats_; }

  grpc::Status Session(
      grpc::ServerContext* context,
      grpc::ServerReaderWriter<proto::CoordinatorMessage, proto::ReplicaMessage>* stream) override {
    ++streams_;
    if (compresses_) context->set_compression_algorithm(GRPC_COMPRESS_GZIP);
    for (const proto::CoordinatorMessage& message : welcome_) stream->Write(message);
    while (!reads_ && !context->IsCancelled()) std::this_thread::sleep_for(5ms);
    proto::ReplicaMessage incoming;
    while (stream->Read(&incoming)) {
      if (incoming.has_heartbeat()) ++heartbeats_;
      if (!incoming.has_join()) continue;
      const std::lock_guard lock(mutex_);
      for (const auto& message : answer_(incoming.join())) stream->Write(message);
    }
    return grpc::Status::OK;
  }

 private:
  const Messages welcome_;
  std::mutex mutex_;
  const Answer answer_;  // guarded by mutex_
  const std::string host_;
  std::atomic<bool> reads_{true}, compresses_{false};
  std::atomic<int> streams_{0}, heartbeats_{0};
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

proto::CoordinatorMessage ChallengeOf(const std::string& nonce) {
  proto::CoordinatorMessage message;
  message.mutable_challenge()->set_session(1);
  message.mutable_challenge()->set_nonce(nonce);
  return message;
}

proto::CoordinatorMessage Proof(const std::string& proof) {
  proto::CoordinatorMessage message;
  message.mutable_leader_proof()->set_proof(proof);
  return message;
}

proto::CoordinatorMessage Released() {
  proto::CoordinatorMessage message;
  message.mutable_released()->set_generation(1);
  return message;
}

proto::CoordinatorMessage Rejected() {
  proto::CoordinatorMessage message;
  message.mutable_rejected()->set_reason("go away");
  return message;
}

proto::CoordinatorMessage GroupOfOne() {
  proto::CoordinatorMessage message;
  message.mutable_membership()->set_generation(1);
  message.mutable_membership()->add_members()->set_role("worker");
  return message;
}

class FalseLeaderTest : public ::testing::Test {
 protected:
  FalseLeaderTest() {
    identity_.token = kToken;
    options_.timeout = lockstep::testing::Slowed(500ms);
    options_.heartbeat_every = 10ms;  // many would come, if they did
    options_.stop_requested = [this] { return stop_.load(); };
  }
  absl::StatusOr<Membership> Join(const std::string& address) {
    identity_.rendezvous_address = address;
    member_ = MakeRendezvousClient(identity_, clock_, options_);
    return member_->Join(7, fingerprint_);
  }
  // Expects that the member takes nothing from this stranger, and asks again.
  void ExpectDisbelief(Messages welcome, FalseLeader::Answer answer,
                       const std::string& why = "it does not prove that it knows the job's token") {
    FalseLeader stranger(std::move(welcome), std::move(answer));
    absl::Status joined;
    // A slow machine may not connect twice within one join.
    const bool is_disbelieved = lockstep::testing::Eventually([&] {
      joined = Join(stranger.address()).status();
      return !absl::IsDeadlineExceeded(joined) ||
             (stranger.streams() > 1 && joined.message().find(why) != std::string_view::npos);
    });
    EXPECT_TRUE(is_disbelieved) << joined << ", expected: " << why;
    EXPECT_TRUE(absl::IsDeadlineExceeded(joined)) << joined;
    EXPECT_EQ(stranger.heartbeats(), 0);
    member_ = nullptr;
  }

  static inline const api::JobToken kToken{"a token of sixteen bytes or more"};
  static inline const api::JobToken kOther{"another token of the same length"};

  SystemClock clock_;
  std::atomic<bool> stop_{false};
  Identity identity_ = lockstep::testing::Worker(0, {"a:1"});
  RendezvousClientOptions options_;
  std::string fingerprint_ = "fingerprint";
  std::unique_ptr<Rendezvous> member_;
};

TEST_F(FalseLeaderTest, NothingIsBelievedBeforeTheProof) {
  for (const auto& said : {Released(), Rejected(), GroupOfOne()}) {
    ExpectDisbelief({ChallengeOf("nonce")}, [&](const proto::Join&) { return Messages{said}; });
    ExpectDisbelief({said}, [&](const proto::Join&) { return Messages{}; });
  }
}

TEST_F(FalseLeaderTest, NothingThatItSendsIsDecompressed) {
  std::atomic<bool> is_read{false};
  FalseLeader stranger({ChallengeOf(std::string(1 << 20, '0'))}, [&](const proto::Join&) {
    is_read = true;
    return Messages{};
  });
  stranger.Compress();  // to a kilobyte
  EXPECT_TRUE(lockstep::testing::Eventually([&] {
    EXPECT_EQ(Join(stranger.address()).status().code(), absl::StatusCode::kDeadlineExceeded);
    return stranger.streams() > 0;
  }));
  EXPECT_FALSE(is_read) << "the challenge is answered";
  member_ = nullptr;
}

TEST_F(FalseLeaderTest, AnotherTokensProofIsNone) {
  ExpectDisbelief({ChallengeOf("nonce")}, [&](const proto::Join& join) {
    return Messages{Proof(kOther.Prove(api::kProofOfLeader, join.nonce(), join.proof())),
                    Released()};
  });
}

TEST_F(FalseLeaderTest, AMembersOwnProofIsNoProofOfTheLeader) {
  ExpectDisbelief({ChallengeOf("nonce")}, [&](const proto::Join& join) {
    return Messages{Proof(join.proof()), Released()};
  });
}

TEST_F(FalseLeaderTest, AnEarlierConnectionsProofIsNone) {
  options_.proof_patience = lockstep::testing::Slowed(100ms);
  std::string first;
  ExpectDisbelief({ChallengeOf("nonce")}, [&](const proto::Join& join) {
    const std::string proof = kToken.Prove(api::kProofOfLeader, join.nonce(), join.proof());
    if (first.empty()) {
      first = proof;
      return Messages{};
    }
    return Messages{Proof(first), Released()};
  });
}

// The address of a leader that is gone, with its successor elsewhere.
TEST_F(FalseLeaderTest, AJoinThatItPassesOnToTheLeaderIsRefused) {
  for (const char* host : {"127.0.0.1", "[::1]"}) {
    if (*host == '[' && !lockstep::testing::HasIpv6()) continue;
    SCOPED_TRACE(host);
    const auto leader = *RendezvousService::Start(RosterFor(identity_), "127.0.0.2:0", clock_);
    const auto stub = proto::Rendezvous::NewStub(grpc::CreateChannel(
        "127.0.0.2:" + std::to_string(leader->port()), grpc::InsecureChannelCredentials()));
    grpc::ClientContext context;
    const auto session = stub->Session(&context);
    proto::CoordinatorMessage challenge;
    ASSERT_TRUE(session->Read(&challenge));
    std::atomic<bool> is_taken{false};
    {
      const auto pass_on = [&](const proto::Join& join) {
        proto::ReplicaMessage passed_on;
        *passed_on.mutable_join() = join;
        proto::CoordinatorMessage answer;
        if (!session->Write(passed_on) || !session->Read(&answer)) return Messages{};
        is_taken = true;
        return Messages{answer};
      };
      FalseLeader stranger({challenge}, pass_on, 100, host);
      EXPECT_TRUE(lockstep::testing::Eventually([&] {
        EXPECT_FALSE(Join(stranger.address()).ok());
        return leader->refusals() > 0;
      }));
      member_ = nullptr;
    }
    EXPECT_FALSE(is_taken);
    context.TryCancel();
    session->Finish();
  }
}

TEST_F(FalseLeaderTest, OneThatStaysSilentIsLeft) {
  options_.proof_patience = lockstep::testing::Slowed(100ms);
  ExpectDisbelief({}, [](const proto::Join&) { return Messages{}; }, "it has not answered within");
  ExpectDisbelief({ChallengeOf("nonce")}, [](const proto::Join&) { return Messages{}; });
}

// Whoever gives a member no room to write may as well answer all that gRPC itself asks.
class BlockingLeaderTest : public FalseLeaderTest {
 protected:
  void ExpectToBeLeft(std::unique_ptr<FalseLeader> stranger) {
    options_.proof_patience = lockstep::testing::Slowed(100ms);
    const std::string address = stranger->address();
    auto join = std::async(std::launch::async, [&] { return Join(address); });
    EXPECT_EQ(join.wait_for(options_.timeout + lockstep::testing::Slowed(60s)),
              std::future_status::ready);
    if (::testing::Test::HasFailure()) stranger = nullptr;  // so that the thread ends
    EXPECT_EQ(join.get().status().code(), absl::StatusCode::kDeadlineExceeded);
    stop_ = true;
    EXPECT_EQ(Join(address).status().code(), absl::StatusCode::kCancelled);
    member_ = nullptr;
  }
};

TEST_F(BlockingLeaderTest, OneThatReadsNothingIsLeft) {
  auto stranger = std::make_unique<FalseLeader>(Messages{ChallengeOf("nonce")},
                                                [](const proto::Join&) { return Messages{}; });
  stranger->StopReading();
  fingerprint_ = std::string(32 << 20, 'x');  // more than is sent ahead
  ExpectToBeLeft(std::move(stranger));
}

TEST_F(BlockingLeaderTest, OneThatOpensNoStreamIsLeft) {
  ExpectToBeLeft(std::make_unique<FalseLeader>(
      Messages{}, [](const proto::Join&) { return Messages{}; }, /*most_streams=*/0));
}

TEST_F(FalseLeaderTest, TheLeaderIsFoundOnceTheStrangerIsGone) {
  options_.timeout = 20s;
  auto stranger = std::make_unique<FalseLeader>(
      Messages{ChallengeOf("nonce")}, [](const proto::Join&) { return Messages{Released()}; });
  const std::string address = stranger->address();
  auto join = std::async(std::launch::async, [&] { return Join(address); });
  EXPECT_EQ(join.wait_for(200ms), std::future_status::timeout);
  stranger = nullptr;
  RosterConfig config = RosterFor(identity_);
  const auto leader = RendezvousService::Start(std::move(config), address, clock_);
  ASSERT_TRUE(leader.ok()) << leader.status();
  const auto membership = join.get();
  ASSERT_TRUE(membership.ok()) << membership.status();
  EXPECT_EQ(membership->world(), 1);
  EXPECT_TRUE(member_->Finish().ok());
}

}  // namespace
}  // namespace lockstep::train
