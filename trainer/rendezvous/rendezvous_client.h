// The client with its timings and stop flag exposed, for tests. See rendezvous.h for the contract.
#pragma once

#include <functional>
#include <memory>

#include "trainer/rendezvous/rendezvous.h"

namespace lockstep::train {

struct RendezvousClientOptions {
  Duration timeout = std::chrono::minutes(5);  // for Join
  Duration busy_within = kBusyWithin;          // for Finish, if it is longer
  Duration heartbeat_every = std::chrono::seconds(1);
  Duration log_every = std::chrono::seconds(1);  // at most, a line on missing members
  // Delays between attempts to reach the leader. Short at first: usually it is just starting.
  Duration first_retry = std::chrono::milliseconds(20);
  Duration longest_retry = std::chrono::milliseconds(500);
  // For the leader's proof that it knows the token, from a new connection on. As long as the leader
  // gives a connection for a member's proof.
  Duration proof_patience = std::chrono::seconds(10);
  // True if an operator replaces lost pods: see Rendezvous::Join.
  bool successors_come = false;
  Duration given_up_within = kGivenUpWithin;  // as in RosterConfig, for the leader
  std::function<bool()> stop_requested;       // required; called on any thread
};

std::unique_ptr<Rendezvous> MakeRendezvousClient(const Identity& identity, const Clock& clock,
                                                 RendezvousClientOptions options);

}  // namespace lockstep::train
