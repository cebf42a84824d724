// A training process's dealings with the parameter servers: calls that outlast lost connections.
#pragma once

#include <functional>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "trainer/identity/identity.h"
#include "trainer/observe/phase_clock.h"
#include "trainer/rendezvous/address_watch.h"
#include "trainer/strategy/parameter_server/shard_group.h"
#include "trainer/strategy/parameter_server/task_link.h"
#include "trainer/train/run_state.h"
#include "trainer/train/session.h"

namespace lockstep::train {

struct ParameterClientOptions {
  std::vector<std::string> servers;  // HOST:PORT by index
  Caller caller;                     // without its layout
  api::ParameterPlacement placement = api::ParameterPlacement::kBySize;
  bool shares_memory = true;  // with servers of this host
  // The limit for an outage of a server, or for its lack of memory, or for an outage of the leading
  // process. With `successors_come` (an operator creates its pod), the time without an address does
  // not count, unless all servers and the leading process are without one: then the run may be
  // over.
  Duration longest_outage = std::chrono::minutes(5);
  bool successors_come = false;  // also: an address may lead to a server of another run meanwhile
  std::function<bool()> stop_requested = [] { return false; };
  std::string leader_host;  // of the leading process's pod
  AddressWatch::Lookup has_address = &HasAddress;
  Duration between_lookups = std::chrono::seconds(2);
};

ParameterClientOptions ParameterClientOptionsFor(const Identity& identity);

// How the session's model is divided among the servers.
ShardGroupOptions ShardOptions(const ParameterClientOptions& options, Session& session);

// Not thread-safe; has a thread of its own after StayConnected. While a server cannot be reached,
// calls connect anew and repeat; this time is kRendezvous, whatever phase the caller is in. So does
// a Load while a server lacks memory for it. Errors:
//   FailedPrecondition: a server no longer has the values of this fence.
//   DeadlineExceeded: a server was out of reach for too long; names it.
//   ResourceExhausted: a server lacked memory for a load for too long; names it.
//   Cancelled: a server was out of reach, or lacked memory, when this pod was asked to stop.
//   InvalidArgument: a server refuses this process for good; Aborted: a later
//     process has this one's place.
class ParameterClient {
 public:
  // Requires: `session`, `clock` and `phases` outlive the client.
  ParameterClient(ParameterClientOptions options, Session& session, const Clock& clock,
                  PhaseClock& phases);

  // From now on, this process is connected to server 0 whatever it does meanwhile, so that a server
  // that has taken server 0's place knows that it is here. Call it at most once.
  void StayConnected();

  absl::StatusOr<proto::TaskReply> Next(const proto::Next& next);
  // Overwrites the model's parameters and states; with `slots`, the optimizer's, too.
  absl::StatusOr<std::vector<std::int64_t>> Pull(const ShardGroup::Request& request, bool slots);
  // Pushes the session's gradients and its buffer's states. `gradient` has the rest.
  absl::StatusOr<ShardGroup::PushResult> Push(ShardGroup::Gradient gradient);
  // Loads the session's parameters, states and slots, those of `state`, onto all servers.
  absl::Status Load(std::uint64_t fence, int parts, const RunState& state);
  // Asks all servers whether they have the values of this fence, and whether they were asked to
  // stop. As soon as one was, or has lost the values, waits for no other.
  absl::Status Check(std::uint64_t fence);
  // The same, but asks only those that can be reached within a second.
  void CheckConnected(std::uint64_t fence);
  // Whether a server said at the last Pull or check that it was asked to stop.
  bool IsServerStopping() const { return shards_.IsStopping(); }
  // Lets such a server end: what was pulled last is saved, or cannot be. A server that does not
  // hear it stays until it is killed. Returns false if no server ends, true if one may. Aborted: a
  // later process leads the run.
  absl::StatusOr<bool> ReleaseServers();
  // Says to all servers that the run is over, as far as they can be reached now.
  void Finish(const proto::Next& next);

  // A wait for another process. DeadlineExceeded names `missing`, the leading process, if it has
  // been so for longest_outage; empty: nothing is missing. Logs `reason` now and then.
  absl::Status NoteWait(const std::string& reason, const std::string& missing);
  bool IsShared() const { return shards_.IsShared(); }

 private:
  absl::Status Persist(const std::function<absl::Status()>& call);
  bool AServerIsYetToCome() const;
  bool IsTimeToLog();
  absl::Status CheckOutage(const absl::Status& broken);
  FlatValues ValuesOf(bool slots);

  const ParameterClientOptions options_;
  Session& session_;
  const Clock& clock_;
  PhaseClock& phases_;
  ShardGroup shards_;
  std::mutex tasks_mutex_;
  TaskLink tasks_;  // guarded by tasks_mutex_
  AddressWatch addresses_, leader_address_;
  std::set<std::string> hosts_;     // of the servers and of the leading process
  bool has_been_answered_ = false;  // by a server of this run
  std::optional<SteadyTime> outage_began_, wait_began_;
  SteadyTime next_log_;
  std::jthread connecting_;  // last: uses the above
};

}  // namespace lockstep::train
