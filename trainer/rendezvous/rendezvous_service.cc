#include "trainer/rendezvous/rendezvous_service.h"

#include <grpcpp/grpcpp.h>

#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "api/proto/rendezvous.grpc.pb.h"
#include "api/proto/trainer_status.grpc.pb.h"
#include "base/status.h"
#include "trainer/rendezvous/address_watch.h"
#include "trainer/rendezvous/coordinator.h"
#include "trainer/rendezvous/gate/gated_server.h"

namespace lockstep::train {
namespace {

class GrpcRendezvousService final : public RendezvousService {
 public:
  GrpcRendezvousService(RosterConfig config, const Clock& clock)
      : tick_every_(std::min<Duration>(std::min(config.dead_after / 10, config.waiting_every),
                                       std::chrono::milliseconds(250))),
        members_(config.slots.size()),
        clock_(clock),
        addresses_(config.has_address),
        coordinator_(std::move(config), clock,
                     [this](const std::string& peer) { server_.Prove(peer); }),
        rendezvous_(coordinator_),
        status_(coordinator_) {}

  absl::Status Listen(const std::string& address) {
    LOCKSTEP_RETURN_IF_ERROR(server_.Start(address, members_, clock_, {&rendezvous_, &status_}));
    ticker_ = std::jthread([this](const std::stop_token& stop) { TickUntil(stop); });
    return absl::OkStatus();
  }

  ~GrpcRendezvousService() override {
    ticker_ = {};  // stops and joins the thread
    server_.Stop();
    coordinator_.WaitUntilIdle();
  }

  int port() const override { return server_.port(); }
  std::int64_t refusals() const override { return coordinator_.refusals(); }

  bool LeaderSaves() const override { return coordinator_.LeaderSaves(); }

  bool WaitUntilDrained(Duration timeout) override {
    return coordinator_.WaitUntilDrained(timeout);
  }

 private:
  using UnaryCalls =
      proto::Rendezvous::WithCallbackMethod_Put<proto::Rendezvous::WithCallbackMethod_Get<
          proto::Rendezvous::WithCallbackMethod_ReportEvaluation<proto::Rendezvous::Service>>>;
  class RendezvousCalls final
      : public proto::Rendezvous::WithRawCallbackMethod_Session<UnaryCalls> {
   public:
    explicit RendezvousCalls(Coordinator& coordinator) : coordinator_(coordinator) {}
    grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* Session(
        grpc::CallbackServerContext* context) override {
      return coordinator_.Open(context->peer());
    }
    grpc::ServerUnaryReactor* Put(grpc::CallbackServerContext* context,
                                  const proto::PutRequest* request, proto::PutResponse*) override {
      grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
      reactor->Finish(coordinator_.Put(*request));
      return reactor;
    }
    grpc::ServerUnaryReactor* Get(grpc::CallbackServerContext*, const proto::GetRequest* request,
                                  proto::GetResponse* response) override {
      return coordinator_.Get(*request, response);
    }
    grpc::ServerUnaryReactor* ReportEvaluation(grpc::CallbackServerContext* context,
                                               const proto::EvaluationReport* request,
                                               proto::EvaluationAnswer* response) override {
      coordinator_.TakeEvaluation(context->peer(), *request, *response);
      grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
      reactor->Finish(grpc::Status::OK);
      return reactor;
    }

   private:
    Coordinator& coordinator_;
  };

  class StatusCalls final : public proto::TrainerStatus::CallbackService {
   public:
    explicit StatusCalls(Coordinator& coordinator) : coordinator_(coordinator) {}
    grpc::ServerUnaryReactor* GetStatus(grpc::CallbackServerContext* context,
                                        const proto::GetStatusRequest* request,
                                        proto::GetStatusResponse* response) override {
      coordinator_.Describe(context->peer(), *request, *response);
      grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
      reactor->Finish(grpc::Status::OK);
      return reactor;
    }

   private:
    Coordinator& coordinator_;
  };

  void TickUntil(const std::stop_token& stop) {
    std::mutex mutex;
    std::condition_variable_any wake;
    std::unique_lock lock(mutex);
    while (!stop.stop_requested()) {
      wake.wait_for(lock, stop, tick_every_, [] { return false; });
      addresses_.Watch(coordinator_.MissingHosts());
      coordinator_.SetHostsWithoutAddress(addresses_.WithoutAddress());
      coordinator_.Tick();
      server_.SetMembers(coordinator_.size());
    }
  }

  const Duration tick_every_;
  const std::size_t members_;
  const Clock& clock_;
  AddressWatch addresses_;
  Coordinator coordinator_;
  RendezvousCalls rendezvous_;
  StatusCalls status_;
  GatedServer server_;
  std::jthread ticker_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<RendezvousService>> RendezvousService::Start(
    RosterConfig config, const std::string& address, const Clock& clock) {
  config.listens_at = address;
  auto service = std::make_unique<GrpcRendezvousService>(std::move(config), clock);
  if (const absl::Status listening = service->Listen(address); !listening.ok()) return listening;
  return service;
}

}  // namespace lockstep::train
