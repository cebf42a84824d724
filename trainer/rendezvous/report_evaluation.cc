#include "trainer/rendezvous/report_evaluation.h"

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <memory>

#include "api/proto/rendezvous.grpc.pb.h"
#include "base/hmac.h"
#include "base/status.h"
#include "trainer/rendezvous/gate/dialled_host.h"
#include "trainer/rendezvous/gate/grpc_options.h"
#include "trainer/rendezvous/progress_proto.h"
#include "trainer/rendezvous/service_name.h"

namespace lockstep::train {
namespace {

constexpr std::size_t kAnswerNonceBytes = 32;

proto::EvaluationReport ReportOf(const Identity& identity, const EvaluationResult& result) {
  proto::EvaluationReport report;
  report.set_job(identity.job);
  report.set_job_uid(identity.job_uid);
  report.set_step(result.step);
  report.set_misses_checkpoints(result.misses_checkpoints);
  report.set_test_set(result.test_set);
  report.set_voids_earlier(result.voids_earlier);
  if (result.step < 0) return report;
  report.set_test_loss(result.loss);
  const bool is_accuracy = api::IsCrossentropy(identity.training.loss.type);
  is_accuracy ? report.set_test_accuracy(result.metric)
              : report.set_test_mean_absolute_error(result.metric);
  AddTestMetrics(result.metrics, *report.mutable_test_metrics());
  return report;
}

// Calls of the process at an address, which is the leading pod's as far as anyone knows.
class Reporting {
 public:
  Reporting(const Identity& identity, const std::string& address, Duration timeout)
      : identity_(identity),
        address_(address),
        deadline_(std::chrono::system_clock::now() +
                  std::chrono::duration_cast<std::chrono::system_clock::duration>(timeout)) {
    const std::size_t colon = address.rfind(':');
    stub_ = proto::Rendezvous::NewStub(grpc::CreateCustomChannel(
        AbsoluteServiceName(address.substr(0, colon)) + address.substr(colon),
        grpc::InsecureChannelCredentials(), ChannelOptions()));
  }

  // Learns the nonce for the report. The address of a leading pod that is gone may be a stranger's
  // by now, who must not learn the numbers, nor pass on a report as its own.
  absl::Status Greet(proto::EvaluationReport& report) {
    proto::EvaluationReport greeting;
    greeting.set_answer_nonce(RandomBytes(kAnswerNonceBytes));
    proto::EvaluationAnswer answer;
    LOCKSTEP_RETURN_IF_ERROR(Call(greeting, answer));
    LOCKSTEP_RETURN_IF_ERROR(CheckIsOfLeader(greeting, answer));
    report.set_nonce(answer.nonce());
    report.set_answer_nonce(RandomBytes(kAnswerNonceBytes));
    report.set_dialled(dialled_);
    report.set_proof(
        identity_.token.Prove(api::kProofOfEvaluation, answer.nonce(), report.SerializeAsString()));
    return absl::OkStatus();
  }

  absl::StatusOr<LeaderAnswer> Send(const proto::EvaluationReport& report) {
    proto::EvaluationAnswer answer;
    LOCKSTEP_RETURN_IF_ERROR(Call(report, answer));
    if (!answer.accepted()) {
      return absl::PermissionDeniedError(
          fmt::format("{} takes no evaluation of job \"{}\"", address_, identity_.job));
    }
    LOCKSTEP_RETURN_IF_ERROR(CheckIsOfLeader(report, answer));
    if (!answer.has_last_checkpoint_step()) return LeaderAnswer{};
    return LeaderAnswer{answer.last_checkpoint_step()};
  }

 private:
  absl::Status Call(const proto::EvaluationReport& report, proto::EvaluationAnswer& answer) {
    grpc::ClientContext context;
    context.set_deadline(deadline_);
    const grpc::Status sent = stub_->ReportEvaluation(&context, report, &answer);
    if (!sent.ok()) {
      return absl::UnavailableError(
          fmt::format("the leading pod at {}: {}", address_, sent.error_message()));
    }
    dialled_ = HostOfPeer(context.peer());
    return absl::OkStatus();
  }

  absl::Status CheckIsOfLeader(const proto::EvaluationReport& report,
                               const proto::EvaluationAnswer& answer) const {
    proto::EvaluationAnswer content = answer;
    content.clear_proof();
    const bool is_proven =
        identity_.token.Accepts(api::kProofOfEvaluationAnswer, report.answer_nonce(),
                                content.SerializeAsString(), answer.proof());
    if (is_proven && IsMeant(dialled_, answer.address())) return absl::OkStatus();
    return absl::PermissionDeniedError(fmt::format(
        "{} does not prove that it knows the token of job \"{}\"{}", address_, identity_.job,
        is_proven ? fmt::format(": it has passed on the answer of {}", answer.address()) : ""));
  }

  const Identity& identity_;
  const std::string& address_;
  const std::chrono::system_clock::time_point deadline_;
  std::unique_ptr<proto::Rendezvous::Stub> stub_;
  std::string dialled_;  // by the last call
};

}  // namespace

absl::StatusOr<LeaderAnswer> ReportEvaluation(const Identity& identity, const std::string& address,
                                              const EvaluationResult& result, Duration timeout) {
  StartGrpc();
  Reporting reporting(identity, address, timeout);
  proto::EvaluationReport report = ReportOf(identity, result);
  if (identity.token.present()) LOCKSTEP_RETURN_IF_ERROR(reporting.Greet(report));
  return reporting.Send(report);
}

}  // namespace lockstep::train
