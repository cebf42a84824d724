// The rendezvous's server, run by the leading pod's supervisor. Serves sessions, the generation's
// key-value store and TrainerStatus on one port.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "trainer/identity/identity.h"
#include "trainer/rendezvous/roster.h"

namespace lockstep::train {

// Thread-safe. The destructor ends all sessions.
class RendezvousService {
 public:
  // Starts to serve at `address`, which is host:port; port 0 picks a free one. Unavailable names
  // the address and the reason.
  static absl::StatusOr<std::unique_ptr<RendezvousService>> Start(RosterConfig config,
                                                                  const std::string& address,
                                                                  const Clock& clock);
  virtual ~RendezvousService() = default;
  virtual int port() const = 0;
  // The number of callers without a proof that they know the job's token, or with a wrong one.
  virtual std::int64_t refusals() const = 0;
  // True while rank 0 says that it saves.
  virtual bool LeaderSaves() const = 0;
  // Blocks until every member has been released and has hung up. Returns false after `timeout`.
  virtual bool WaitUntilDrained(Duration timeout) = 0;
};

// Returns the roster of the identity's group: chief first, then workers, each with its processes.
// Without collectives nobody waits for the others: the leading process is a group of its own.
RosterConfig RosterFor(const Identity& identity);

// Returns where the leader listens: the port of its cluster address, on the pod's own IP if that is
// known, else on loopback if the cluster address is, else on all addresses.
std::string ListenAddress(const Identity& identity);
// The same for a process whose cluster address is `address`.
std::string ListenAddress(const Identity& identity, const std::string& address);

}  // namespace lockstep::train
