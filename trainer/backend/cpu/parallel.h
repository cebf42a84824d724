// Work shared out over the threads of an OpenMP team.
#pragma once

#include <omp.h>

#include <cstdint>

namespace lockstep::train::cpu {

// Below this many floats a team costs more than it gives.
inline constexpr std::int64_t kParallelFloats = 16 * 1024;

inline int ThreadsFor(int threads, std::int64_t floats) {
  return floats < kParallelFloats ? 1 : threads;
}

// Calls body(begin, end) once a thread on contiguous pieces of [0, count). The pieces depend on
// `count` and `threads` alone. One thread: a plain call, no team.
template <typename Body>
void ParallelFor(int threads, std::int64_t count, Body body) {
  if (threads == 1 || count <= 1) {
    if (count > 0) body(std::int64_t{0}, count);
    return;
  }
#pragma omp parallel num_threads(threads)
  {
    const std::int64_t team = omp_get_num_threads(), rank = omp_get_thread_num();
    const std::int64_t begin = count * rank / team, end = count * (rank + 1) / team;
    if (begin < end) body(begin, end);
  }
}

// The same with pieces that are multiples of a cache line, for flat arrays of floats.
template <typename Body>
void ParallelForFloats(int threads, std::int64_t count, Body body) {
  constexpr std::int64_t kLine = 16;
  ParallelFor(ThreadsFor(threads, count), (count + kLine - 1) / kLine,
              [&](std::int64_t begin, std::int64_t end) {
                const std::int64_t last = end * kLine < count ? end * kLine : count;
                body(begin * kLine, last);
              });
}

}  // namespace lockstep::train::cpu
