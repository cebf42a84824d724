#include "trainer/comm/sum_ranks.h"

#include <algorithm>
#include <array>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace lockstep::train {
namespace {

constexpr std::size_t kLineFloats = 16;

// In tiles that stay in the cache. They overlap no rank's memory, so that any compiler vectorizes
// the loop.
void SumTiles(std::span<float* const> ranks, std::size_t begin, std::size_t end) {
  std::array<float, 1024> sums;
  for (std::size_t count = 0; begin < end; begin += count) {
    count = std::min(sums.size(), end - begin);
    std::copy_n(ranks[0] + begin, count, sums.data());
    for (std::size_t r = 1; r < ranks.size(); ++r) {
      const float* const values = ranks[r] + begin;
      for (std::size_t i = 0; i < count; ++i) sums[i] += values[i];
    }
    for (float* rank : ranks) std::copy_n(sums.data(), count, rank + begin);
  }
}

#if defined(__x86_64__)
// Adds four vectors per iteration, to keep enough loads in flight. Returns where it stopped.
__attribute__((target("avx"))) std::size_t SumAvx(std::span<float* const> ranks, std::size_t begin,
                                                  std::size_t end) {
  constexpr std::size_t kWidth = 8, kStep = 4 * kWidth;
  std::size_t i = begin;
  for (; i + kStep <= end; i += kStep) {
    __m256 a = _mm256_loadu_ps(ranks[0] + i), b = _mm256_loadu_ps(ranks[0] + i + kWidth);
    __m256 c = _mm256_loadu_ps(ranks[0] + i + 2 * kWidth);
    __m256 d = _mm256_loadu_ps(ranks[0] + i + 3 * kWidth);
    for (std::size_t r = 1; r < ranks.size(); ++r) {
      const float* x = ranks[r] + i;
      a = _mm256_add_ps(a, _mm256_loadu_ps(x));
      b = _mm256_add_ps(b, _mm256_loadu_ps(x + kWidth));
      c = _mm256_add_ps(c, _mm256_loadu_ps(x + 2 * kWidth));
      d = _mm256_add_ps(d, _mm256_loadu_ps(x + 3 * kWidth));
    }
    for (float* rank : ranks) {
      _mm256_storeu_ps(rank + i, a);
      _mm256_storeu_ps(rank + i + kWidth, b);
      _mm256_storeu_ps(rank + i + 2 * kWidth, c);
      _mm256_storeu_ps(rank + i + 3 * kWidth, d);
    }
  }
  return i;
}
#endif

}  // namespace

void SumRanks(std::span<float* const> ranks, std::size_t begin, std::size_t end) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx")) begin = SumAvx(ranks, begin, end);
#endif
  SumTiles(ranks, begin, end);
}

std::pair<std::size_t, std::size_t> ShareOf(int rank, int size, std::size_t count) {
  const auto ranks = static_cast<std::size_t>(size);
  const std::size_t lines = (count + kLineFloats - 1) / kLineFloats;
  const std::size_t share = (lines + ranks - 1) / ranks * kLineFloats;
  const std::size_t begin = std::min(static_cast<std::size_t>(rank) * share, count);
  return {begin, std::min(begin + share, count)};
}

}  // namespace lockstep::train
