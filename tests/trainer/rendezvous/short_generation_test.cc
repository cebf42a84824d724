// Generations that end before a member has noticed that there was one.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>

#include "api/proto/rendezvous.grpc.pb.h"
#include "tests/trainer/identity/identities.h"
#include "trainer/rendezvous/rendezvous_client.h"

namespace lockstep::train {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t kLasting = 100;  // the first generation that does not end at once

using Stream = grpc::ServerReaderWriter<proto::CoordinatorMessage, proto::ReplicaMessage>;

// A leader of one member whose generations end in the same breath as they begin.
class HastyLeader final : public proto::Rendezvous::Service {
 public:
  enum class Ends { kTheGeneration, kTheStream };

  explicit HastyLeader(Ends ends) : ends_(ends) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  ~HastyLeader() override { server_->Shutdown(std::chrono::system_clock::now() + 1s); }

  int port() const { return port_; }

  grpc::Status Session(grpc::ServerContext*, Stream* stream) override {
    proto::ReplicaMessage incoming;
    while (stream->Read(&incoming)) {
      if (incoming.message_case() != proto::ReplicaMessage::kJoin) continue;
      EXPECT_EQ(incoming.join().last_generation(), generation_.load());
      const std::uint64_t generation = ++generation_;
      proto::CoordinatorMessage started, ended;
      started.mutable_membership()->set_generation(generation);
      started.mutable_membership()->add_members()->set_role("worker");
      stream->Write(started);
      if (generation >= kLasting) continue;
      if (ends_ == Ends::kTheStream) return grpc::Status::OK;
      ended.mutable_generation_ended()->set_generation(generation);
      ended.mutable_generation_ended()->set_reason("in haste");
      stream->Write(ended);
    }
    return grpc::Status::OK;
  }

 private:
  const Ends ends_;
  std::atomic<std::uint64_t> generation_{0};
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

class ShortGenerationTest : public ::testing::TestWithParam<HastyLeader::Ends> {};

TEST_P(ShortGenerationTest, WhoHasNotNoticedItAsksForTheNext) {
  HastyLeader leader(GetParam());
  Identity identity = lockstep::testing::Worker(0, {"a:1"});
  identity.rendezvous_address = "127.0.0.1:" + std::to_string(leader.port());
  const SystemClock clock;
  RendezvousClientOptions options;
  options.timeout = 20s;
  options.stop_requested = [] { return false; };
  const std::unique_ptr<Rendezvous> member = MakeRendezvousClient(identity, clock, options);
  for (std::uint64_t generation = 0; generation < kLasting;) {
    const absl::StatusOr<Membership> membership = member->Join(1, "fingerprint");
    ASSERT_TRUE(membership.ok()) << "after generation " << generation << ": "
                                 << membership.status();
    ASSERT_GT(membership->generation, generation);
    generation = membership->generation;
  }
}

INSTANTIATE_TEST_SUITE_P(Ends, ShortGenerationTest,
                         ::testing::Values(HastyLeader::Ends::kTheGeneration,
                                           HastyLeader::Ends::kTheStream));

}  // namespace
}  // namespace lockstep::train
