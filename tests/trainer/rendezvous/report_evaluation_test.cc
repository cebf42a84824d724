// The report against the real service, over loopback.
#include "trainer/rendezvous/report_evaluation.h"

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "api/proto/rendezvous.grpc.pb.h"
#include "api/proto/trainer_status.grpc.pb.h"
#include "tests/support/time_limit.h"
#include "tests/trainer/identity/identities.h"
#include "trainer/rendezvous/identity_roster.h"
#include "trainer/rendezvous/progress_proto.h"
#include "trainer/rendezvous/rendezvous_client.h"
#include "trainer/rendezvous/rendezvous_service.h"

namespace lockstep::train {
namespace {

using namespace std::chrono_literals;
using lockstep::testing::TimeLimit;

// The leader of a group of one, whose only member has reported progress.
class ReportEvaluationTest : public ::testing::TestWithParam<std::string> {
 protected:
  ReportEvaluationTest() {
    identity_ = lockstep::testing::Worker(0, {"a:1"});
    if (!GetParam().empty()) identity_.token = api::JobToken(GetParam());
    service_ = *RendezvousService::Start(RosterFor(identity_), "127.0.0.1:0", clock_);
    address_ = fmt::format("127.0.0.1:{}", service_->port());
    identity_.rendezvous_address = address_;
    status_ = proto::TrainerStatus::NewStub(
        grpc::CreateChannel(address_, grpc::InsecureChannelCredentials()));
    RendezvousClientOptions options;
    options.heartbeat_every = 10ms;
    options.stop_requested = [] { return false; };
    member_ = MakeRendezvousClient(identity_, clock_, options);
  }

  proto::GetStatusResponse Ask() {
    proto::GetStatusRequest request;
    proto::GetStatusResponse response;
    for (int i = 0; i < 2; ++i) {  // the first answer has the nonce for the second question
      grpc::ClientContext context;
      EXPECT_TRUE(status_->GetStatus(&context, request, &response).ok());
      request.set_nonce(response.nonce());
      request.set_proof(identity_.token.Prove(api::kProofOfStatus, response.nonce(), ""));
    }
    return response;
  }
  // What the leading pod tells the operator, once it has progress to tell.
  proto::TrainerProgress Progress() {
    EXPECT_TRUE(member_->Join(0, "layout").ok());
    member_->Report({.step = 7, .total_steps = 100, .loss = 2.5});
    const SteadyTime end = clock_.SteadyNow() + TimeLimit(20s);
    proto::GetStatusResponse said = Ask();
    while (!said.has_progress() && clock_.SteadyNow() < end) said = Ask();
    EXPECT_EQ(said.progress().step(), 7);
    return said.progress();
  }
  absl::StatusOr<LeaderAnswer> Report(const Identity& from, const EvaluationResult& result) {
    return ReportEvaluation(from, address_, result, TimeLimit(20s));
  }

