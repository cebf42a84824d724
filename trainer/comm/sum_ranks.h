// The arithmetic of an all-reduce over memory that one thread can reach as a whole.
#pragma once

#include <cstddef>
#include <span>
#include <utility>

namespace lockstep::train {

// ranks[r][i] = ranks[0][i] + ranks[1][i] + …, added in rank order, for all r and begin <= i < end.
// The result does not depend on the instruction set.
void SumRanks(std::span<float* const> ranks, std::size_t begin, std::size_t end);

// The piece of [0, count) that `rank` sums: whole cache lines of floats, equal up to one line.
std::pair<std::size_t, std::size_t> ShareOf(int rank, int size, std::size_t count);

}  // namespace lockstep::train
