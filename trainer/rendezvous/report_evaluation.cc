#include "trainer/rendezvous/report_evaluation.h"

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <memory>

#include "api/proto/rendezvous.grpc.pb.h"
#include "base/hmac.h"
#include "trainer/rendezvous/grpc_options.h"
#include "trainer/rendezvous/service_name.h"

namespace lockstep::train {
namespace {

constexpr std::size_t kAnswerNonceBytes = 32;

// The address of a leading pod that is gone may be a stranger's by now.
bool IsOfLeader(const api::JobToken& token, const proto::EvaluationReport& report,
                const proto::EvaluationAnswer& answer) {
  proto::EvaluationAnswer content = answer;
  content.clear_proof();
  return token.Accepts(api::kProofOfEvaluationAnswer, report.answer_nonce(),
                       content.SerializeAsString(), answer.proof());
}

}  // namespace

absl::StatusOr<LeaderAnswer> ReportEvaluation(const Identity& identity, const std::string& address,
                                              const EvaluationResult& result, Duration timeout) {
  StartGrpc();
  const std::size_t colon = address.rfind(':');
  const auto stub = proto::Rendezvous::NewStub(grpc::CreateCustomChannel(
      AbsoluteServiceName(address.substr(0, colon)) + address.substr(colon),
      grpc::InsecureChannelCredentials(), ChannelOptions()));
  const auto deadline = std::chrono::system_clock::now() +
                        std::chrono::duration_cast<std::chrono::system_clock::duration>(timeout);
  proto::EvaluationReport report;
  report.set_job(identity.job);
  report.set_job_uid(identity.job_uid);
  report.set_step(result.step);
  report.set_misses_checkpoints(result.misses_checkpoints);
  report.set_test_set(result.test_set);
  report.set_voids_earlier(result.voids_earlier);
  if (result.step >= 0) {
    report.set_test_loss(result.loss);
    const bool is_accuracy = api::IsCrossentropy(identity.training.loss.type);
    is_accuracy ? report.set_test_accuracy(result.metric)
                : report.set_test_mean_absolute_error(result.metric);
  }
  if (identity.token.present()) report.set_answer_nonce(RandomBytes(kAnswerNonceBytes));
  for (const bool has_nonce : {false, true}) {
    grpc::ClientContext context;
    context.set_deadline(deadline);
    proto::EvaluationAnswer answer;
    if (const grpc::Status sent = stub->ReportEvaluation(&context, report, &answer); !sent.ok()) {
      return absl::UnavailableError(
          fmt::format("the leading pod at {}: {}", address, sent.error_message()));
    }
    if (answer.accepted()) {
      if (!IsOfLeader(identity.token, report, answer)) {
        return absl::PermissionDeniedError(fmt::format(
            "{} does not prove that it knows the token of job \"{}\"", address, identity.job));
      }
      if (!answer.has_last_checkpoint_step()) return LeaderAnswer{};
      return LeaderAnswer{answer.last_checkpoint_step()};
    }
    if (has_nonce || answer.nonce().empty() || !identity.token.present()) break;
    report.set_nonce(answer.nonce());
    report.set_proof(
        identity.token.Prove(api::kProofOfEvaluation, answer.nonce(), report.SerializeAsString()));
  }
  return absl::PermissionDeniedError(
      fmt::format("{} takes no evaluation of job \"{}\"", address, identity.job));
}

}  // namespace lockstep::train
