// Lets tests check that nothing is allocated. Link count_allocations.cc, which replaces operator
// new.
#pragma once

namespace lockstep {

// Returns the number of calls of operator new in this process so far, in all threads.
long Allocations();

}  // namespace lockstep
