// A leading pod that answers only who proves to know the job's token.
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <optional>
#include <thread>

#include "api/proto/trainer_status.grpc.pb.h"
#include "operator/progress/progress_poller.h"

namespace lockstep::progress {
namespace {

class GuardedTrainer final : public proto::TrainerStatus::Service {
 public:
  explicit GuardedTrainer(api::JobToken token) : token_(std::move(token)) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  ~GuardedTrainer() override { server_->Shutdown(); }
  controller::ProgressTarget Target() const { return {"uid", "127.0.0.1", port_}; }

  grpc::Status GetStatus(grpc::ServerContext*, const proto::GetStatusRequest* request,
                         proto::GetStatusResponse* response) override {
    response->set_nonce("a nonce");
    if (!token_.Accepts(api::kProofOfStatus, "a nonce", "", request->proof())) {
      return grpc::Status::OK;
    }
    response->set_job_uid("uid");
    response->mutable_progress()->set_step(7);
    return grpc::Status::OK;
  }

 private:
  const api::JobToken token_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

PollerOptions Knowing(const api::JobToken& token) {
  return {.interval = std::chrono::milliseconds(10),
          .token_of = [token](const std::string&) { return token; }};
}

// Nothing within 20 s is no answer.
std::optional<api::Progress> Ask(ProgressPoller& poller, const GuardedTrainer& trainer) {
  std::optional<api::Progress> progress;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!progress && std::chrono::steady_clock::now() < deadline) {
    progress = poller.Latest(trainer.Target());
    std::this_thread::yield();
  }
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
