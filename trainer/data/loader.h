// Returns batches in the sampler's order. Reads ahead on a thread if reading takes time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "api/v1/training_job.h"
#include "base/thread_pool.h"
#include "trainer/data/dataset.h"
#include "trainer/data/sample_hash.h"
#include "trainer/data/sampler.h"
#include "trainer/data/shards.h"

namespace lockstep::train {

struct Batch {
  std::int64_t step = 0;
  std::int64_t valid = 0;           // leading rows that are real samples
  std::int64_t first_position = 0;  // row 0's position in the epoch
  // LocalBatch() samples. Which of the two is used depends on the data set's element(); the other
  // is empty.
  std::vector<std::uint8_t> pixels;
  std::vector<float> features;
  std::vector<std::int32_t> labels;  // LocalBatch()
  std::vector<float> targets;        // LocalBatch(),targets(): empty if labels are classes
  // With mix-up of labels that are classes, LocalBatch(): the share of a row's own class in its
  // label, and the class of the rest. Numbers in `targets` are mixed already. Otherwise empty.
  std::vector<float> shares;
  std::vector<std::int32_t> partners;
  std::vector<float> weights;  // 1 for real rows, 0 for padding
  // Sum of SampleHash(index) over the real rows, modulo 2^64, for the ledger.
  std::uint64_t hash_sum = 0;

  // With mix-up: room for the partners of the first and the last row, which may be outside the
  // batch.
  struct Outside {
    std::vector<std::uint8_t> pixels;
    std::vector<std::int32_t> labels;
    std::vector<float> targets;
  } outside;
};

// The threads that read the samples of a batch: the caller's and, if `count` is above 1, those of
// `pool`, which outlives the loader.
struct ReadingThreads {
  ThreadPool* pool = nullptr;
  int count = 1;
};

struct LoaderOptions {
  StepPlan plan;
  int rank = 0;
  std::uint64_t seed = 1;
  bool shuffle = true;
  int prefetch = 2;        // batches to read ahead; no thread if 0 or if the data is in memory
  ReadingThreads threads;  // unused if the data is in memory
  std::optional<api::AugmentSpec> augment;  // requires that CheckAugment has accepted it
  // What each replica reads of its own; null: all deal from one order. `begun_epoch` began with
  // another number of replicas and keeps its shards: a change of that number in the middle of an
  // epoch must not change its order. -1: no epoch did.
  std::shared_ptr<const Shards> shards, begun_shards;
  std::int64_t begun_epoch = -1;
  // No batch of this step or a later one is read ahead.
  std::int64_t end_step = std::numeric_limits<std::int64_t>::max();
};

inline bool Mixes(const LoaderOptions& options) {
  return options.augment && options.augment->mix_up;
}

// Not thread-safe. Call Seek() after every change of membership.
class Loader {
 public:
  static std::unique_ptr<Loader> Create(const Dataset& dataset, const LoaderOptions& options);
  // The bytes of the batches that Create makes room for.
  static std::size_t BytesOfBatches(const Dataset& dataset, const LoaderOptions& options);
  virtual ~Loader() = default;
  // Makes Next() return the batch of `step`.
  virtual void Seek(std::int64_t step) = 0;
  // Returns the next batch, which is valid until the next call. Batches, and errors, do not depend
  // on the number of threads. They are Gather's, of the first row that cannot be read.
  // Requires: the step is before options.end_step.
  virtual absl::StatusOr<const Batch*> Next() = 0;
};

}  // namespace lockstep::train
