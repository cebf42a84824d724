// For tests that nothing is allocated. Link count_allocations.cc, which replaces operator new.
#pragma once

namespace lockstep {

// Calls of operator new in this process so far, by all threads.
long Allocations();

}  // namespace lockstep
