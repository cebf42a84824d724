// The roster with its streams and key-value store, as the gRPC handlers call them. See
// rendezvous_service.h.
#pragma once

#include <grpcpp/grpcpp.h>

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "api/proto/rendezvous.pb.h"
#include "api/proto/trainer_status.pb.h"
#include "base/clock.h"
#include "trainer/rendezvous/gate/caller_check.h"
#include "trainer/rendezvous/roster.h"

namespace lockstep::train {

class Coordinator;

// One process's stream of serialized ReplicaMessages and CoordinatorMessages, so that the streams
// share the bytes of what all of them are sent. Deletes itself in OnDone. The coordinator's mutex
// guards its write state, because the coordinator outlives it.
class SessionStream final : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  SessionStream(Coordinator& coordinator, SessionId id, std::string peer);
  // Send, End and Written require the coordinator's mutex.
  void Send(const grpc::ByteBuffer& message);
  void End();  // ends the stream once the pending messages are written
  void Written(bool ok);

  const std::string& peer() const { return peer_; }
  void StartReading() { StartRead(&incoming_); }
  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnDone() override;

 private:
  void Next();

  Coordinator& coordinator_;
  const SessionId id_;
  const std::string peer_;  // the connection's peer, as gRPC formats it
  grpc::ByteBuffer incoming_;
  std::deque<grpc::ByteBuffer> outgoing_;
  bool writing_ = false, ending_ = false, finished_ = false;
};

// A Get that waits for its keys. Deletes itself in OnDone.
class PendingGet final : public grpc::ServerUnaryReactor {
 public:
  PendingGet(Coordinator& coordinator, const proto::GetRequest& request,
             proto::GetResponse& response)
      : coordinator_(coordinator), request_(request), response_(response) {}
  // Returns the first key that the store lacks. If it lacks none, finishes the call, with the
  // values or with RESOURCE_EXHAUSTED if they are too large, and returns null. Requires the
  // coordinator's mutex, and that the store has lost no key since the last call.
  const std::string* Take(const std::map<std::string, std::string>& store);
  void OnCancel() override;
  void OnDone() override;

 private:
  std::string_view Wanted(std::string_view value) const;

  Coordinator& coordinator_;
  const proto::GetRequest& request_;  // gRPC keeps both until OnDone
  proto::GetResponse& response_;
  int found_ = 0;  // keys found so far
};

// Thread-safe.
class Coordinator {
 public:
  // Calls `proven` for each connection that proves to belong to the job, before it is answered.
  Coordinator(RosterConfig config, const Clock& clock,
              std::function<void(const std::string& peer)> proven);

  // Registers a new stream and sends its challenge.
  SessionStream* Open(const std::string& peer);
  grpc::Status Put(const proto::PutRequest& request);
  PendingGet* Get(const proto::GetRequest& request, proto::GetResponse* response);
  void Describe(const std::string& peer, const proto::GetStatusRequest& request,
                proto::GetStatusResponse& response);
  // From an accepted report on, Describe tells its numbers, unless a report of a later step on the
  // same test set was accepted before: a restarted Evaluator may repeat earlier evaluations. If
  // nothing is evaluated on a new test set yet, it tells a loss that is not a number, which takes
  // the place of the numbers on the earlier one.
  void TakeEvaluation(const std::string& peer, const proto::EvaluationReport& report,
                      proto::EvaluationAnswer& answer);
  void Tick();
  std::size_t size() const;  // see Roster
  std::set<std::string> MissingHosts() const;
  void SetHostsWithoutAddress(std::set<std::string> hosts);
  std::int64_t refusals() const;  // see Refusals
  bool LeaderSaves() const;
  bool WaitUntilDrained(Duration timeout);
  void WaitUntilIdle();  // blocks until no stream and no Get is left

  // Called by the reactors.
  void Received(SessionId id, const proto::ReplicaMessage& message);
  void HungUp(SessionId id, SessionStream& stream);
  void WriteDone(SessionStream& stream, bool ok);
  void Cancel(PendingGet& get);
  void ReactorGone();

 private:
  void ProveTo(SessionId id, const proto::Join& join);
  void Tell(proto::GetStatusResponse& response) const;
  void Deliver(const Outbox& outbox);
  void LogWithinLimit(const std::string& line);
  void SyncStore();
  grpc::Status CheckGeneration(std::uint64_t generation) const;
  grpc::Status CheckGet(const proto::GetRequest& request);

  const std::string job_, job_uid_;
  const Clock& clock_;
  const std::function<void(const std::string& peer)> proven_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  CallerCheck callers_;
  int lines_ = 0;  // logged since lines_from_
  SteadyTime lines_from_{};
  Roster roster_;
  std::map<SessionId, SessionStream*> streams_;  // streams that may still be written to
  SessionId next_session_ = 1;
  std::uint64_t store_generation_ = 0;  // 0: no active generation
  std::map<std::string, std::string> store_;
  std::size_t store_bytes_ = 0;
  std::optional<proto::EvaluationReport> evaluation_;  // of the latest step
  std::optional<bool> evaluator_misses_checkpoints_;   // by the Evaluator's last report
  std::multimap<std::string, PendingGet*> gets_;       // by the first missing key
  int reactors_ = 0;
};

}  // namespace lockstep::train
