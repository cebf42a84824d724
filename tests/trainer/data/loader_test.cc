#include "trainer/data/loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <future>
#include <mutex>
#include <new>
#include <optional>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

#include "trainer/data/prefetch_loader.h"

namespace lockstep::train {
namespace {

// Sample i is one pixel of value i and has label i % 10.
class CountingDataset final : public Dataset {
 public:
  explicit CountingDataset(std::int64_t size, bool in_memory = false)
      : size_(size), in_memory_(in_memory) {}
  std::int64_t size() const override { return size_; }
  const Shape& sample_shape() const override { return shape_; }
  std::int64_t classes() const override { return 10; }
  bool InMemory() const override { return in_memory_; }
  absl::StatusOr<std::int32_t> Read(std::int64_t index,
                                    std::span<std::uint8_t> pixels) const override {
    ++reads;
    if (gate) gate->wait();
    if (!Meet()) return absl::DeadlineExceededError("not enough readers at once");
    {
      const std::lock_guard lock(mutex_);
      readers_.insert(std::this_thread::get_id());
    }
    if (index == too_large_sample) throw std::bad_alloc();
    if (index == wrong_sample) throw std::logic_error("sample " + std::to_string(index));
    if (index == bad_sample) return absl::DataLossError("sample " + std::to_string(index));
    pixels[0] = static_cast<std::uint8_t>(index);
    return bad_label == index ? 10 : static_cast<std::int32_t>(index % 10);
  }

  std::int64_t bad_sample = -1, bad_label = -1;
  std::int64_t too_large_sample = -1, wrong_sample = -1;  // reading throws
  std::optional<std::shared_future<void>> gate;           // reads wait for it
  mutable std::atomic<int> reads{0};
  int meeting = 1;  // so many reads wait for each other, once, and fail without
  std::chrono::milliseconds patience{20'000};

  std::set<std::thread::id> readers() const {
    const std::lock_guard lock(mutex_);
    return readers_;
  }

 private:
  bool Meet() const {
    std::unique_lock lock(mutex_);
    ++arrived_;
    met_.notify_all();
    return met_.wait_for(lock, patience, [&] { return arrived_ >= meeting; });
  }

  mutable std::mutex mutex_;
  mutable std::condition_variable met_;
  mutable int arrived_ = 0;
  mutable std::set<std::thread::id> readers_;
  std::int64_t size_;
  bool in_memory_;
  Shape shape_{1, 1, 1};
};

// Sample i is the two floats i + 0.5 and -i, and has label i % 10.
class FloatDataset final : public Dataset {
 public:
  std::int64_t size() const override { return 10; }
  const Shape& sample_shape() const override { return shape_; }
  DType element() const override { return DType::kFloat32; }
  std::int64_t classes() const override { return 10; }
  bool InMemory() const override { return false; }
  absl::StatusOr<std::int32_t> Read(std::int64_t index,
                                    std::span<std::uint8_t> sample) const override {
    const float values[] = {static_cast<float>(index) + 0.5f, static_cast<float>(-index)};
    std::memcpy(sample.data(), values, sample.size());
    return static_cast<std::int32_t>(index);
  }

