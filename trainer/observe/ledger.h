// Keeps count of the samples that updates were made from, and shows at the end of every epoch that
// each was used exactly once: whatever failed, regrouped or resumed in between.
#pragma once

#include <array>
#include <cstdint>

#include "absl/status/statusor.h"

namespace lockstep::train {

// A plain value. All ranks hold the same one: they add the sums over all ranks.
class Ledger {
 public:
  // After a step's update: its real samples and the sum of their SampleHash, over all ranks.
  void Add(std::int64_t count, std::uint64_t hash_sum);

  struct Verdict {
    // At least so many samples were left out or used again. If the count is right and the hash is
    // not, then as many were lost as duplicated, and one of each is what is sure.
    std::int64_t lost = 0, duplicated = 0;
    bool exact() const { return lost == 0 && duplicated == 0; }
    bool operator==(const Verdict&) const = default;
  };
  // At the end of an epoch over `n` samples. Adds the verdict to the totals and starts anew.
  Verdict Check(std::int64_t n);

  std::int64_t count() const { return count_; }  // since the epoch's start
  std::uint64_t hash_sum() const { return hash_sum_; }
  std::int64_t lost_total() const { return lost_total_; }
  std::int64_t duplicated_total() const { return duplicated_total_; }
  std::int64_t epochs_checked() const { return epochs_checked_; }

  // All of it, for a broadcast or a checkpoint. InvalidArgument: a negative count.
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
