// Divides work among the threads of an OpenMP team.
#pragma once

#include <omp.h>

#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

#include <cstdint>

namespace lockstep::train::cpu {

// Below this many floats a team costs more than it saves.
inline constexpr std::int64_t kParallelFloats = 16 * 1024;

inline int ThreadsFor(int threads, std::int64_t floats) {
  return floats < kParallelFloats ? 1 : threads;
}

// OpenMP's library is not built with ThreadSanitizer, which therefore does not see that a team
// starts after what precedes it and ends before what follows. TeamOrder tells it. The compiler
// writes the team's arguments after BeforeTeam; the attribute hides those writes from the
// sanitizer. It does not extend to `body`.
#if defined(__SANITIZE_THREAD__)
#define LOCKSTEP_BEGINS_TEAM __attribute__((no_sanitize_thread))
#else
#define LOCKSTEP_BEGINS_TEAM
#endif

class TeamOrder {
 public:
#if defined(__SANITIZE_THREAD__)
  void BeforeTeam() { __tsan_release(&began_); }
  void MemberBegins() { __tsan_acquire(&began_); }
  void MemberEnds() { __tsan_release(&ended_); }
  void AfterTeam() { __tsan_acquire(&ended_); }

 private:
  char began_ = 0, ended_ = 0;
#else
  void BeforeTeam() {}
  void MemberBegins() {}
  void MemberEnds() {}
  void AfterTeam() {}
#endif
};

// Calls body(begin, end) on contiguous pieces of [0, count), one per thread. The pieces depend only
// on `count` and the team's size. With one thread it is a plain call without a team.
template <typename Body>
LOCKSTEP_BEGINS_TEAM void ParallelFor(int threads, std::int64_t count, Body body) {
  if (threads == 1 || count <= 1) {
    if (count > 0) body(std::int64_t{0}, count);
    return;
  }
  TeamOrder order;  // local, because another team's order implies nothing for this one
  order.BeforeTeam();
#pragma omp parallel num_threads(threads)
  {
    order.MemberBegins();
    const std::int64_t team = omp_get_num_threads(), rank = omp_get_thread_num();
    const std::int64_t begin = count * rank / team, end = count * (rank + 1) / team;
    if (begin < end) body(begin, end);
    order.MemberEnds();
  }
  order.AfterTeam();
}

// ParallelFor with pieces that are multiples of a cache line, for flat arrays of floats.
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