 private:
  Shape shape_{2};
};

LoaderOptions Options(std::int64_t examples, std::int64_t batch, int world = 1, int rank = 0) {
  LoaderOptions options;
  options.plan = {.examples = examples, .global_batch = batch, .world = world};
  options.rank = rank;
  return options;
}

bool SameContent(const Batch& a, const Batch& b) {
  return a.step == b.step && a.valid == b.valid && a.first_position == b.first_position &&
         a.pixels == b.pixels && a.features == b.features && a.labels == b.labels &&
         a.weights == b.weights && a.hash_sum == b.hash_sum;
}

TEST(LoaderTest, TailBatchIsPaddedWithWeightZero) {
  const CountingDataset dataset(10, true);
  LoaderOptions options = Options(10, 4);
  options.shuffle = false;
  const auto loader = Loader::Create(dataset, options);
  loader->Seek(2);
  const Batch* batch = *loader->Next();
  EXPECT_EQ(batch->step, 2);
  EXPECT_EQ(batch->valid, 2);
  EXPECT_EQ(batch->first_position, 8);
  EXPECT_THAT(batch->pixels, ::testing::ElementsAre(8, 9, 0, 0));
  EXPECT_THAT(batch->labels, ::testing::ElementsAre(8, 9, 0, 0));
  EXPECT_THAT(batch->weights, ::testing::ElementsAre(1, 1, 0, 0));
  EXPECT_EQ(batch->hash_sum, SampleHash(8) + SampleHash(9));
}

TEST(LoaderTest, FloatsKeepTheirValuesAndArePaddedWithZero) {
  const FloatDataset dataset;
  LoaderOptions options = Options(10, 4);
  options.shuffle = false;
  const auto loader = Loader::Create(dataset, options);
  ASSERT_TRUE(loader->Next().ok());  // fills the rows that are padding later
  loader->Seek(2);
  const Batch* batch = *loader->Next();
  EXPECT_THAT(batch->features, ::testing::ElementsAre(8.5f, -8, 9.5f, -9, 0, 0, 0, 0));
  EXPECT_TRUE(batch->pixels.empty());
}

TEST(LoaderTest, EpochOverAllRanksHasEverySampleOnce) {
  const CountingDataset dataset(101, true);
  std::uint64_t hash_sum = 0;
  std::int64_t count = 0;
  for (int rank = 0; rank < 3; ++rank) {
    const auto loader = Loader::Create(dataset, Options(101, 8, 3, rank));
    for (int step = 0; step < 13; ++step) {
      const Batch* batch = *loader->Next();
      hash_sum += batch->hash_sum;
      count += batch->valid;
    }
  }
  EXPECT_EQ(count, 101);
  EXPECT_EQ(hash_sum, ExpectedHashSum(101));
}

TEST(LoaderTest, ReadAheadGivesTheSameBatchesAsDirect) {
  const CountingDataset slow(57), quick(57, true);
  for (const int prefetch : {1, 2, 5}) {
    LoaderOptions options = Options(57, 8, 2, 1);
    options.prefetch = prefetch;
    const auto ahead = Loader::Create(slow, options), direct = Loader::Create(quick, options);
    for (int step = 0; step < 30; ++step) {
      ASSERT_TRUE(SameContent(**ahead->Next(), **direct->Next())) << step;
    }
  }
}

TEST(LoaderTest, AnyNumberOfThreadsGivesTheSameBatches) {
  const CountingDataset slow(57), quick(57, true);
  ThreadPool pool(7);
  for (const int threads : {1, 2, 3, 8}) {
    for (const int prefetch : {0, 2}) {
      LoaderOptions options = Options(57, 8, 2, 1);
      options.prefetch = prefetch;
      const auto direct = Loader::Create(quick, options);
      options.threads = {&pool, threads};
      const auto helped = Loader::Create(slow, options);
      for (int step = 0; step < 30; ++step) {
        ASSERT_TRUE(SameContent(**helped->Next(), **direct->Next())) << threads << ", " << step;
      }
    }
  }
}

TEST(LoaderTest, ThreadsReadTheRowsOfABatchAtOnce) {
  for (const int prefetch : {0, 1}) {
    CountingDataset dataset(8);
    dataset.meeting = 3;
    ThreadPool pool(2);
    LoaderOptions options = Options(8, 8);
    options.prefetch = prefetch;
    options.threads = {&pool, 3};
    const auto batch = Loader::Create(dataset, options)->Next();
    EXPECT_TRUE(batch.ok()) << batch.status();
    EXPECT_EQ(dataset.readers().size(), 3u);
  }
}

TEST(LoaderTest, DataInMemoryIsReadByTheCallerAlone) {
  CountingDataset dataset(64, true);
  dataset.meeting = 2;
  dataset.patience = std::chrono::milliseconds(100);
  ThreadPool pool(3);
  LoaderOptions options = Options(64, 64);
  options.threads = {&pool, 4};
  EXPECT_TRUE(absl::IsDeadlineExceeded(Loader::Create(dataset, options)->Next().status()));
}

// Row 1 fails after row 3 has.
class TwoErrors final : public Dataset {
 public:
  std::int64_t size() const override { return 4; }
  const Shape& sample_shape() const override { return shape_; }
  std::int64_t classes() const override { return 10; }
  bool InMemory() const override { return false; }
  absl::StatusOr<std::int32_t> Read(std::int64_t index, std::span<std::uint8_t>) const override {
    if (index == 1) last_failed_.get_future().wait();
    if (index == 3) last_failed_.set_value();
    if (index % 2 == 0) return 0;
    return absl::DataLossError("sample " + std::to_string(index));
  }