  SystemClock clock_;
  Identity identity_;
  std::unique_ptr<RendezvousService> service_;
  std::string address_;
  std::unique_ptr<proto::TrainerStatus::Stub> status_;
  std::unique_ptr<Rendezvous> member_;
};

INSTANTIATE_TEST_SUITE_P(Tokens, ReportEvaluationTest,
                         ::testing::Values("", "a token of sixteen bytes or more"),
                         [](const auto& test) { return test.param.empty() ? "Without" : "With"; });

TEST_P(ReportEvaluationTest, TheStatusTellsTheLastResult) {
  for (const double loss : {0.5, 0.25}) {
    const auto sent = Report(identity_, {.step = 5, .loss = loss, .metric = 1 - loss}).status();
    ASSERT_TRUE(sent.ok()) << sent;
  }
  const proto::TrainerProgress progress = Progress();
  EXPECT_EQ(progress.test_loss(), 0.25);
  EXPECT_EQ(progress.test_accuracy(), 0.75);
  EXPECT_EQ(progress.loss(), 2.5) << "training's own numbers stay";
  EXPECT_EQ(service_->refusals(), 0);
}

// Left out, it would leave the numbers of the evaluation before.
TEST_P(ReportEvaluationTest, ALossThatIsNotANumberIsTold) {
  ASSERT_TRUE(Report(identity_, {.step = 5, .loss = std::nan(""), .metric = 0.5}).ok());
  const proto::TrainerProgress progress = Progress();
  EXPECT_TRUE(std::isnan(progress.test_loss()));
  EXPECT_EQ(progress.test_accuracy(), 0.5);
}

TEST_P(ReportEvaluationTest, AnEarlierStepDoesNotReplaceALaterOne) {
  ASSERT_TRUE(Report(identity_, {.step = 10, .loss = 0.5, .metric = 0.75}).ok());
  const auto earlier = Report(identity_, {.step = 5, .loss = 2, .metric = 0.25});
  EXPECT_TRUE(earlier.ok()) << "it need not be repeated: " << earlier.status();
  EXPECT_EQ(Progress().test_accuracy(), 0.75);
}

TEST_P(ReportEvaluationTest, NumbersOfAnotherTestSetAreVoid) {
  const EvaluationResult before{.step = 10, .loss = 0.5, .metric = 0.75, .test_set = "before"};
  ASSERT_TRUE(Report(identity_, before).ok());
  ASSERT_TRUE(Report(identity_, {.test_set = "before"}).ok());
  EXPECT_EQ(Progress().test_accuracy(), 0.75) << "of the same test set";
  ASSERT_TRUE(Report(identity_, {.test_set = "now"}).ok());
  EXPECT_TRUE(std::isnan(Ask().progress().test_loss()));
  EXPECT_FALSE(Ask().progress().has_test_accuracy());
  ASSERT_TRUE(Report(identity_, {.step = 5, .loss = 2, .metric = 0.25, .test_set = "now"}).ok());
  EXPECT_EQ(Ask().progress().test_accuracy(), 0.25) << "though the step is an earlier one";
}

// The leading pod may have been replaced since, and the job's status still has those numbers.
TEST_P(ReportEvaluationTest, ANewLeadingPodVoidsNumbersOfAnotherTestSetToo) {
  ASSERT_TRUE(Report(identity_, {.test_set = "now"}).ok());
  EXPECT_FALSE(Progress().has_test_loss()) << "of the same test set";
  ASSERT_TRUE(Report(identity_, {.test_set = "now", .voids_earlier = true}).ok());
  EXPECT_TRUE(std::isnan(Ask().progress().test_loss()));
  ASSERT_TRUE(Report(identity_, {.step = 5, .loss = 2, .metric = 0.25, .test_set = "now"}).ok());
  ASSERT_TRUE(Report(identity_, {.test_set = "now", .voids_earlier = true}).ok());
  EXPECT_EQ(Ask().progress().test_accuracy(), 0.25) << "it is of this test set";
}

TEST_P(ReportEvaluationTest, TheAnswerTellsWhatTheLeadingPodHasSaved) {
  EXPECT_FALSE(Ask().has_evaluator_misses_checkpoints())
      << "it may have been told before it started";
  EXPECT_EQ(Report(identity_, {})->checkpoint_step, -1) << "nothing is known yet";
  EXPECT_TRUE(member_->Join(0, "layout").ok());
  member_->Report({.step = 7, .total_steps = 100, .last_checkpoint_step = 6});
  const SteadyTime end = clock_.SteadyNow() + TimeLimit(20s);
  while (!Ask().has_progress() && clock_.SteadyNow() < end) continue;
  EXPECT_EQ(Report(identity_, {})->checkpoint_step, 6);
  const proto::TrainerProgress progress = Ask().progress();
  EXPECT_TRUE(Ask().has_evaluator_misses_checkpoints());
  EXPECT_FALSE(Ask().evaluator_misses_checkpoints());
  ASSERT_TRUE(Report(identity_, {.misses_checkpoints = true}).ok());
  EXPECT_TRUE(Ask().evaluator_misses_checkpoints());
  EXPECT_FALSE(progress.has_test_loss()) << "who has no result asks only";
  EXPECT_FALSE(progress.has_test_accuracy());
}

TEST_P(ReportEvaluationTest, TheMetricOfARegressionIsItsError) {
  identity_.training.loss.type = api::LossType::kMeanSquaredError;
  ASSERT_TRUE(Report(identity_, {.step = 5, .loss = 0.5, .metric = 0.25}).ok());
  const proto::TrainerProgress progress = Progress();
  EXPECT_EQ(progress.test_mean_absolute_error(), 0.25);
  EXPECT_FALSE(progress.has_test_accuracy());
}

TEST_P(ReportEvaluationTest, NamedMetricsAreTold) {
  using enum api::TestMetric;
  const api::TestMetrics metrics = {{kAuc, 0.75}, {kPrecision, 0.5}, {kRecall, 0.25}};
  ASSERT_TRUE(Report(identity_, {.step = 5, .metrics = metrics}).ok());
  EXPECT_EQ(FromProto(Progress()).test_metrics, metrics);
}

TEST_P(ReportEvaluationTest, AnotherJobsEvaluatorIsRefused) {
  Identity other = identity_;
  other.job_uid = "another";
  EXPECT_TRUE(absl::IsPermissionDenied(Report(other, {.step = 5, .metric = 0.5}).status()));
  EXPECT_FALSE(Progress().has_test_accuracy());
}

TEST_P(ReportEvaluationTest, ACallerWithoutTheTokenIsRefused) {
  if (!identity_.token.present()) return;  // then anyone who knows the job's uid may report
  for (const api::JobToken& token :
       {api::JobToken("another token of the same length"), api::JobToken()}) {
    Identity stranger = identity_;
    stranger.token = token;
    EXPECT_TRUE(absl::IsPermissionDenied(Report(stranger, {.step = 5, .metric = 0.5}).status()));
  }
  EXPECT_EQ(service_->refusals(), 0) << "who does not prove itself gets no report to refuse";
  const auto stub =
      proto::Rendezvous::NewStub(grpc::CreateChannel(address_, grpc::InsecureChannelCredentials()));
  proto::EvaluationReport forged;
  proto::EvaluationAnswer answer;
  for (int i = 0; i < 2; ++i) {
    grpc::ClientContext context;
    EXPECT_TRUE(stub->ReportEvaluation(&context, forged, &answer).ok());
    EXPECT_FALSE(answer.accepted());
    forged.set_job(identity_.job);
    forged.set_job_uid(identity_.job_uid);
    forged.set_test_accuracy(0.5);
    forged.set_nonce(answer.nonce());
    forged.set_proof(
        api::JobToken("another token of the same length")
            .Prove(api::kProofOfEvaluation, answer.nonce(), forged.SerializeAsString()));
  }
  EXPECT_EQ(service_->refusals(), 1) << "who asks only for a nonce is not counted";
  EXPECT_FALSE(Progress().has_test_accuracy());
}

// Takes every report as `answer` says.
class FalseTaker final : public proto::Rendezvous::Service {
 public:
  using Answer = std::function<void(const proto::EvaluationReport&, proto::EvaluationAnswer&)>;
  explicit FalseTaker(Answer answer) : answer_(std::move(answer)) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  std::string address() const { return fmt::format("127.0.0.1:{}", port_); }

