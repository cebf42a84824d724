// The arithmetic of an all-reduce over memory that one thread can access.
#pragma once

#include <cstddef>
#include <span>
#include <utility>

namespace lockstep::train {

// Sets ranks[r][i] = ranks[0][i] + ranks[1][i] + …, added in rank order, for all r and
// begin <= i < end. The result does not depend on the instruction set.
void SumRanks(std::span<float* const> ranks, std::size_t begin, std::size_t end);

// Returns the part of [0, count) that `rank` sums: whole cache lines. The ranks' shares are equal,
// but the last ones may be smaller or empty.
std::pair<std::size_t, std::size_t> ShareOf(int rank, int size, std::size_t count);

}  // namespace lockstep::train