 private:
  mutable std::promise<void> last_failed_;
  Shape shape_{1, 1, 1};
};

TEST(LoaderTest, TheErrorIsThatOfTheFirstRowWhicheverComesFirst) {
  const TwoErrors dataset;
  ThreadPool pool(1);
  LoaderOptions options = Options(4, 4);
  options.shuffle = false;
  options.threads = {&pool, 2};
  const auto loader = Loader::Create(dataset, options);
  EXPECT_EQ(loader->Next().status(), absl::DataLossError("sample 1"));
}

TEST(LoaderTest, ALackOfMemoryForASampleMayPass) {
  for (const int threads : {1, 3}) {
    CountingDataset dataset(4);
    dataset.too_large_sample = 2;
    ThreadPool pool(2);
    LoaderOptions options = Options(4, 4);
    options.shuffle = false;
    options.threads = {&pool, threads};
    EXPECT_EQ(Loader::Create(dataset, options)->Next().status(),
              absl::UnavailableError("sample 2: no memory to read it"));
  }
}

// On the thread that reads ahead, it would end the process.
TEST(LoaderTest, TheCallerGetsAnExceptionOfReadingAhead) {
  CountingDataset dataset(8);
  dataset.wrong_sample = 5;
  LoaderOptions options = Options(8, 4);
  options.shuffle = false;
  options.end_step = 2;
  const auto loader = Loader::Create(dataset, options);
  EXPECT_TRUE(loader->Next().ok());
  EXPECT_THROW(loader->Next(), std::logic_error);
  EXPECT_THROW(loader->Next(), std::logic_error) << "until a Seek";
  loader->Seek(0);
  EXPECT_TRUE(loader->Next().ok());
}

TEST(LoaderTest, SaysTheBytesOfItsBatches) {
  const LoaderOptions options{.plan = {.examples = 40, .global_batch = 16, .world = 2},
                              .prefetch = 3};
  const std::size_t batch = 8 * (1 + sizeof(std::int32_t) + sizeof(float));  // pixel, label, weight
  EXPECT_EQ(Loader::BytesOfBatches(CountingDataset(40), options), 4 * batch)
      << "three are read ahead, and one is in use";
  EXPECT_EQ(Loader::BytesOfBatches(CountingDataset(40, /*in_memory=*/true), options), batch);
}

TEST(LoaderTest, NothingIsReadBeyondTheEndStep) {
  const CountingDataset dataset(64);
  LoaderOptions options = Options(64, 4);
  options.end_step = 2;
  const auto loader = Loader::Create(dataset, options);
  loader->Seek(1);  // step 0 may have been read
  ASSERT_TRUE(loader->Next().ok());
  for (int trial = 0; trial < 100; ++trial) {
    const int before = dataset.reads;
    loader->Seek(1);
    EXPECT_EQ((*loader->Next())->step, 1);
    EXPECT_EQ(dataset.reads - before, 4);
  }
}

TEST(LoaderTest, SeekIsExactAtAnyMoment) {
  const CountingDataset slow(57), quick(57, true);
  const auto ahead = Loader::Create(slow, Options(57, 8)),
             direct = Loader::Create(quick, Options(57, 8));
  for (std::uint64_t trial = 0; trial < 200; ++trial) {
    const auto step = static_cast<std::int64_t>(SampleHash(static_cast<std::int64_t>(trial)) % 40);
    ahead->Seek(step);
    direct->Seek(step);
    for (std::uint64_t i = 0; i < trial % 4; ++i) {
      const Batch* batch = *ahead->Next();
      ASSERT_EQ(batch->step, step + static_cast<std::int64_t>(i));
      ASSERT_TRUE(SameContent(*batch, **direct->Next()));
    }
  }
}

TEST(LoaderTest, SeekWhileABatchIsBeingReadDropsThatBatch) {
  CountingDataset dataset(8);
  std::promise<void> open;
  dataset.gate = open.get_future().share();
  LoaderOptions options = Options(8, 4);
  options.shuffle = false;
  const auto loader = Loader::Create(dataset, options);
  while (dataset.reads == 0) std::this_thread::yield();  // step 0 is being read
  loader->Seek(1);
  open.set_value();
  const Batch* batch = *loader->Next();
  EXPECT_EQ(batch->step, 1);
  EXPECT_THAT(batch->pixels, ::testing::ElementsAre(4, 5, 6, 7));
}

TEST(LoaderTest, DataInMemoryIsReadOnlyWhenAskedFor) {
  const CountingDataset dataset(8, true);
  const auto loader = Loader::Create(dataset, Options(8, 4));
  EXPECT_EQ(dataset.reads, 0);
  ASSERT_TRUE(loader->Next().ok());
  EXPECT_EQ(dataset.reads, 4);
}

TEST(LoaderTest, BatchIsValidUntilTheNextCall) {
  const CountingDataset dataset(64);
  const auto loader = Loader::Create(dataset, Options(64, 4));
  const Batch* batch = *loader->Next();
  const Batch copy = *batch;
  // Every slot but the held one is filled and filled again while the caller looks at its own.
  while (dataset.reads < 12) std::this_thread::yield();
  EXPECT_TRUE(SameContent(*batch, copy));
}

void ExpectErrorAtStepTwoUntilSeek(Loader& loader) {
  EXPECT_TRUE(loader.Next().ok());
  EXPECT_TRUE(loader.Next().ok());
  for (int attempt = 0; attempt < 2; ++attempt) {
    const auto batch = loader.Next();
    ASSERT_TRUE(absl::IsDataLoss(batch.status()));
    EXPECT_EQ(batch.status().message(), "sample 9");
  }
  loader.Seek(3);
  EXPECT_TRUE(loader.Next().ok());
}

TEST(LoaderTest, ErrorComesAtItsStepAndStays) {
  for (const bool in_memory : {true, false}) {
    CountingDataset dataset(20, in_memory);
    dataset.bad_sample = 9;
    LoaderOptions options = Options(20, 4);
    options.shuffle = false;
    ExpectErrorAtStepTwoUntilSeek(*Loader::Create(dataset, options));
  }
}

TEST(LoaderTest, LabelBeyondTheClassesIsAnError) {
  CountingDataset dataset(4, true);
  dataset.bad_label = 2;
  const auto batch = Loader::Create(dataset, Options(4, 4))->Next();
  EXPECT_TRUE(absl::IsDataLoss(batch.status()));
  EXPECT_EQ(batch.status().message(), "sample 2: label 10, expected 0 to 9");
}

// Sample i is an image whose pixels are all i + 1.
class PlainImages final : public Dataset {
 public:
  std::int64_t size() const override { return 24; }
  const Shape& sample_shape() const override { return shape_; }
  std::int64_t classes() const override { return 1; }
  bool InMemory() const override { return false; }
  absl::StatusOr<std::int32_t> Read(std::int64_t index,
                                    std::span<std::uint8_t> pixels) const override {
    std::ranges::fill(pixels, static_cast<std::uint8_t>(index + 1));
    return 0;
  }