  grpc::Status ReportEvaluation(grpc::ServerContext*, const proto::EvaluationReport* report,
                                proto::EvaluationAnswer* answer) override {
    told_numbers_ = told_numbers_ || report->has_test_loss() || report->step() != 0;
    answer_(*report, *answer);
    return grpc::Status::OK;
  }
  bool told_numbers() const { return told_numbers_; }

 private:
  const Answer answer_;
  std::atomic<bool> told_numbers_{false};
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

// Says of each report that the last checkpoint is that of step 7.
FalseTaker::Answer AcceptBy(const api::JobToken& token) {
  return [token](const proto::EvaluationReport& report, proto::EvaluationAnswer& answer) {
    answer.set_accepted(true);
    answer.set_last_checkpoint_step(7);
    answer.set_proof(token.Prove(api::kProofOfEvaluationAnswer, report.answer_nonce(),
                                 answer.SerializeAsString()));
  };
}

TEST_P(ReportEvaluationTest, AnAnswerIsBelievedOnlyWithTheTokensProof) {
  if (!identity_.token.present()) return;  // then anyone at the address is believed
  const auto ask = [&](const FalseTaker& taker) {
    return ReportEvaluation(identity_, taker.address(), {.step = 5}, TimeLimit(20s)).status();
  };
  for (const api::JobToken& token :
       {api::JobToken("another token of the same length"), api::JobToken()}) {
    const FalseTaker taker(AcceptBy(token));
    const absl::Status denied = ask(taker);
    EXPECT_TRUE(absl::IsPermissionDenied(denied)) << denied;
    EXPECT_FALSE(taker.told_numbers());
  }
  const FalseTaker honest(AcceptBy(identity_.token));
  EXPECT_TRUE(ask(honest).ok());
  EXPECT_TRUE(honest.told_numbers());
  std::string first_proof;
  const FalseTaker repeats(
      [&](const proto::EvaluationReport& report, proto::EvaluationAnswer& answer) {
        AcceptBy(identity_.token)(report, answer);
        if (first_proof.empty()) first_proof = answer.proof();
        answer.set_proof(first_proof);
      });
  EXPECT_TRUE(absl::IsPermissionDenied(ask(repeats))) << "an earlier answer's proof is none";
}

// It has the address of a leader that is gone, with its successor elsewhere.
TEST_P(ReportEvaluationTest, WhoPassesOnReportsAndAnswersGetsNoNumbersAndNoPlace) {
  if (!identity_.token.present()) return;
  const auto leader = *RendezvousService::Start(RosterFor(identity_), "127.0.0.2:0", clock_);
  const auto stub = proto::Rendezvous::NewStub(grpc::CreateChannel(
      fmt::format("127.0.0.2:{}", leader->port()), grpc::InsecureChannelCredentials()));
  const auto pass_on = [&](const proto::EvaluationReport& report, proto::EvaluationAnswer& answer) {
    grpc::ClientContext context;
    EXPECT_TRUE(stub->ReportEvaluation(&context, report, &answer).ok());
  };
  const FalseTaker relay(pass_on);
  const absl::Status denied =
      ReportEvaluation(identity_, relay.address(), {.step = 5}, TimeLimit(20s)).status();
  EXPECT_TRUE(absl::IsPermissionDenied(denied)) << denied;
  EXPECT_NE(denied.message().find("it has passed on the answer of 127.0.0.2:"), std::string::npos)
      << denied;
  EXPECT_FALSE(relay.told_numbers());
  // If the Evaluator took the stranger for the leader all the same.
  const FalseTaker liar(
      [&](const proto::EvaluationReport& report, proto::EvaluationAnswer& answer) {
        pass_on(report, answer);
        if (!report.proof().empty()) return;
        answer.clear_address();
        answer.clear_proof();
        answer.set_proof(identity_.token.Prove(api::kProofOfEvaluationAnswer, report.answer_nonce(),
                                               answer.SerializeAsString()));
      });
  EXPECT_TRUE(absl::IsPermissionDenied(
      ReportEvaluation(identity_, liar.address(), {.step = 5}, TimeLimit(20s)).status()));
  EXPECT_TRUE(liar.told_numbers());
  EXPECT_EQ(leader->refusals(), 1);
}

TEST_P(ReportEvaluationTest, ALeaderThatIsNotThereIsNamed) {
  service_.reset();
  const absl::Status status = Report(identity_, {.step = 5}).status();
  EXPECT_TRUE(absl::IsUnavailable(status));
  EXPECT_NE(status.message().find(address_), std::string::npos) << status;
}

}  // namespace
}  // namespace lockstep::train
