#include "trainer/data/shards.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "base/thread_pool.h"
#include "tests/support/count_allocations.h"
#include "trainer/core/rng.h"
#include "trainer/data/gather.h"
#include "trainer/data/held_out.h"

namespace lockstep::train {
namespace {

using Indices = std::vector<std::int64_t>;

// Sample i is one pixel, and is in the file of the given number.
class FiledDataset final : public Dataset {
 public:
  explicit FiledDataset(Indices files) : files_(std::move(files)) {}
  static FiledDataset OfSizes(const Indices& sizes) {
    Indices files;
    for (std::size_t file = 0; file < sizes.size(); ++file) {
      files.insert(files.end(), static_cast<std::size_t>(sizes[file]),
                   static_cast<std::int64_t>(file));
    }
    return FiledDataset(files);
  }
  std::int64_t size() const override { return std::ssize(files_); }
  const Shape& sample_shape() const override { return shape_; }
  std::int64_t classes() const override { return 1; }
  bool InMemory() const override { return true; }
  std::int64_t files() const override { return 1 + *std::ranges::max_element(files_); }
  std::int64_t FileOf(std::int64_t i) const override { return files_[static_cast<std::size_t>(i)]; }
  absl::StatusOr<std::int32_t> Read(std::int64_t index, std::span<std::uint8_t>) const override {
    read.push_back(index);
    return 0;
  }
  mutable Indices read;