 private:
  Shape shape_{2, 5, 5};
};

// The pixels of two epochs in the order of their positions, whoever reads them.
std::vector<std::uint8_t> EpochsOf(const Dataset& dataset, bool augmented, int world,
                                   int threads = 1) {
  ThreadPool pool(static_cast<std::size_t>(threads - 1));
  std::vector<std::unique_ptr<Loader>> loaders;
  for (int rank = 0; rank < world; ++rank) {
    LoaderOptions options = Options(24, 6, world, rank);
    options.shuffle = false;
    options.threads = {&pool, threads};
    if (augmented) {
      options.augment =
          api::AugmentSpec{.random_crop = api::RandomCropSpec{2}, .cutout = api::CutoutSpec{2}};
    }
    loaders.push_back(Loader::Create(dataset, options));
  }
  std::vector<std::uint8_t> pixels;
  for (int step = 0; step < 8; ++step) {
    for (const auto& loader : loaders) {
      const Batch* batch = *loader->Next();
      const auto bytes = batch->valid * static_cast<std::int64_t>(dataset.sample_bytes());
      pixels.insert(pixels.end(), batch->pixels.begin(), batch->pixels.begin() + bytes);
    }
  }
  return pixels;
}

TEST(LoaderTest, AnyWorldAndAnyNumberOfThreadsAugmentsAlike) {
  const PlainImages dataset;
  const std::vector<std::uint8_t> one = EpochsOf(dataset, true, 1);
  EXPECT_NE(one, EpochsOf(dataset, false, 1));
  EXPECT_EQ(one, EpochsOf(dataset, true, 2));
  EXPECT_EQ(one, EpochsOf(dataset, true, 4));
  EXPECT_EQ(one, EpochsOf(dataset, true, 3, 4));
  const auto half = one.begin() + std::ssize(one) / 2;
  EXPECT_FALSE(std::equal(one.begin(), half, half)) << "another epoch, other changes";
}

TEST(PrefetchLoaderTest, CanBeDestroyedAtAnyMoment) {
  const CountingDataset dataset(64);
  for (int i = 0; i < 50; ++i) {
    PrefetchLoader loader(dataset, Options(64, 4));
    if (i % 2 == 0) {
      ASSERT_TRUE(loader.Next().ok());
    }
  }
}

}  // namespace
}  // namespace lockstep::train
