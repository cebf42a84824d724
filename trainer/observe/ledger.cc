#include "trainer/observe/ledger.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "trainer/data/sample_hash.h"

namespace lockstep::train {

void Ledger::Add(std::int64_t count, std::uint64_t hash_sum) {
  count_ += count;
  hash_sum_ += hash_sum;
}

Ledger::Verdict Ledger::Check(std::int64_t n) {
  Verdict verdict{std::max<std::int64_t>(n - count_, 0), std::max<std::int64_t>(count_ - n, 0)};
  if (count_ == n && hash_sum_ != ExpectedHashSum(n)) verdict = {1, 1};
  lost_total_ += verdict.lost;
  duplicated_total_ += verdict.duplicated;
  ++epochs_checked_;
  AbandonEpoch();
  return verdict;
}

void Ledger::AbandonEpoch() {
  count_ = 0;
  hash_sum_ = 0;
}

Ledger::Integers Ledger::ToIntegers() const {
  return {count_, std::bit_cast<std::int64_t>(hash_sum_), lost_total_, duplicated_total_,
          epochs_checked_};
}

absl::StatusOr<Ledger> Ledger::FromIntegers(const Integers& integers) {
  for (const std::size_t i : {0, 2, 3, 4}) {
    if (integers[i] < 0) {
      return absl::InvalidArgumentError(
          fmt::format("ledger: integer {} is {}, expected at least 0", i, integers[i]));
    }
  }
  Ledger ledger;
  ledger.count_ = integers[0];
  ledger.hash_sum_ = std::bit_cast<std::uint64_t>(integers[1]);
  ledger.lost_total_ = integers[2];
  ledger.duplicated_total_ = integers[3];
  ledger.epochs_checked_ = integers[4];
  return ledger;
}

}  // namespace lockstep::train
