// Orders of an epoch in which each replica reads samples of its own: files of the set
// (tf.data's AutoShardPolicy.FILE), or a copy of the whole set (AutoShardPolicy.OFF). Such an order
// is a permutation of the epoch's samples, like the one without shards, so that each is used once.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "trainer/data/dataset.h"
#include "trainer/data/sampler.h"

namespace lockstep::train {

// Samples that are dealt out together. Immutable.
class SampleGroups {
 public:
  // The files of `data`, in their order, without those that have no samples.
  static SampleGroups FilesOf(const Dataset& data);
  // `count` copies of `samples` samples: number c * samples + i is sample i of copy c.
  static SampleGroups Copies(std::int64_t samples, int count);

  std::int64_t count() const { return static_cast<std::int64_t>(ends_.size()); }
  std::int64_t size(std::int64_t group) const { return ends_[Index(group)] - begin(group); }
  // Returns sample `i` of a group. Requires: 0 <= i < size(group).
  std::int64_t At(std::int64_t group, std::int64_t i) const;
  // The size of its tables.
  std::size_t bytes() const {
    return (ends_.capacity() + samples_.capacity()) * sizeof(std::int64_t);
  }

 private:
  static std::size_t Index(std::int64_t i) { return static_cast<std::size_t>(i); }
  std::int64_t begin(std::int64_t group) const { return group == 0 ? 0 : ends_[Index(group - 1)]; }

  std::vector<std::int64_t> ends_;     // of each group, where they stand one after the other
  std::vector<std::int64_t> samples_;  // in that order; empty: it is that of the data set
};

// Deals groups to the plan.world replicas of an epoch's beginning. Immutable; a function of its
// arguments, so that all ranks have the same.
class Shards {
 public:
  // The largest group goes first, each to the replica that has the fewest samples so far, and of
  // those to the first: groups of one size go to the replicas in turns. Requires: `groups` have
  // plan.examples samples.
  Shards(std::shared_ptr<const SampleGroups> groups, const StepPlan& plan);

  int replicas() const { return plan_.world; }
  std::int64_t samples() const { return plan_.examples; }
  std::size_t bytes() const;  // the size of its tables
  // How many samples the groups of a replica have.
  std::int64_t size(int replica) const { return shards_[static_cast<std::size_t>(replica)].size; }
  // How many samples a replica reads in an epoch.
  std::int64_t quota(int replica) const { return shards_[static_cast<std::size_t>(replica)].quota; }
  // Returns sample `i` of a replica's groups. Requires: 0 <= i < size(replica).
  std::int64_t At(int replica, std::int64_t i) const;

  // The `turn`-th sample that `replica` reads in the epoch.
  struct Turn {
    int replica = 0;
    std::int64_t turn = 0;
    bool operator==(const Turn&) const = default;
  };
  // Who reads at a position of the epoch, by RankSlice.
  Turn TurnAt(std::int64_t position) const;

  // The samples beyond a replica's quota are read by those that have fewer than theirs. Both are
  // numbered from 0 to rest(), replica by replica.
  std::int64_t rest() const { return rest_; }
  // Requires: turn.turn >= size(turn.replica).
  std::int64_t RestNumber(const Turn& turn) const;
  Turn RestAt(std::int64_t number) const;

 private:
  struct Shard {
    std::vector<std::int64_t> groups, ends;  // `ends`: samples up to and with each group
    std::int64_t size = 0, quota = 0;
    std::int64_t surplus_before = 0, deficit_before = 0;  // sums over the replicas before
  };

  std::shared_ptr<const SampleGroups> groups_;
  StepPlan plan_;
  std::vector<Shard> shards_;
  std::int64_t rest_ = 0;
};

// The bytes of SampleGroups::FilesOf, and of Shards of these groups, for any number of replicas.
struct DealtBytes {
  std::int64_t groups = 0, shards = 0;
};
// `is_in_order`: the samples of a file are neighbours, and follow those of the file before.
DealtBytes BytesOfDealt(std::int64_t files, std::int64_t samples, bool is_in_order);

// The order of one epoch. Without shards, it is Permutation's. With shards, a replica reads its own
// samples in an order of their own, and when they are used up, those that others have left over.
class EpochOrder {
 public:
  // Requires: `shards`, if not null, outlives this and has n samples.
  EpochOrder(const Shards* shards, std::uint64_t seed, std::uint64_t epoch, std::int64_t n,
             bool shuffle);
  std::int64_t operator()(std::int64_t position) const;

 private:
  std::int64_t Own(const Shards::Turn& turn) const;

  const Shards* shards_;
  std::optional<Permutation> all_;               // without shards
  std::vector<std::optional<Permutation>> own_;  // of each replica that has samples
  std::optional<Permutation> rest_;
};

}  // namespace lockstep::train
