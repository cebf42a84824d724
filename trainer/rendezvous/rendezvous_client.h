// The client with its timings and its stop flag open, for tests; see rendezvous.h for the contract.
#pragma once

#include <functional>
#include <memory>

#include "trainer/rendezvous/rendezvous.h"

namespace lockstep::train {

struct RendezvousClientOptions {
  Duration timeout = std::chrono::minutes(5);  // of Join and Finish
  Duration heartbeat_every = std::chrono::seconds(1);
  Duration log_every = std::chrono::seconds(1);  // who is missing, at most this often
  // Between attempts to reach the leader: quick at first, since it is most often just starting.
  Duration first_retry = std::chrono::milliseconds(20);
  Duration longest_retry = std::chrono::milliseconds(500);
  // Somebody puts another pod in the place of one that is lost: see Rendezvous::Join.
  bool successors_come = false;
  Duration given_up_within = kGivenUpWithin;  // see RosterConfig; of the leader
  std::function<bool()> stop_requested;       // any thread
};

std::unique_ptr<Rendezvous> MakeRendezvousClient(const Identity& identity, const Clock& clock,
                                                 RendezvousClientOptions options);

}  // namespace lockstep::train
