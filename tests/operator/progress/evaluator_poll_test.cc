// The poller with an Evaluator's pod, which is asked whether it works.
#include <fmt/format.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>

#include "api/proto/trainer_status.grpc.pb.h"
#include "operator/progress/progress_poller.h"
#include "tests/support/eventually.h"

namespace lockstep::progress {
namespace {

using testing::Eventually;

// Answers as a leading pod at step 7 that has an Evaluator's number too, or as an Evaluator.
class FakePod final : public proto::TrainerStatus::Service {
 public:
  explicit FakePod(bool is_evaluator, std::int64_t batches = 0)
      : is_evaluator_(is_evaluator), batches_(batches) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  ~FakePod() override { server_->Shutdown(); }
  controller::ProgressTarget Target() const {
    return {.job_uid = "uid", .host = "127.0.0.1", .port = port_, .is_evaluator = is_evaluator_};
  }
  void SetBatches(std::int64_t batches) { batches_ = batches; }
  // Waits until the poller has what was set before the call: the answer before the last is read.
  bool IsRead() {
    const int asked = asked_;
    return Eventually([this, asked] { return asked_ >= asked + 3; });
  }

  grpc::Status GetStatus(grpc::ServerContext*, const proto::GetStatusRequest*,
                         proto::GetStatusResponse* response) override {
    response->set_job_uid("uid");
    response->set_evaluated_batches(batches_);
    if (!is_evaluator_) response->mutable_progress()->set_step(7);
    ++asked_;
    return grpc::Status::OK;
  }

 private:
  const bool is_evaluator_;
  std::atomic<std::int64_t> batches_;
  std::atomic<int> asked_{0};
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

class EvaluatorPollTest : public ::testing::Test {
 protected:
  std::optional<Duration> Since() { return poller_.Group("uid").since_evaluation; }
  // Waits until it has told of new batches since `begin`. True for ever then, however late one
  // looks.
  bool HasToldSince(SteadyTime begin) {
    return Eventually([this, begin] {
      const Duration so_far = std::chrono::steady_clock::now() - begin;  // before it is asked
      return *Since() < so_far;
    });
  }

  ProgressPoller poller_{{.interval = std::chrono::milliseconds(10)}};
};

TEST_F(EvaluatorPollTest, TheTimeSinceItLastToldOfNewBatchesIsKnown) {
  FakePod evaluator(/*is_evaluator=*/true);
  poller_.Latest(evaluator.Target());
  ASSERT_TRUE(evaluator.IsRead());
  EXPECT_FALSE(Since().has_value()) << "it has begun nothing";
  evaluator.SetBatches(5);
  ASSERT_TRUE(Eventually([this] { return Since().has_value(); }));
  const Duration first = *Since();
  ASSERT_TRUE(evaluator.IsRead());
  EXPECT_GT(*Since(), first) << "the same batches again";
  const SteadyTime begin = std::chrono::steady_clock::now();
  evaluator.SetBatches(6);
  EXPECT_TRUE(HasToldSince(begin));
}

// The process was started again within its pod.
TEST_F(EvaluatorPollTest, FewerBatchesAreNewOnesToo) {
  FakePod evaluator(true, 50);
  poller_.Latest(evaluator.Target());
  ASSERT_TRUE(Eventually([this] { return Since().has_value(); }));
  evaluator.SetBatches(0);
  ASSERT_TRUE(evaluator.IsRead());
  const SteadyTime begin = std::chrono::steady_clock::now();
  evaluator.SetBatches(3);
  EXPECT_TRUE(HasToldSince(begin));
}

TEST_F(EvaluatorPollTest, TheLeadingPodsReportStaysAndItIsNotTakenForSilent) {
  FakePod evaluator(true, 5);
  {
    FakePod leader(/*is_evaluator=*/false, 9);
    ASSERT_TRUE(Eventually([&] { return poller_.Latest(leader.Target()).has_value(); }));
    EXPECT_FALSE(Since().has_value()) << "a leading pod evaluates nothing";
  }
  EXPECT_EQ(poller_.Latest(evaluator.Target())->step, 7);
  ASSERT_TRUE(Eventually([this] { return Since().has_value(); }));
  EXPECT_EQ(poller_.Latest(evaluator.Target())->step, 7);
  const controller::GroupReport report = poller_.Group("uid");
  EXPECT_EQ(report, (controller::GroupReport{.since_evaluation = report.since_evaluation,
                                             .resizes = false}));
  EXPECT_FALSE(poller_.State("uid").has_value());
}

TEST_F(EvaluatorPollTest, ItsSuccessorsTimeCountsFromItsOwnLastSign) {
  auto evaluator = std::make_unique<FakePod>(true, 5);
  poller_.Latest(evaluator->Target());
  ASSERT_TRUE(Eventually([this] { return Since().has_value(); }));
  evaluator.reset();
  poller_.Pause("uid");
  const std::optional<Duration> paused = Since();
  ASSERT_TRUE(paused.has_value());
  FakePod successor(true);
  poller_.Latest(successor.Target());
  ASSERT_TRUE(successor.IsRead());
  EXPECT_GT(Since(), paused);
  poller_.Forget("uid");
  EXPECT_FALSE(Since().has_value());
}

}  // namespace
}  // namespace lockstep::progress
