// Tests with a leading pod that answers only callers that prove to know the job's token.
#include <fmt/format.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <utility>

#include "api/proto/trainer_status.grpc.pb.h"
#include "operator/progress/progress_poller.h"
#include "tests/support/eventually.h"
#include "tests/support/free_port.h"

namespace lockstep::progress {
namespace {

using testing::Eventually;

class GuardedTrainer final : public proto::TrainerStatus::Service {
 public:
  explicit GuardedTrainer(api::JobToken token, int port = 0, std::string nonce = "a nonce")
      : token_(std::move(token)), nonce_(std::move(nonce)) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort(fmt::format("127.0.0.1:{}", port), grpc::InsecureServerCredentials(),
                             &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  ~GuardedTrainer() override { server_->Shutdown(); }
  // What the last proof covered. Requires: no call is under way.
  const std::string& dialled() const { return dialled_; }
  void Stop() { server_->Shutdown(); }
  controller::ProgressTarget Target() const { return {"uid", "127.0.0.1", port_}; }
  bool WaitForRefusals(int count) const {
    return Eventually([this, count] { return refusals_ >= count; });
  }

  grpc::Status GetStatus(grpc::ServerContext*, const proto::GetStatusRequest* request,
                         proto::GetStatusResponse* response) override {
    response->set_nonce(nonce_);
    proto::GetStatusRequest content = *request;
    content.clear_proof();
    if (!token_.Accepts(api::kProofOfStatus, nonce_,
                        request->dialled().empty() ? "" : content.SerializeAsString(),
                        request->proof())) {
      if (!request->proof().empty()) ++refusals_;
      return grpc::Status::OK;
    }
    dialled_ = request->dialled();
    response->set_job_uid("uid");
    response->mutable_progress()->set_step(7);
    return grpc::Status::OK;
  }

 private:
  const api::JobToken token_;
  const std::string nonce_;
  std::string dialled_;
  std::atomic<int> refusals_{0};
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

PollerOptions Knowing(const api::JobToken& token) {
  return {.interval = std::chrono::milliseconds(10),
          .token_of = [token](const std::string&) { return token; }};
}

// Returns nullopt if no answer arrives within 20 s.
std::optional<api::Progress> Ask(ProgressPoller& poller, const GuardedTrainer& trainer) {
  std::optional<api::Progress> progress;
  Eventually([&] { return (progress = poller.Latest(trainer.Target())).has_value(); });
  return progress;
}

TEST(ProgressTokenTest, ALeadingPodThatAsksForProofGetsIt) {
  const api::JobToken token("0123456789abcdef");
  GuardedTrainer trainer(token);
  ProgressPoller poller(Knowing(token));
  const auto progress = Ask(poller, trainer);
  ASSERT_TRUE(progress.has_value());
  EXPECT_EQ(progress->step, 7);
}

// Who has the address of a leading pod that is gone cannot pass on the proof to its successor.
TEST(ProgressTokenTest, TheProofCoversTheAddressThatWasDialled) {
  const api::JobToken token("0123456789abcdef");
  for (const auto& [nonce, dialled] :
       {std::pair{"dialled 1 x", "127.0.0.1"}, {"1 x of an earlier version", ""}}) {
    GuardedTrainer trainer(token, 0, nonce);
    {
      ProgressPoller poller(Knowing(token));
      ASSERT_TRUE(Ask(poller, trainer).has_value()) << nonce;
    }
    trainer.Stop();
    EXPECT_EQ(trainer.dialled(), dialled);
  }
}

// A pod that does not know the token is not the leading pod, whatever it answers.
TEST(ProgressTokenTest, WhoRefusesTheProofGivesNoSignOfLife) {
  const api::JobToken token("0123456789abcdef");
  const int port = testing::FreePort();
  auto trainer = std::make_unique<GuardedTrainer>(token, port);
  ProgressPoller poller(Knowing(token));
  ASSERT_TRUE(Ask(poller, *trainer).has_value());
  ASSERT_TRUE(poller.State("uid").has_value());
  trainer.reset();
  const GuardedTrainer stranger(api::JobToken("another one's token"), port);
  EXPECT_TRUE(Eventually([&] { return poller.Group("uid").leader_is_silent; }));
  ASSERT_TRUE(stranger.WaitForRefusals(3));
  EXPECT_TRUE(poller.Group("uid").leader_is_silent);
  EXPECT_FALSE(poller.State("uid").has_value());
}

// Answers every question, and proves nothing or what it proves with some token.
class OpenTrainer final : public proto::TrainerStatus::Service {
 public:
  explicit OpenTrainer(std::optional<api::JobToken> proves_with, int port = 0)
      : proves_with_(std::move(proves_with)) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort(fmt::format("127.0.0.1:{}", port), grpc::InsecureServerCredentials(),
                             &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  ~OpenTrainer() override { server_->Shutdown(); }
  controller::ProgressTarget Target() const { return {"uid", "127.0.0.1", port_}; }
  int answers() const { return answers_; }

  grpc::Status GetStatus(grpc::ServerContext*, const proto::GetStatusRequest* request,
                         proto::GetStatusResponse* response) override {
    response->set_job_uid("uid");
    response->mutable_progress()->set_step(proves_with_ ? 7 : 8);
    if (proves_with_) {
      response->set_proof(proves_with_->Prove(api::kProofOfStatusAnswer, request->answer_nonce(),
                                              response->SerializeAsString()));
    }
    ++answers_;
    return grpc::Status::OK;
  }

 private:
  const std::optional<api::JobToken> proves_with_;
  std::atomic<int> answers_{0};
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

// A caller without the token is not believed, even if nothing else tells it from the pod.
TEST(ProgressTokenTest, OnceALeadingPodHasProvedItsAnswerNobodyElseIsBelieved) {
  const api::JobToken token("0123456789abcdef");
  ProgressPoller poller(Knowing(token));
  auto leader = std::make_unique<OpenTrainer>(token);
  const controller::ProgressTarget target = leader->Target();
  poller.Latest(target);
  ASSERT_TRUE(Eventually([&] { return poller.State("uid").has_value(); }));
  leader.reset();
  for (const auto& with : {std::optional<api::JobToken>(), std::optional(api::JobToken("other"))}) {
    const OpenTrainer stranger(with, target.port);
    EXPECT_TRUE(Eventually([&] { return stranger.answers() >= 3; }));
    EXPECT_FALSE(poller.State("uid").has_value());
    EXPECT_TRUE(poller.Group("uid").leader_is_silent);
  }
  EXPECT_EQ(poller.Latest(target)->step, 7);
}

// Between two attempts a job may have given its token up.
TEST(ProgressTokenTest, TheNextAttemptNeedNotProveWhatTheOneBeforeHasProved) {
  const api::JobToken token("0123456789abcdef");
  ProgressPoller poller(Knowing(token));
  auto leader = std::make_unique<OpenTrainer>(token);
  controller::ProgressTarget target = leader->Target();
  poller.Latest(target);
  ASSERT_TRUE(Eventually([&] { return poller.State("uid").has_value(); }));
  leader.reset();
  poller.Pause("uid");
  const OpenTrainer next(std::nullopt, target.port);
  ++target.attempt;
  EXPECT_TRUE(Eventually([&] { return poller.Latest(target)->step == 8; }));
}

// A trainer of an earlier version does not, nor one whose pods have no token.
TEST(ProgressTokenTest, ALeadingPodThatHasNeverProvedAnAnswerIsBelieved) {
  const OpenTrainer trainer(std::nullopt);
  ProgressPoller poller(Knowing(api::JobToken("0123456789abcdef")));
  EXPECT_TRUE(Eventually([&] { return poller.Latest(trainer.Target()).has_value(); }));
}

// A pod that has never sent a report may merely have a token that this operator does not know.
TEST(ProgressTokenTest, WhoHasRefusedEveryProofIsNotTakenForSilent) {
  GuardedTrainer trainer(api::JobToken("another key's token"));
  ProgressPoller poller(Knowing(api::JobToken("0123456789abcdef")));
  poller.Latest(trainer.Target());
  ASSERT_TRUE(trainer.WaitForRefusals(4));
  EXPECT_FALSE(poller.Group("uid").leader_is_silent);
  EXPECT_FALSE(poller.State("uid").has_value());
}

// An operator that has just started may not have its key yet.
TEST(ProgressTokenTest, ATokenThatIsKnownLaterIsUsedThen) {
  const api::JobToken token("0123456789abcdef");
  GuardedTrainer trainer(token);
  std::atomic<int> asked{0};
  ProgressPoller poller(
      {.interval = std::chrono::milliseconds(10),
       .token_of = [&](const std::string&) { return ++asked < 3 ? api::JobToken() : token; }});
  EXPECT_TRUE(Ask(poller, trainer).has_value());
  EXPECT_GE(asked, 3);
}

}  // namespace
}  // namespace lockstep::progress
