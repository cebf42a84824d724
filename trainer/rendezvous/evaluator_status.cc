#include "trainer/rendezvous/evaluator_status.h"

#include <grpcpp/grpcpp.h>

#include <mutex>

#include "api/proto/trainer_status.grpc.pb.h"
#include "trainer/rendezvous/gate/caller_check.h"
#include "trainer/rendezvous/gate/gated_server.h"

namespace lockstep::train {
namespace {

class GrpcEvaluatorStatus final : public EvaluatorStatus,
                                  private proto::TrainerStatus::CallbackService {
 public:
  GrpcEvaluatorStatus(const Identity& identity, const std::string& address, const Clock& clock)
      : job_(identity.job),
        job_uid_(identity.job_uid),
        clock_(clock),
        callers_(identity.token, address, clock) {}

  // Nobody joins an Evaluator, so its gate has places only for strangers, as the operator is one
  // until it has given its proof.
  absl::Status Listen(const std::string& address) {
    return server_.Start(address, /*members=*/0, clock_, {this});
  }

  int port() const override { return server_.port(); }

  void Update(std::int64_t evaluated_batches) override {
    const std::lock_guard lock(mutex_);
    evaluated_batches_ = evaluated_batches;
  }

 private:
  grpc::ServerUnaryReactor* GetStatus(grpc::CallbackServerContext* context,
                                      const proto::GetStatusRequest* request,
                                      proto::GetStatusResponse* response) override {
    Describe(context->peer(), *request, *response);
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }

  void Describe(const std::string& peer, const proto::GetStatusRequest& request,
                proto::GetStatusResponse& response) {
    const std::lock_guard lock(mutex_);
    callers_.Answer(request, response, [&] {
      server_.Prove(peer);
      response.set_job(job_);
      response.set_job_uid(job_uid_);
      response.set_evaluated_batches(evaluated_batches_);
    });
  }

  const std::string job_, job_uid_;
  const Clock& clock_;
  std::mutex mutex_;
  CallerCheck callers_;                 // guarded by mutex_
  std::int64_t evaluated_batches_ = 0;  // guarded by mutex_
  GatedServer server_;                  // last: its handlers use all of the above
};

}  // namespace

absl::StatusOr<std::unique_ptr<EvaluatorStatus>> EvaluatorStatus::Start(const Identity& identity,
                                                                        const std::string& address,
                                                                        const Clock& clock) {
  auto status = std::make_unique<GrpcEvaluatorStatus>(identity, address, clock);
  if (const absl::Status listening = status->Listen(address); !listening.ok()) return listening;
  return status;
}

}  // namespace lockstep::train
