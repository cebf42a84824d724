#include "trainer/strategy/parameter_server/parameter_server.h"

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <utility>

#include "api/proto/parameter_server.grpc.pb.h"
#include "api/v1/enum_names.h"
#include "base/digest.h"
#include "base/hmac.h"
#include "base/log.h"
#include "base/status.h"
#include "trainer/rendezvous/gate/dialled_host.h"
#include "trainer/rendezvous/gate/grpc_options.h"
#include "trainer/strategy/parameter_server/data_stream.h"
#include "trainer/strategy/parameter_server/shard_session.h"

namespace lockstep::train {
namespace {

using grpc::Status;
using grpc::StatusCode;

// WaitForEnd polls at this period: a signal handler cannot notify a condition variable.
constexpr auto kPoll = std::chrono::milliseconds(50);

// Beyond those of callers: gRPC's own, and those that turn callers away.
constexpr int kSpareThreads = 16;

void Configure(const grpc::ResourceQuota& threads, grpc::ServerBuilder& builder) {
  SetServerOptions(builder);
  builder.SetMaxReceiveMessageSize(kLargestDataMessage);
  builder.SetMaxSendMessageSize(kLargestDataMessage);
  builder.AddChannelArgument(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0);
  // Callers open one stream per connection. gRPC holds only those to it that have acknowledged its
  // settings, and gives each stream a thread. The quota is for the streams of others that begin
  // before the gate has cut their connection.
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, 1);
  builder.SetResourceQuota(threads);
}

class GrpcParameterServer final : public ParameterServer, private proto::ParameterServer::Service {
 public:
  GrpcParameterServer(ParameterServerOptions options, Shard& shard, const Clock& clock)
      : options_(std::move(options)),
        shard_(shard),
        clock_(clock),
        tasks_(options_.tasks, clock),
        threads_("parameter server") {
    AllowThreads();
  }

  ~GrpcParameterServer() override {
    tasks_.Stop();
    if (gate_) gate_->Close();
    if (server_) {
      server_->Shutdown(std::chrono::system_clock::now());
      server_->Wait();
    }
  }

  absl::Status Listen() {
    absl::StatusOr<std::unique_ptr<CallerGate>> gate =
        CallerGate::Listen(options_.address, options_.callers, clock_);
    if (!gate.ok()) {
      return absl::UnavailableError(fmt::format("parameter server {}: cannot listen at {}: {}",
                                                options_.index, options_.address,
                                                std::string(gate.status().message())));
    }
    gate_ = *std::move(gate);
    grpc::ServerBuilder builder;
    Configure(threads_, builder);
    acceptor_ = AcceptSockets(builder);
    builder.RegisterService(static_cast<proto::ParameterServer::Service*>(this));
    server_ = builder.BuildAndStart();
    if (!server_) {
      return absl::UnavailableError(
          fmt::format("parameter server {}: gRPC did not start", options_.index));
    }
    gate_->Open([this](Descriptor caller) { HandOver(std::move(caller), *acceptor_); });
    return absl::OkStatus();
  }

  int port() const override { return gate_->port(); }

  End WaitForEnd() override {
    std::unique_lock lock(mutex_);
    while (!events_.finished && !events_.released && !(IsStopping() && streams_ == 0)) {
      changed_.wait_for(lock, kPoll);
    }
    const End end = events_.finished ? End::kFinished : End::kStopped;
    if (end == End::kFinished) {
      changed_.wait_for(lock, options_.drain, [&] { return streams_ == 0; });
    }
    return end;
  }

 private:
  // Counts an open stream.
  class Open {
   public:
    explicit Open(GrpcParameterServer& server) : server_(server) { Add(1); }
    ~Open() { Add(-1); }

   private:
    void Add(int count) {
      const std::lock_guard lock(server_.mutex_);
      server_.streams_ += count;
      server_.AllowThreads();
      server_.changed_.notify_all();
    }
    GrpcParameterServer& server_;
  };

