// The sum of the gradients that make one update of parameter servers with mode Sync.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "trainer/backend/backend.h"
#include "trainer/core/arena.h"

namespace lockstep::train {

// Adds numbered parts in the order of their numbers, whatever the order in which they come, so that
// the sum has the same bits each time. Parts 0 and 1 have the same sum in either order. Not
// thread-safe.
class PartSum {
 public:
  // Requires: `backend` is a host back end and outlives the sum.
  explicit PartSum(Backend& backend) : backend_(backend) {}

  // Allocates a sum of this many floats and begins it. Throws std::bad_alloc.
  void Allocate(std::int64_t floats);
  // Forgets all parts.
  void Begin();
  bool Has(int part) const;
  // Adds the part, or keeps a copy until those before it have come. `pieces` have the sum's floats
  // one after the other; none: the part counts and changes nothing. Requires: it has not come, and
  // is 0 or above.
  void Add(int part, std::span<const std::span<const float>> pieces);
  int added() const { return next_; }  // the parts from 0 on, without those that are kept
  // The floats of the sum; zeros if no part has changed them.
  const float* Floats();

 private:
  void AddPieces(std::span<const std::span<const float>> pieces);
  void Keep(int part, std::span<const std::span<const float>> pieces);
  void AddKept();

  Backend& backend_;
  std::unique_ptr<Arena> sum_;
  std::int64_t size_ = 0;
  bool is_empty_ = true;  // the floats are those of an earlier step
  int next_ = 0;
  bool has_1_ = false;                      // part 1 is in the sum, while next_ is 0
  std::map<int, std::vector<float>> kept_;  // came before their turn; empty: changes nothing
  std::vector<std::vector<float>> spare_;   // reused by kept_: to allocate is slow
};

}  // namespace lockstep::train
