// The rendezvous's server, run by the leading pod's supervisor. Serves sessions, the generation's
// key-value store and TrainerStatus on one port.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "base/clock.h"
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

}  // namespace lockstep::train
