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
  // The longest time that a server may be unreachable or lack memory, or that the leading process
  // may be unreachable. With `successors_come` (an operator replaces pods), time in which its name
  // has no address does not count, unless no server and no leading process has one: the run is then
  // probably over.
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
// calls reconnect and try again, as Load does while a server lacks memory. That time counts as
// kRendezvous, whatever the caller's phase. Errors:
//   FailedPrecondition: a server no longer has the values of this fence.
//   DeadlineExceeded: a server was out of reach for too long; names it.
//   ResourceExhausted: a server lacked memory for a load for too long; names it.
//   Cancelled: a server was out of reach, or lacked memory, when this pod was asked to stop.
// InvalidArgument: a server refuses this process permanently. Aborted: a later process has taken
// this one's place.
class ParameterClient {
 public:
  // Requires: `session`, `clock` and `phases` outlive the client.
  ParameterClient(ParameterClientOptions options, Session& session, const Clock& clock,
                  PhaseClock& phases);

  // Keeps this process connected to server 0 from now on, by a thread, so that a replacement of
  // server 0 knows that this process exists. Requires: called at most once.
  void StayConnected();

  absl::StatusOr<proto::TaskReply> Next(const proto::Next& next);
  // Overwrites the model's parameters and states; with `slots`, the optimizer's, too.
  absl::StatusOr<std::vector<std::int64_t>> Pull(const ShardGroup::Request& request, bool slots);
  // Pushes the session's gradients and its buffer's states. `gradient` has the rest.
  absl::StatusOr<ShardGroup::PushResult> Push(ShardGroup::Gradient gradient);
  // Loads the session's parameters, states and slots, those of `state`, onto all servers.
  absl::Status Load(std::uint64_t fence, int parts, const RunState& state);
  // Asks all servers whether they have the values of this fence, and whether they were asked to
  // stop. Returns as soon as one of them was asked to stop or has lost the values.
  absl::Status Check(std::uint64_t fence);
  // The same, but asks only those that can be reached within a second.
  void CheckConnected(std::uint64_t fence);
  // Whether a server said that it was asked to stop, at the last check or Pull. A pull without the
  // slots need not tell: see Pulled.stopping.
  bool IsServerStopping() const { return shards_.IsStopping(); }
  // Lets servers that were asked to stop end: what was last pulled has been saved, or cannot be. A
  // server that the message does not reach stays until it is killed. Returns true if a server may
  // have ended. Aborted: a later process leads the run.
  absl::StatusOr<bool> ReleaseServers();
  // Tells all servers that can be reached now that the run is over.
  void Finish(const proto::Next& next);

  // Call it repeatedly while waiting for another process; logs `reason` every ten seconds.
  // `missing` names the leading process if it cannot be reached, else it is empty.
  // DeadlineExceeded: it has been missing for longest_outage.
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
