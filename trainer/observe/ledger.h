// Accounts for the samples that updates used, and checks at the end of every epoch that each was
// used exactly once, across failures, changes of membership and resumes.
#pragma once

#include <array>
#include <cstdint>

#include "absl/status/statusor.h"

namespace lockstep::train {

// A plain value, equal on all ranks, because all add the sums over all ranks.
class Ledger {
 public:
  // Adds a step after its update: the number of its real samples and the sum of their SampleHash,
  // over all ranks.
  void Add(std::int64_t count, std::uint64_t hash_sum);

  struct Verdict {
    // Lower bounds of samples that were left out or used again. If the count is right but the hash
    // is not, equally many were lost and duplicated, at least one each.
    std::int64_t lost = 0, duplicated = 0;
    bool operator==(const Verdict&) const = default;
  };
  // Checks an epoch over `n` samples at its end. Adds the verdict to the totals, then resets.
  Verdict Check(std::int64_t n);

  // Forgets the samples of an epoch that does not come to its end.
  void AbandonEpoch();

  std::int64_t count() const { return count_; }  // since the start of the epoch
  std::uint64_t hash_sum() const { return hash_sum_; }
  std::int64_t lost_total() const { return lost_total_; }
  std::int64_t duplicated_total() const { return duplicated_total_; }
  std::int64_t epochs_checked() const { return epochs_checked_; }

  // The full state, for a broadcast or a checkpoint. InvalidArgument: a count is negative.
  using Integers = std::array<std::int64_t, 5>;
  Integers ToIntegers() const;
  static absl::StatusOr<Ledger> FromIntegers(const Integers& integers);
  bool operator==(const Ledger&) const = default;

 private:
  std::int64_t count_ = 0;
  std::uint64_t hash_sum_ = 0;
  std::int64_t lost_total_ = 0, duplicated_total_ = 0, epochs_checked_ = 0;
};

}  // namespace lockstep::train
