// The Evaluator's status over loopback, as the operator asks for it.
#include "trainer/rendezvous/evaluator_status.h"

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "api/proto/trainer_status.grpc.pb.h"
#include "tests/trainer/identity/identities.h"

namespace lockstep::train {
namespace {

class EvaluatorStatusTest : public ::testing::Test {
 protected:
  void Start(const std::string& token) {
    identity_ = lockstep::testing::Worker(0, {"a:1"});
    identity_.role = api::Role::kEvaluator;
    if (!token.empty()) identity_.token = api::JobToken(token);
    status_ = *EvaluatorStatus::Start(identity_, "127.0.0.1:0", clock_);
    stub_ = proto::TrainerStatus::NewStub(grpc::CreateChannel(
        fmt::format("127.0.0.1:{}", status_->port()), grpc::InsecureChannelCredentials()));
  }
  // Asks twice: the first answer has the nonce for the second question.
  proto::GetStatusResponse AskWith(const api::JobToken& token) {
    proto::GetStatusRequest request;
    proto::GetStatusResponse response;
    request.set_answer_nonce("a nonce of the operator");
    for (int i = 0; i < 2; ++i) {
      grpc::ClientContext context;
      EXPECT_TRUE(stub_->GetStatus(&context, request, &response).ok());
      request.set_nonce(response.nonce());
      request.set_proof(token.Prove(api::kProofOfStatus, response.nonce(), ""));
    }
    return response;
  }

  SystemClock clock_;
  Identity identity_;
  std::unique_ptr<EvaluatorStatus> status_;
  std::unique_ptr<proto::TrainerStatus::Stub> stub_;
};

TEST_F(EvaluatorStatusTest, TellsTheBatchesThatAreEvaluated) {
  Start("");
  proto::GetStatusResponse said = AskWith({});
  EXPECT_EQ(said.job_uid(), "mnist-uid");
  EXPECT_TRUE(said.has_evaluated_batches());
  EXPECT_EQ(said.evaluated_batches(), 0);
  EXPECT_FALSE(said.has_progress()) << "that is the leading pod's to tell";
  status_->Update(17);
  EXPECT_EQ(AskWith({}).evaluated_batches(), 17);
}

TEST_F(EvaluatorStatusTest, ProvesItsAnswerToACallerThatKnowsTheToken) {
  Start("a token of sixteen bytes or more");
  status_->Update(17);
  const proto::GetStatusResponse said = AskWith(identity_.token);
  EXPECT_EQ(said.evaluated_batches(), 17);
  proto::GetStatusResponse content = said;
  content.clear_proof();
  EXPECT_TRUE(identity_.token.Accepts(api::kProofOfStatusAnswer, "a nonce of the operator",
                                      content.SerializeAsString(), said.proof()));
}

TEST_F(EvaluatorStatusTest, TellsACallerWithoutTheTokenNothing) {
  Start("a token of sixteen bytes or more");
  for (const api::JobToken& token :
       {api::JobToken(), api::JobToken("another token of the same length")}) {
    proto::GetStatusResponse said = AskWith(token);
    EXPECT_FALSE(said.nonce().empty());
    said.clear_nonce();
    EXPECT_EQ(said.ByteSizeLong(), 0U);
  }
}

TEST_F(EvaluatorStatusTest, APortThatIsTakenIsNamed) {
  Start("");
  const std::string address = fmt::format("127.0.0.1:{}", status_->port());
  const absl::Status taken = EvaluatorStatus::Start(identity_, address, clock_).status();
  EXPECT_TRUE(absl::IsUnavailable(taken)) << taken;
  EXPECT_NE(taken.message().find(address), std::string::npos) << taken;
}

}  // namespace
}  // namespace lockstep::train
