// Batches in the order of the sampler, read ahead by a thread where reading costs anything.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "trainer/data/dataset.h"
#include "trainer/data/sample_hash.h"
#include "trainer/data/sampler.h"

namespace lockstep::train {

struct Batch {
  std::int64_t step = 0;
  std::int64_t valid = 0;            // leading rows that are real samples
  std::int64_t first_position = 0;   // of row 0 in the epoch
  std::vector<std::uint8_t> pixels;  // LocalBatch() * C*H*W
  std::vector<std::int32_t> labels;  // LocalBatch()
  std::vector<float> weights;        // 1 for real rows, 0 for padding
  // Sum of SampleHash(index) over the real rows, modulo 2^64: the ledger's proof.
  std::uint64_t hash_sum = 0;
};

struct LoaderOptions {
  StepPlan plan;
  int rank = 0;
  std::uint64_t seed = 1;
  bool shuffle = true;
  int prefetch = 2;  // batches ahead; 0, or data in memory: no thread
};

// Used by one thread. Seek() after every change of membership.
class Loader {
 public:
  static std::unique_ptr<Loader> Create(const Dataset& dataset, const LoaderOptions& options);
  virtual ~Loader() = default;
  // The next batch is that of `step`.
  virtual void Seek(std::int64_t step) = 0;
  // Valid until the next call. DataLoss if a sample cannot be read.
  virtual absl::StatusOr<const Batch*> Next() = 0;
};

}  // namespace lockstep::train
