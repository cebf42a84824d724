// What an identity says of the rendezvous: who is in the group, and where the leader listens. Pure.
#pragma once

#include <string>

#include "trainer/identity/identity.h"
#include "trainer/rendezvous/roster.h"

namespace lockstep::train {

// Returns the roster of the identity's group: chief first, then workers, each with its processes.
// Without collectives nobody waits for the others: the leading process is a group of its own.
RosterConfig RosterFor(const Identity& identity);

// Returns where the leader listens: the port of its cluster address, on the pod's own IP if that is
// known, else on loopback if the cluster address is, else on all addresses.
std::string ListenAddress(const Identity& identity);
// The same for a process whose cluster address is `address`.
std::string ListenAddress(const Identity& identity, const std::string& address);

}  // namespace lockstep::train
