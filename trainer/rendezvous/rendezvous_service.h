// The rendezvous's server: sessions, the generation's key-value store and TrainerStatus, on one
// port. Run by the leading pod's supervisor.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "trainer/identity/identity.h"
#include "trainer/rendezvous/roster.h"

namespace lockstep::train {

// Thread-safe. Its destructor ends all sessions.
class RendezvousService {
 public:
  // `address` is host:port, port 0 picks one. Unavailable: names the address and why it cannot be
  // listened at.
  static absl::StatusOr<std::unique_ptr<RendezvousService>> Start(RosterConfig config,
                                                                  const std::string& address,
                                                                  const Clock& clock);
  virtual ~RendezvousService() = default;
  virtual int port() const = 0;
  // Callers that gave no proof that they know the job's token, or a wrong one.
  virtual std::int64_t refusals() const = 0;
  // True as soon as every member has been released and has hung up; false after `timeout`.
  virtual bool WaitUntilDrained(Duration timeout) = 0;
};

// The members of the identity's world, chief first, then workers, each with its processes.
RosterConfig RosterFor(const Identity& identity);

// Where the leader listens: the port of its cluster address on the pod's own address if that is
// known, on loopback if the cluster address is, else on all.
std::string ListenAddress(const Identity& identity);

}  // namespace lockstep::train