  // One for each stream, and for each caller that may be about to prove the token.
  void AllowThreads() {
    threads_.SetMaxThreads(streams_ + static_cast<int>(options_.callers.at_once) + kSpareThreads);
  }

  bool IsStopping() {
    if (options_.stop_requested()) is_stopping_ = true;
    return is_stopping_;
  }

  void NoteFinished() {
    const std::lock_guard lock(mutex_);
    events_.finished = true;
    changed_.notify_all();
  }

  struct Met {
    Status status;
    std::string proof;  // that this server knows the token, for its next message
  };

  // Challenges the caller of `call` and checks its introduction.
  template <typename Stream, typename Reply, typename Request>
  Met Meet(const char* call, grpc::ServerContext& context, Stream& stream, Request& request) {
    if (!gate_->BeginStream(context.peer())) return {Status::CANCELLED, {}};
    Reply reply;
    const std::string nonce = RandomBytes(32);
    reply.mutable_challenge()->set_nonce(nonce);
    if (!stream.Write(reply) || !stream.Read(&request)) return {Status::CANCELLED, {}};
    const proto::Introduction& who = request.introduction();
    if (!AcceptsIntroduction(options_.token, nonce, who)) {
      return Refuse(Refusal::kNoToken, call);
    }
    if (options_.token.present() && !IsMeant(who.dialled(), options_.address)) {
      return Refuse(Refusal::kDialledElsewhere, call);
    }
    gate_->Prove(context.peer());
    return {WhyNot(who), ProofOfServer(options_.token, nonce, who)};
  }

  Met Refuse(Refusal why, const char* call) {
    gate_->AddRefusal(why, call);
    return {{StatusCode::PERMISSION_DENIED, fmt::format("the caller {}", Describe(why))}, {}};
  }

  // Ok if the caller means this server.
  Status WhyNot(const proto::Introduction& who) const {
    if (who.job() != options_.job) {
      return {StatusCode::FAILED_PRECONDITION,
              fmt::format("the caller is of {}, this server of {}", who.job(), options_.job)};
    }
    if (who.server() == options_.index) return Status::OK;
    return {StatusCode::FAILED_PRECONDITION,
            fmt::format("this is server {}, the caller expects server {}", options_.index,
                        who.server())};
  }

  // Whether the caller is the leading process, or was.
  bool Leads(const proto::Introduction& who) const {
    return who.role() == options_.tasks.owner_role && who.index() == 0 && who.local_rank() == 0;
  }

  Status Exchange(grpc::ServerContext* context, ShardStream* stream) override {
    proto::ShardRequest request;
    const Met met = Meet<ShardStream, proto::ShardReply>("Exchange", *context, *stream, request);
    if (!met.status.ok()) return met.status;
    const Open open(*this);
    if (is_released_) return {StatusCode::UNAVAILABLE, "it was asked to stop"};
    ShardSession session(
        shard_, *stream, request.introduction(), Leads(request.introduction()),
        [this] { return IsStopping(); }, options_.make_content);
    if (!session.Welcome(met.proof)) return Status::OK;
    for (bool goes_on = true; goes_on;) {
      // What the caller has said counts, even if it is gone since. Once it hears that this server
      // is released, its other stream gets no order from here any more.
      goes_on = session.Serve([this] { is_released_ = true; });
      const std::lock_guard lock(mutex_);
      events_.finished = events_.finished || session.events().finished;
      events_.released = events_.released || session.events().released;
      goes_on =
          goes_on && !events_.released;  // no load by a caller that should reach the successor
      changed_.notify_all();
    }
    return Status::OK;
  }

