#include "trainer/data/sampler.h"

#include <algorithm>

#include "base/check.h"
#include "trainer/core/rng.h"

namespace lockstep::train {
namespace {

// The Feistel network's round function: SplitMix64's finalizer, in which each bit affects all.
std::uint64_t Mix(std::uint64_t value, std::uint64_t key) {
  std::uint64_t z = value + key;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
  return z ^ (z >> 31);
}

}  // namespace

Permutation::Permutation(std::uint64_t seed, std::uint64_t epoch, std::int64_t n, bool shuffle)
    : n_(n), shuffle_(shuffle) {
  LOCKSTEP_CHECK(n >= 1 && n <= (std::int64_t{1} << 60), "permutation of {} samples", n);
  while ((std::int64_t{1} << (2 * half_bits_)) < n) ++half_bits_;
  const std::uint64_t epoch_key = DeriveKey(seed, epoch);
  for (std::uint64_t round = 0; round < 4; ++round) keys_[round] = DeriveKey(epoch_key, round);
}

std::int64_t Permutation::operator()(std::int64_t position) const {
  LOCKSTEP_CHECK(position >= 0 && position < n_, "position {} of {}", position, n_);
  if (!shuffle_) return position;
  const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
  auto value = static_cast<std::uint64_t>(position);
  // Values at or above n pass through the network again: at most four passes on average, because
  // its domain is at most four times n.
  do {
    std::uint64_t left = value >> half_bits_, right = value & mask;
    for (const std::uint64_t key : keys_) {
      const std::uint64_t mixed = left ^ (Mix(right, key) & mask);
      left = right;
      right = mixed;
    }
    value = (left << half_bits_) | right;
  } while (value >= static_cast<std::uint64_t>(n_));
  return static_cast<std::int64_t>(value);
}

std::int64_t StepPlan::StepsPerEpoch() const {
  return (examples + global_batch - 1) / global_batch;
}

std::int64_t StepPlan::LocalBatch() const {
  return (global_batch + world - 1) / world;
}

std::int64_t StepPlan::Epoch(std::int64_t step) const {
  return step / StepsPerEpoch();
}

std::int64_t StepPlan::StepInEpoch(std::int64_t step) const {
  return step % StepsPerEpoch();
}

std::int64_t StepPlan::GlobalExamples(std::int64_t step) const {
  return std::min(global_batch, examples - StepInEpoch(step) * global_batch);
}

Slice RankSlice(const StepPlan& plan, std::int64_t step, int rank) {
  LOCKSTEP_CHECK(rank >= 0 && rank < plan.world, "rank {} of {}", rank, plan.world);
  const std::int64_t first = plan.StepInEpoch(step) * plan.global_batch;
  const std::int64_t count = plan.GlobalExamples(step);
  // Equal shares, so that in a short step no rank is without samples while others have several.
  return {first + count * rank / plan.world, first + count * (rank + 1) / plan.world};
}

}  // namespace lockstep::train
