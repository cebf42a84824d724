// How a strategy's groups of processes are connected.
#pragma once

#include <stop_token>

#include "trainer/comm/make_communicator.h"
#include "trainer/rendezvous/rendezvous.h"
#include "trainer/strategy/member_callers.h"
#include "trainer/strategy/strategy.h"

namespace lockstep::train {

// Returns the options of a communicator of all members of `membership`, which shares no root
// memory. `timeout`: of each wait for a peer. Requires: `callers` and `options` outlive that
// communicator.
CommunicatorOptions GroupOptions(const Membership& membership, const CollectiveOptions& options,
                                 MemberCallers& callers, Duration timeout, std::stop_token cancel);

}  // namespace lockstep::train
