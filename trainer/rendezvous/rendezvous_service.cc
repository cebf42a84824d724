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

bool IsLoopback(const std::string& host) {
  return host == "localhost" || host == "[::1]" || host.starts_with("127.");
}

}  // namespace

absl::StatusOr<std::unique_ptr<RendezvousService>> RendezvousService::Start(
    RosterConfig config, const std::string& address, const Clock& clock) {
  config.listens_at = address;
  auto service = std::make_unique<GrpcRendezvousService>(std::move(config), clock);
  if (const absl::Status listening = service->Listen(address); !listening.ok()) return listening;
  return service;
}

namespace {

RosterSize SizeOf(const Identity& identity) {
  RosterSize config;
  config.workers = static_cast<int>(identity.cluster.worker.size());
  config.cluster_hash = identity.ClusterHash();
  const auto add = [&](api::Role role, const std::vector<std::string>& pods) {
    for (int index = 0; index < static_cast<int>(pods.size()); ++index) {
      const std::string& address = pods[static_cast<std::size_t>(index)];
      for (int process = 0; process < identity.processes_per_pod; ++process) {
        config.slots.push_back({std::string(api::RoleName(role)), index, process});
        config.hosts.push_back(address.substr(0, address.rfind(':')));
      }
    }
  };
  if (!identity.Traits().uses_collectives) {
    const bool has_chief = !identity.cluster.chief.empty();
    const std::string leader = identity.LeaderAddress();
    config.slots.push_back(
        {std::string(api::RoleName(has_chief ? api::Role::kChief : api::Role::kWorker)), 0, 0});
    config.hosts.push_back(leader.substr(0, leader.rfind(':')));
    return config;
  }
  add(api::Role::kChief, identity.cluster.chief);
  add(api::Role::kWorker, identity.cluster.worker);
  return config;
}

}  // namespace

RosterConfig RosterFor(const Identity& identity) {
  RosterConfig config;
  static_cast<RosterSize&>(config) = SizeOf(identity);
  config.job = identity.job;
  config.job_uid = identity.job_uid;
  config.token = identity.token;
  if (identity.IsResizable()) {
    config.of_size = [identity](int workers) { return SizeOf(identity.WithWorkers(workers)); };
  }
  return config;
}

std::string ListenAddress(const Identity& identity) {
  return ListenAddress(identity, identity.LeaderAddress());
}

std::string ListenAddress(const Identity& identity, const std::string& address) {
  const std::size_t colon = address.rfind(':');
  const std::string host = address.substr(0, colon), port = address.substr(colon + 1);
  if (!identity.pod_ip.empty()) return HostPort(identity.pod_ip, port);
  return IsLoopback(host) ? address : ":" + port;
}

}  // namespace lockstep::train