 private:
  const Indices files_;
  const Shape shape_{1};
};

std::shared_ptr<const SampleGroups> FilesOf(const Dataset& data) {
  return std::make_shared<SampleGroups>(SampleGroups::FilesOf(data));
}

Indices GroupOf(const SampleGroups& groups, std::int64_t group) {
  Indices samples;
  for (std::int64_t i = 0; i < groups.size(group); ++i) samples.push_back(groups.At(group, i));
  return samples;
}

std::set<std::int64_t> ShardOf(const Shards& shards, int replica) {
  std::set<std::int64_t> samples;
  for (std::int64_t i = 0; i < shards.size(replica); ++i) samples.insert(shards.At(replica, i));
  return samples;
}

// What each rank reads in an epoch, in its order.
std::vector<Indices> ReadsOf(const EpochOrder& order, const StepPlan& plan) {
  std::vector<Indices> reads(static_cast<std::size_t>(plan.world));
  for (std::int64_t step = 0; step < plan.StepsPerEpoch(); ++step) {
    for (int rank = 0; rank < plan.world; ++rank) {
      const Slice slice = RankSlice(plan, step, rank);
      for (std::int64_t p = slice.begin; p < slice.end; ++p) {
        reads[static_cast<std::size_t>(rank)].push_back(order(p));
      }
    }
  }
  return reads;
}

Indices Sorted(const std::vector<Indices>& lists) {
  Indices all;
  for (const Indices& list : lists) all.insert(all.end(), list.begin(), list.end());
  std::ranges::sort(all);
  return all;
}

Indices UpTo(std::int64_t n) {
  Indices all(static_cast<std::size_t>(n));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

TEST(SampleGroupsTest, FilesWithoutSamplesAreNone) {
  const SampleGroups groups = SampleGroups::FilesOf(FiledDataset::OfSizes({2, 0, 3}));
  ASSERT_EQ(groups.count(), 2);
  EXPECT_EQ(GroupOf(groups, 0), (Indices{0, 1}));
  EXPECT_EQ(GroupOf(groups, 1), (Indices{2, 3, 4}));
}

TEST(SampleGroupsTest, SamplesOfAFileNeedNotBeNeighbours) {
  const SampleGroups groups = SampleGroups::FilesOf(FiledDataset({2, 0, 2, 0, 2}));
  ASSERT_EQ(groups.count(), 2);
  EXPECT_EQ(GroupOf(groups, 0), (Indices{1, 3}));
  EXPECT_EQ(GroupOf(groups, 1), (Indices{0, 2, 4}));
}

// Neither are they once some are held out as the test set.
TEST(SampleGroupsTest, SamplesThatAreNotHeldOutKeepTheirFiles) {
  const auto whole = std::make_shared<FiledDataset>(FiledDataset::OfSizes({30, 30, 30}));
  const TrainAndTest parts = *DivideDataset(whole, 0.25, /*seed=*/1);
  const SampleGroups groups = SampleGroups::FilesOf(*parts.train);
  ASSERT_EQ(groups.count(), 3);
  for (std::int64_t file = 0; file < 3; ++file) {
    EXPECT_GT(groups.size(file), 10);
    for (const std::int64_t i : GroupOf(groups, file)) EXPECT_EQ(parts.train->FileOf(i), file);
  }
}

TEST(ShardsTest, FilesOfOneSizeAreDealtInTurns) {
  const auto groups = FilesOf(FiledDataset::OfSizes({2, 2, 2, 2, 2}));
  const Shards shards(groups, {.examples = 10, .global_batch = 4, .world = 2});
  EXPECT_EQ(ShardOf(shards, 0), (std::set<std::int64_t>{0, 1, 4, 5, 8, 9}));
  EXPECT_EQ(ShardOf(shards, 1), (std::set<std::int64_t>{2, 3, 6, 7}));
}

TEST(ShardsTest, TheLargestFilesAreDealtFirst) {
  const auto groups = FilesOf(FiledDataset::OfSizes({1, 6, 2, 3}));
  const Shards shards(groups, {.examples = 12, .global_batch = 4, .world = 2});
  EXPECT_EQ(ShardOf(shards, 0), (std::set<std::int64_t>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(ShardOf(shards, 1), (std::set<std::int64_t>{0, 7, 8, 9, 10, 11}));
}

// The property that everything rests on. Sizes, batches and numbers of replicas are drawn.
TEST(EpochOrderTest, EverySampleIsReadOnceAndAReplicaReadsItsOwnFirst) {
  int with_rest = 0, without_files = 0;
  for (std::uint64_t trial = 0; trial < 400; ++trial) {
    const PhiloxBlock random = Philox(17, trial, 0);
    const int world = 2 + static_cast<int>(random[0] % 7);
    Indices sizes;
    const std::uint64_t files = 1 + random[1] % (static_cast<std::uint64_t>(world) + 8);
    without_files += files < static_cast<std::uint64_t>(world);
    for (std::uint64_t file = 0; file < files; ++file) {
      sizes.push_back(1 + Philox(17, trial, 1 + file)[0] % 23);
    }
    const FiledDataset data = FiledDataset::OfSizes(sizes);
    const StepPlan plan{
        .examples = data.size(), .global_batch = world + random[2] % 40, .world = world};
    const Shards shards(FilesOf(data), plan);
    with_rest += shards.rest() > 0;
    const EpochOrder order(&shards, /*seed=*/trial, /*epoch=*/3, plan.examples, true);
    const std::vector<Indices> reads = ReadsOf(order, plan);
    ASSERT_EQ(Sorted(reads), UpTo(plan.examples)) << trial;
    for (int rank = 0; rank < world; ++rank) {
      ASSERT_GE(shards.quota(rank), plan.StepsPerEpoch() - 1) << trial << ": none is idle";
      const std::set<std::int64_t> own = ShardOf(shards, rank);
      const Indices& read = reads[static_cast<std::size_t>(rank)];
      ASSERT_EQ(std::ssize(read), shards.quota(rank)) << trial;
      for (std::size_t i = 0; i < read.size(); ++i) {
        ASSERT_EQ(own.contains(read[i]), i < own.size()) << trial << ": read " << i;
      }
    }
  }
  EXPECT_GT(with_rest, 100);
  EXPECT_GT(without_files, 100);
}

TEST(ShardsTest, TheBytesOfTheirTablesAreThoseThatAPlanCounts) {
  const auto expect_bytes = [](const FiledDataset& data, int world, bool is_in_order) {
    const auto groups = FilesOf(data);
    const Shards shards(groups, {.examples = data.size(), .global_batch = 16, .world = world});
    const DealtBytes bytes = BytesOfDealt(groups->count(), data.size(), is_in_order);
    EXPECT_EQ(groups->bytes(), static_cast<std::size_t>(bytes.groups));
    EXPECT_EQ(shards.bytes(), static_cast<std::size_t>(bytes.shards));
  };
  for (const int world : {1, 3, 9}) {
    expect_bytes(FiledDataset::OfSizes({2, 3, 4, 5, 6}), world, true);
    expect_bytes(FiledDataset(UpTo(100)), world, true);
    expect_bytes(FiledDataset({2, 0, 2, 0, 2, 1, 1}), world, false);
    expect_bytes(FiledDataset::OfSizes({7}), world, false);
  }
}

TEST(EpochOrderTest, DependsOnSeedEpochAndReplicas) {
  const FiledDataset data = FiledDataset::OfSizes({20, 20, 20, 20});
  const auto order_of = [&](std::uint64_t seed, std::uint64_t epoch, int world) {
    const StepPlan plan{.examples = 80, .global_batch = 12, .world = world};
    const Shards shards(FilesOf(data), plan);
    const EpochOrder order(&shards, seed, epoch, 80, true);
    Indices all;
    for (std::int64_t p = 0; p < 80; ++p) all.push_back(order(p));
    return all;
  };
  EXPECT_EQ(order_of(1, 0, 2), order_of(1, 0, 2));
  EXPECT_NE(order_of(1, 0, 2), order_of(2, 0, 2));
  EXPECT_NE(order_of(1, 0, 2), order_of(1, 1, 2));
  EXPECT_NE(order_of(1, 0, 2), order_of(1, 0, 4));
}

TEST(EpochOrderTest, WithoutShuffleAReplicaReadsItsFilesInTheirOrder) {
  const FiledDataset data = FiledDataset::OfSizes({3, 3, 3, 3});
  const StepPlan plan{.examples = 12, .global_batch = 4, .world = 2};
  const Shards shards(FilesOf(data), plan);
  const EpochOrder order(&shards, 1, 5, 12, /*shuffle=*/false);
  EXPECT_EQ(ReadsOf(order, plan), (std::vector<Indices>{{0, 1, 2, 6, 7, 8}, {3, 4, 5, 9, 10, 11}}));
}

TEST(EpochOrderTest, WithoutShardsItIsThatOfAllSamples) {
  const EpochOrder order(nullptr, 4, 2, 100, true);
  const Permutation all(4, 2, 100);
  for (std::int64_t p = 0; p < 100; ++p) EXPECT_EQ(order(p), all(p));
}

// Off: where the batch divides, each replica reads each sample of the set once.
TEST(EpochOrderTest, EachReplicaHasACopyInAnOrderOfItsOwn) {
  const StepPlan plan{.examples = 3 * 20, .global_batch = 6, .world = 3};
  const Shards shards(std::make_shared<SampleGroups>(SampleGroups::Copies(20, 3)), plan);
  const EpochOrder order(&shards, 1, 0, plan.examples, true);
  const std::vector<Indices> reads = ReadsOf(order, plan);
  EXPECT_EQ(Sorted(reads), UpTo(60));
  std::set<Indices> orders;
  for (std::size_t rank = 0; rank < 3; ++rank) {
    Indices samples;
    for (const std::int64_t copy : reads[rank]) {
      EXPECT_EQ(copy / 20, static_cast<std::int64_t>(rank));
      samples.push_back(copy % 20);
    }
    EXPECT_TRUE(orders.insert(samples).second);
    EXPECT_EQ(Sorted({samples}), UpTo(20));
  }
}

LoaderOptions OptionsOf(const FiledDataset& data, int world, int rank) {
  LoaderOptions options;
  options.plan = {.examples = data.size(), .global_batch = 8, .world = world};
  options.rank = rank;
  if (world > 1) options.shards = std::make_shared<Shards>(FilesOf(data), options.plan);
  return options;
}

void Read(const FiledDataset& data, const LoaderOptions& options, std::int64_t step) {
  Batch batch = MakeBatch(data, options.plan);
  EpochOrders orders(options);
  ASSERT_TRUE(Gather(data, options, step, orders, batch).ok());
}

TEST(GatherTest, ARankReadsItsFilesAndNoOthers) {
  for (int rank = 0; rank < 2; ++rank) {
    const FiledDataset data = FiledDataset::OfSizes({20, 20, 20, 20});
    for (std::int64_t step = 0; step < 20; ++step) Read(data, OptionsOf(data, 2, rank), step);
    EXPECT_EQ(std::ssize(data.read), 80) << "two epochs";
    for (const std::int64_t i : data.read) EXPECT_EQ(data.FileOf(i) % 2, rank);
  }
}

TEST(GatherTest, ACopyOfASampleIsThatSample) {
  const FiledDataset data = FiledDataset::OfSizes({16});
  for (int rank = 0; rank < 2; ++rank) {
    LoaderOptions options = OptionsOf(data, 1, 0);
    options.rank = rank;
    options.plan = {.examples = 32, .global_batch = 8, .world = 2};
    options.shards = std::make_shared<Shards>(
        std::make_shared<SampleGroups>(SampleGroups::Copies(16, 2)), options.plan);
    data.read.clear();
    for (std::int64_t step = 0; step < 4; ++step) Read(data, options, step);
    EXPECT_EQ(Sorted({data.read}), UpTo(16));
  }
}

// Whatever number of ranks goes on with it.
TEST(GatherTest, AnEpochThatHasBegunKeepsItsOrder) {
  const FiledDataset data = FiledDataset::OfSizes({7, 9, 12, 4, 8});
  for (const int begun : {1, 2, 4}) {
    for (const int world : {1, 2, 3, 4}) {
      data.read.clear();
      for (std::int64_t step = 5; step < 10; ++step) {  // the second epoch
        const int now = step < 7 ? begun : world;
        for (int rank = 0; rank < now; ++rank) {
          LoaderOptions options = OptionsOf(data, now, rank);
          options.begun_epoch = 1;
          options.begun_shards = OptionsOf(data, begun, 0).shards;
          Read(data, options, step);
        }
      }
      EXPECT_EQ(Sorted({data.read}), UpTo(40)) << begun << " replicas, then " << world;
    }
  }
}

// The steps are of the second epoch, which began with three replicas, and of the third.
TEST(GatherTest, OrdersThatAreKeptAreThoseOfTheirEpoch) {
  const FiledDataset data = FiledDataset::OfSizes({7, 9, 12, 4, 8});
  LoaderOptions options = OptionsOf(data, 2, 1);
  options.begun_epoch = 1;
  options.begun_shards = OptionsOf(data, 3, 0).shards;
  const auto read = [&](EpochOrders& orders, std::int64_t step) {
    data.read.clear();
    Batch batch = MakeBatch(data, options.plan);
    EXPECT_TRUE(Gather(data, options, step, orders, batch).ok());
    return data.read;
  };
  EpochOrders kept(options);
  for (const std::int64_t step : {5, 6, 9, 10, 11, 9, 10}) {
    EpochOrders fresh(options);
    EXPECT_EQ(read(kept, step), read(fresh, step)) << step;
  }
}

// Not even with shards, whose order has a table of the replicas.
TEST(GatherTest, ABatchOfAnEpochThatHasBegunAllocatesNothing) {
  const FiledDataset data = FiledDataset::OfSizes({10, 10, 10, 10});
  const LoaderOptions options = OptionsOf(data, 4, 1);
  Batch batch = MakeBatch(data, options.plan);
  EpochOrders orders(options);
  data.read.reserve(100);
  ASSERT_TRUE(Gather(data, options, 0, orders, batch).ok());
  const long before = Allocations();
  for (std::int64_t step = 1; step < 5; ++step) {
    ASSERT_TRUE(Gather(data, options, step, orders, batch).ok());
  }
  EXPECT_EQ(Allocations(), before);
}

TEST(GatherTest, TheNextEpochDealsTheFilesAnew) {
  const FiledDataset data = FiledDataset::OfSizes({10, 10, 10, 10});
  LoaderOptions options = OptionsOf(data, 2, 1);
  options.begun_epoch = 0;
  options.begun_shards = OptionsOf(data, 4, 0).shards;
  for (std::int64_t step = 5; step < 10; ++step) Read(data, options, step);
  for (const std::int64_t i : data.read) EXPECT_EQ(data.FileOf(i) % 2, 1);
}

}  // namespace
}  // namespace lockstep::train
