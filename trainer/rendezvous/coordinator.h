// The roster with its streams and its store: what the gRPC handlers call. See rendezvous_service.h.
#pragma once

#include <grpcpp/grpcpp.h>

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <string_view>

#include "api/proto/rendezvous.pb.h"
#include "api/proto/trainer_status.pb.h"
#include "base/clock.h"
#include "trainer/rendezvous/caller_check.h"
#include "trainer/rendezvous/roster.h"

namespace lockstep::train {

class Coordinator;

// One replica's stream. Deletes itself when gRPC is done with it. Its write state is guarded by the
// coordinator's mutex, since that outlives it.
class SessionStream final
    : public grpc::ServerBidiReactor<proto::ReplicaMessage, proto::CoordinatorMessage> {
 public:
  SessionStream(Coordinator& coordinator, SessionId id, std::string peer);
  // Call these three with the coordinator's mutex held.
  void Send(const proto::CoordinatorMessage& message);
  void End();  // after what was sent
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
  const std::string peer_;  // of its connection, as gRPC writes it
  proto::ReplicaMessage incoming_;
  std::deque<proto::CoordinatorMessage> outgoing_;
  bool writing_ = false, ending_ = false, finished_ = false;
};

// A Get that waits for its keys. Deletes itself as above.
class PendingGet final : public grpc::ServerUnaryReactor {
 public:
  PendingGet(Coordinator& coordinator, const proto::GetRequest& request,
             proto::GetResponse& response)
      : coordinator_(coordinator), request_(request), response_(response) {}
  // Returns the first key that the store lacks. If it lacks none, finishes the call, with the
  // values or because they are too large, and returns null. Requires the coordinator's mutex, and a
  // store that has lost no key since the last call.
  const std::string* Take(const std::map<std::string, std::string>& store);
  void OnCancel() override;
  void OnDone() override;

 private:
  std::string_view Wanted(std::string_view value) const;

  Coordinator& coordinator_;
  const proto::GetRequest& request_;  // gRPC keeps both until OnDone
  proto::GetResponse& response_;
  int found_ = 0;  // of the keys
};

// Thread-safe.
class Coordinator {
 public:
  // `proven` is told of each connection that turns out to be one of the job's, before it is
  // answered.
  Coordinator(RosterConfig config, const Clock& clock,
              std::function<void(const std::string& peer)> proven);

  // Sends the challenge.
  SessionStream* Open(const std::string& peer);
  grpc::Status Put(const proto::PutRequest& request);
  PendingGet* Get(const proto::GetRequest& request, proto::GetResponse* response);
  void Describe(const std::string& peer, const proto::GetStatusRequest& request,
                proto::GetStatusResponse& response);
  void Tick();
  std::set<std::string> MissingHosts() const;
  void SetHostsWithoutAddress(std::set<std::string> hosts);
  std::int64_t refusals() const;  // callers that gave no proof, or a wrong one
  bool WaitUntilDrained(Duration timeout);
  void WaitUntilIdle();  // no stream and no Get is left

  // For the reactors.
  void Received(SessionId id, const proto::ReplicaMessage& message);
  void HungUp(SessionId id, SessionStream& stream);
  void WriteDone(SessionStream& stream, bool ok);
  void Cancel(PendingGet& get);
  void ReactorGone();

 private:
  void Deliver(const Outbox& outbox);
  void LogWithinLimit(const std::string& line);
  void SyncStore();
  grpc::Status CheckGeneration(std::uint64_t generation) const;
  grpc::Status CheckGet(const proto::GetRequest& request);

  const std::string job_, job_uid_;
  const std::size_t most_gets_;
  const Clock& clock_;
  const std::function<void(const std::string& peer)> proven_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  CallerCheck callers_;
  int lines_ = 0;  // logged since lines_from_
  SteadyTime lines_from_{};
  Roster roster_;
  std::map<SessionId, SessionStream*> streams_;  // those that may still be written to
  SessionId next_session_ = 1;
  std::uint64_t store_generation_ = 0;  // 0: closed
  std::map<std::string, std::string> store_;
  std::size_t store_bytes_ = 0;
  std::multimap<std::string, PendingGet*> gets_;  // by the first key that is not there
  int reactors_ = 0;
};

}  // namespace lockstep::train
