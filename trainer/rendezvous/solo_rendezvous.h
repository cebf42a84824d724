// The rendezvous of a process that trains alone.
#pragma once

#include <functional>
#include <memory>

#include "trainer/rendezvous/rendezvous.h"

namespace lockstep::train {

// Every Join returns at once with a membership of one, whose role and places are `self`'s, and
// whose generations count from 1. No generation ends, Finish returns at once, and nobody receives
// reports. Join returns Cancelled once `stop_requested` is true; it is called on any thread.
std::unique_ptr<Rendezvous> MakeSoloRendezvous(Member self, std::function<bool()> stop_requested);

}  // namespace lockstep::train
