// Lets tests check what is allocated, whoever asks: operator new, malloc or what gives aligned
// memory. Link count_allocations.cc, which replaces malloc and its relatives.
#pragma once

#include <cstddef>

namespace lockstep {

// Returns the number of allocations in this process so far, in all threads.
long Allocations();

// Returns the bytes of the largest allocation since the last call of ForgetLargestAllocation; 0:
// there was none.
std::size_t LargestAllocation();
void ForgetLargestAllocation();

}  // namespace lockstep
