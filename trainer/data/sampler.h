// Selects the samples of a rank's step: pure functions of (seed, epoch, step, rank, world). An
// epoch's order is a keyed permutation of [0, n): a four-round Feistel network over the next power
// of four with cycle walking (Black & Rogaway, "Ciphers with arbitrary finite domains", 2002). Its
// state is a few integers and does not depend on the number of ranks.
#pragma once

#include <cstdint>

namespace lockstep::train {

class Permutation {
 public:
  // Requires: 1 <= n <= 2^60. With shuffle = false it is the identity.
  Permutation(std::uint64_t seed, std::uint64_t epoch, std::int64_t n, bool shuffle = true);
  std::int64_t operator()(std::int64_t position) const;

 private:
  std::int64_t n_;
  bool shuffle_;
  int half_bits_ = 1;
  std::uint64_t keys_[4] = {};
};

// Steps never cross an epoch's end: an epoch's last step may be short and is padded with weight 0.
struct StepPlan {
  std::int64_t examples = 0;  // size of the data set
  std::int64_t global_batch = 0;
  int world = 1;
  // True: an epoch's order depends on `world` at its beginning, see shards.h.
  bool deals_files = false;

  std::int64_t StepsPerEpoch() const;  // ceil(examples / global_batch)
  std::int64_t LocalBatch() const;     // ceil(global_batch / world): rows in each rank's batch
  std::int64_t Epoch(std::int64_t step) const;
  std::int64_t StepInEpoch(std::int64_t step) const;
  std::int64_t GlobalExamples(std::int64_t step) const;  // real samples of all ranks in `step`
};

// The positions of the epoch that `rank` reads in `step`: [begin, end), at most LocalBatch() long.
// The ranks' slices are disjoint and cover the step's positions.
struct Slice {
  std::int64_t begin = 0, end = 0;
  bool operator==(const Slice&) const = default;
};
Slice RankSlice(const StepPlan& plan, std::int64_t step, int rank);

}  // namespace lockstep::train