  Status Coordinate(
      grpc::ServerContext* context,
      grpc::ServerReaderWriter<proto::TaskReply, proto::WorkerRequest>* stream) override {
    proto::WorkerRequest request;
    const Met met = Meet<std::remove_pointer_t<decltype(stream)>, proto::TaskReply>(
        "Coordinate", *context, *stream, request);
    if (!met.status.ok()) return met.status;
    const Open open(*this);
    const Status released{StatusCode::UNAVAILABLE, "it was asked to stop"};
    if (is_released_) return released;
    proto::TaskReply reply;
    reply.set_proof(met.proof);
    const absl::StatusOr<TaskCoordinator::Session> session = tasks_.Enter(request.introduction());
    if (!session.ok()) {
      reply.mutable_turned()->set_reason(std::string(session.status().message()));
      reply.mutable_turned()->set_superseded(absl::IsAborted(session.status()));
      stream->Write(reply);
      return Status::OK;
    }
    reply.mutable_welcome();
    bool alive = stream->Write(reply);
    while (alive && stream->Read(&request)) {
      reply = tasks_.Next(*session, request.next());
      if (reply.has_finished()) NoteFinished();
      // It is for the successor to say what shall be done, and to order the load.
      alive = request.has_next() && !is_released_ && stream->Write(reply);
    }
    tasks_.Leave(*session);
    return is_released_ ? released : Status::OK;
  }

  const ParameterServerOptions options_;
  Shard& shard_;
  const Clock& clock_;
  TaskCoordinator tasks_;
  grpc::ResourceQuota threads_;
  std::unique_ptr<CallerGate> gate_;
  std::atomic<bool> is_stopping_ = false, is_released_ = false;
  std::mutex mutex_;  // guards the next two
  ShardSession::Events events_;
  int streams_ = 0;
  std::condition_variable changed_;
  std::unique_ptr<SocketAcceptor> acceptor_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ParameterServer>> ParameterServer::Start(
    ParameterServerOptions options, Shard& shard, const Clock& clock) {
  StartGrpc();
  auto server = std::make_unique<GrpcParameterServer>(std::move(options), shard, clock);
  LOCKSTEP_RETURN_IF_ERROR(server->Listen());
  return server;
}

// See Shard and ShardSession. Each caller has a buffer for its gradient, which stays, and the
// values that it pulls are copied into messages. What is loaded arrives beside the values that it
// replaces: if another server is lost, this one is loaded again while its callers are connected. In
// the mode Sync there is a step's sum, and the gradients that came before their turn.
absl::StatusOr<std::size_t> MostBytesOfServer(const Shard& shard, const ShardLayout& layout,
                                              int callers) {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::int64_t held, shard.FloatsToLoad(layout));
  const std::int64_t moved = layout.values() + layout.states;
  const std::int64_t arriving = std::max(held + moved * callers, 2 * moved * callers);
  return static_cast<std::size_t>(held + arriving + layout.parts * moved) * sizeof(float);
}

std::string ServerGroupHash(const Identity& identity) {
  return fmt::format("protocol={} uid={} attempt={} ps={} strategy={:016x} training={:016x}",
                     kProtocol, identity.job_uid, identity.attempt, identity.cluster.ps.size(),
                     Digest(api::StrategySpecToJson(identity.strategy).dump()),
                     identity.TrainingDigest());
}

std::string ProofOfIntroduction(const api::JobToken& token, const std::string& nonce,
                                proto::Introduction who) {
  who.clear_proof();
  return token.Prove(api::kProofOfIntroduction, nonce, who.SerializeAsString());
}

bool AcceptsIntroduction(const api::JobToken& token, const std::string& nonce,
                         proto::Introduction who) {
  const std::string proof = std::move(*who.mutable_proof());
  who.clear_proof();
  return token.Accepts(api::kProofOfIntroduction, nonce, who.SerializeAsString(), proof);
}

namespace {

std::string ContentOfServer(const std::string& challenge, const proto::Introduction& who) {
  return fmt::format("{} ", challenge.size()).append(challenge).append(who.SerializeAsString());
}

}  // namespace

std::string ProofOfServer(const api::JobToken& token, const std::string& challenge,
                          const proto::Introduction& who) {
  return token.Prove(api::kProofOfServer, who.nonce(), ContentOfServer(challenge, who));
}

bool AcceptsServer(const api::JobToken& token, const std::string& challenge,
                   const proto::Introduction& who, const std::string& proof) {
  return token.Accepts(api::kProofOfServer, who.nonce(), ContentOfServer(challenge, who), proof);
}

}  // namespace lockstep::train
