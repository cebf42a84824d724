#include "trainer/data/mix_up.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <numbers>
#include <utility>
#include <vector>

#include "base/thread_pool.h"
#include "tests/trainer/backend/golden_file.h"
#include "trainer/core/rng.h"
#include "trainer/data/gather.h"

namespace lockstep::train {
namespace {

TEST(MixUpTest, TheLogarithmAndTheExponentialAreThoseOfTheLibrary) {
  for (const double x : {0x1p-160, 1e-9, 0.1, 0.5, 0.7, 0.71, 0.99, 1.0, 1.01, 2.0, 3e7}) {
    EXPECT_NEAR(PortableLog(x), std::log(x), 1e-14 * std::max(1.0, std::abs(std::log(x)))) << x;
  }
  for (const double x : {-650.0, -30.0, -0.35, -1e-9, 0.0, 0.2, 0.34, 0.35, 1.0, 25.0, 600.0}) {
    EXPECT_NEAR(PortableExp(x) / std::exp(x), 1, 1e-12) << x;
  }
}

TEST(MixUpTest, NeighboursArePartnersAndTheLastOneJoinsThemIfItIsAlone) {
  const auto partners = [](std::int64_t n) {
    std::vector<std::int64_t> all;
    for (std::int64_t p = 0; p < n; ++p) all.push_back(PartnerOf(p, n));
    return all;
  };
  EXPECT_THAT(partners(6), ::testing::ElementsAre(1, 0, 3, 2, 5, 4));
  EXPECT_THAT(partners(5), ::testing::ElementsAre(1, 0, 3, 2, 3));
  EXPECT_THAT(partners(1), ::testing::ElementsAre(0));
}

// I_x(a, a), where it has a closed form.
struct Known {
  double alpha;
  std::function<double(double)> below;
};

double SumOfBinomials(double x) {  // a = 4
  double sum = 0;
  const double choose[] = {35, 21, 7, 1};
  for (int j = 4; j <= 7; ++j) sum += choose[j - 4] * std::pow(x, j) * std::pow(1 - x, 7 - j);
  return sum;
}

TEST(MixUpTest, WeightsAreDrawnFromTheBetaDistribution) {
  const Known distributions[] = {
      {0.5, [](double x) { return 2 / std::numbers::pi * std::asin(std::sqrt(x)); }},
      {1, [](double x) { return x; }},
      {2, [](double x) { return x * x * (3 - 2 * x); }},
      {4, SumOfBinomials}};
  constexpr int kDraws = 40'000;
  for (const auto& [alpha, below] : distributions) {
    std::vector<double> drawn;
    for (int i = 0; i < kDraws; ++i) drawn.push_back(ShareOf(DrawMix(alpha, 1, 0, i)));
    for (const double x : {0.05, 0.1, 0.25, 0.5, 0.8, 0.95}) {
      const auto count = std::ranges::count_if(drawn, [&](double share) { return share < x; });
      // Five standard deviations of the count.
      EXPECT_NEAR(static_cast<double>(count) / kDraws, below(x), 5 * 0.5 / std::sqrt(kDraws))
          << "alpha " << alpha << ", below " << x;
    }
  }
}

TEST(MixUpTest, SmallAndLargeAlphasHaveTheVarianceOfTheirDistribution) {
  constexpr int kDraws = 40'000;
  for (const double alpha : {0.01, 0.1, 0.2, 0.4, 1.5, 8.0, 100.0}) {
    double sum = 0, squares = 0;
    for (int i = 0; i < kDraws; ++i) {
      const double share = ShareOf(DrawMix(alpha, 2, 3, i));
      ASSERT_GE(share, 0);
      ASSERT_LE(share, 1);
      sum += share;
      squares += (share - 0.5) * (share - 0.5);
    }
    const double variance = 1 / (4 * (2 * alpha + 1));
    EXPECT_NEAR(sum / kDraws, 0.5, 5 * std::sqrt(variance / kDraws)) << alpha;
    EXPECT_NEAR(squares / kDraws, variance, 0.03 * variance) << alpha;
  }
}

TEST(MixUpTest, TheSmallestAlphaTakesOneOfBoth) {
  int own = 0;
  for (int i = 0; i < 1000; ++i) {
    const std::uint32_t weight = DrawMix(1e-300, 1, 0, i);
    ASSERT_TRUE(weight == 0 || weight == kMixUnit) << weight;
    own += weight == kMixUnit;
  }
  EXPECT_NEAR(own, 500, 80);
}

TEST(MixUpTest, AWeightDependsOnSeedEpochAndPosition) {
  EXPECT_EQ(DrawMix(0.4, 1, 2, 3), DrawMix(0.4, 1, 2, 3));
  EXPECT_NE(DrawMix(0.4, 1, 2, 3), DrawMix(0.4, 2, 2, 3));
  EXPECT_NE(DrawMix(0.4, 1, 2, 3), DrawMix(0.4, 1, 3, 3));
  EXPECT_NE(DrawMix(0.4, 1, 2, 3), DrawMix(0.4, 1, 2, 4));
}

std::uint8_t Rounded(std::uint32_t weight, std::uint8_t own, std::uint8_t other) {
  const double share = weight / 65536.0;
  return static_cast<std::uint8_t>(std::floor(share * own + (1 - share) * other + 0.5));
}

TEST(MixUpTest, BytesBecomeRoundedMeans) {
  for (const std::uint32_t weight : {0u, 1u, 13107u, 32768u, 65535u, 65536u}) {
    for (int own = 0; own < 256; own += 5) {
      for (int other = 0; other < 256; other += 3) {
        std::vector<std::uint8_t> a(1, static_cast<std::uint8_t>(own));
        std::vector<std::uint8_t> b(1, static_cast<std::uint8_t>(other));
        std::vector<std::uint8_t> alone = a;
        MixBytes(weight, b, alone);
        ASSERT_EQ(alone[0], Rounded(weight, a[0], b[0]));
        const std::uint8_t next = Rounded(kMixUnit - weight / 2, b[0], a[0]);
        MixPair(weight, kMixUnit - weight / 2, a, b);
        ASSERT_EQ(a[0], alone[0]);
        ASSERT_EQ(b[0], next);
      }
    }
  }
}

// Keras' layer mixes the same images, in float64, by the same weights.
TEST(MixUpTest, ImagesAndLabelsAreThoseOfKerasButForTheRounding) {
  const nlohmann::json golden = GoldenFile("mix_up");
  const auto images = golden["images"].get<std::vector<std::vector<std::uint8_t>>>();
  const auto weights = golden["weights"].get<std::vector<std::uint32_t>>();
  const auto partners = golden["partners"].get<std::vector<std::size_t>>();
  for (std::size_t i = 0; i < images.size(); ++i) {
    std::vector<std::uint8_t> mixed = images[i];
    MixBytes(weights[i], images[partners[i]], mixed);
    for (std::size_t pixel = 0; pixel < mixed.size(); ++pixel) {
      EXPECT_NEAR(mixed[pixel], golden["mixedImages"][i][pixel].get<double>(), 0.5 + 1e-9);
    }
    auto label = golden["labels"][i].get<std::vector<float>>();
    MixNumbers(ShareOf(weights[i]), golden["labels"][partners[i]].get<std::vector<float>>(), label);
    for (std::size_t k = 0; k < label.size(); ++k) {
      EXPECT_NEAR(label[k], golden["mixedLabels"][i][k].get<double>(), 1e-6);
    }
  }
}

// Sample i has drawn pixels, the class i % 10, and, if it has numbers, i and 1 / (i + 1).
class Images final : public Dataset {
 public:
  Images(std::int64_t size, std::int64_t numbers = 0) : size_(size), numbers_(numbers) {}
  std::int64_t size() const override { return size_; }
  const Shape& sample_shape() const override { return shape_; }
  std::int64_t classes() const override { return 10; }
  std::int64_t targets() const override { return numbers_; }
  bool InMemory() const override { return false; }
  std::int64_t files() const override { return 3; }
  std::int64_t FileOf(std::int64_t index) const override { return index * 3 / size_; }
  absl::StatusOr<std::int32_t> Read(std::int64_t index,
                                    std::span<std::uint8_t> sample) const override {
    for (std::size_t i = 0; i < sample.size(); ++i) {
      sample[i] = static_cast<std::uint8_t>(Philox(7, static_cast<std::uint64_t>(index), i)[0]);
    }
    return static_cast<std::int32_t>(index % 10);
  }
  void ReadTargets(std::int64_t index, std::span<float> numbers) const override {
    numbers[0] = static_cast<float>(index);
    numbers[1] = 1 / static_cast<float>(index + 1);
  }

 private:
  const std::int64_t size_, numbers_;
  const Shape shape_{2, 6, 5};
};

struct Sample {
  std::vector<std::uint8_t> pixels;
  std::int32_t label = 0, partner = 0;
  float share = 1;
  std::vector<float> numbers;
  bool operator==(const Sample&) const = default;
};

LoaderOptions Options(const Dataset& data, std::int64_t batch, int world, bool mixes) {
  LoaderOptions options;
  options.plan = {.examples = data.size(), .global_batch = batch, .world = world};
  options.augment = api::AugmentSpec{.random_flip = api::RandomFlip::kHorizontal,
                                     .random_crop = api::RandomCropSpec{1}};
  if (mixes) options.augment->mix_up = api::MixUpSpec{0.4};
  return options;
}

// By position, of the second epoch.
std::vector<Sample> EpochOf(const Dataset& data, LoaderOptions options) {
  std::vector<Sample> all;
  Batch batch = MakeBatch(data, options.plan, Mixes(options));
  EpochOrders orders(options);
  const std::int64_t steps = options.plan.StepsPerEpoch();
  for (std::int64_t step = steps; step < 2 * steps; ++step) {
    for (options.rank = 0; options.rank < options.plan.world; ++options.rank) {
      EXPECT_TRUE(Gather(data, options, step, orders, batch).ok());
      EXPECT_EQ(batch.first_position, std::ssize(all));
      for (std::size_t row = 0; row < static_cast<std::size_t>(batch.valid); ++row) {
        const std::size_t bytes = data.sample_bytes(),
                          numbers = batch.targets.size() / batch.labels.size();
        const auto pixels = std::span(batch.pixels).subspan(row * bytes, bytes);
        const auto targets = std::span(batch.targets).subspan(row * numbers, numbers);
        Sample sample{.pixels = {pixels.begin(), pixels.end()}, .label = batch.labels[row]};
        sample.numbers.assign(targets.begin(), targets.end());
        if (!batch.shares.empty()) {
          sample.share = batch.shares[row];
          sample.partner = batch.partners[row];
        }
        all.push_back(sample);
      }
    }
  }
  return all;
}

// What mix-up makes of an epoch's samples, one by one.
std::vector<Sample> Mixed(const std::vector<Sample>& plain) {
  std::vector<Sample> all = plain;
  for (std::size_t i = 0; i < plain.size(); ++i) {
    const auto position = static_cast<std::int64_t>(i);
    const Sample& partner = plain[static_cast<std::size_t>(PartnerOf(position, std::ssize(plain)))];
    const std::uint32_t weight = DrawMix(0.4, /*seed=*/1, /*epoch=*/1, position);
    for (std::size_t k = 0; k < all[i].pixels.size(); ++k) {
      all[i].pixels[k] = Rounded(weight, plain[i].pixels[k], partner.pixels[k]);
    }
    for (std::size_t k = 0; k < all[i].numbers.size(); ++k) {
      const float share = ShareOf(weight);
      all[i].numbers[k] = share * plain[i].numbers[k] + (1 - share) * partner.numbers[k];
    }
    if (all[i].numbers.empty()) {
      all[i].share = ShareOf(weight);
      all[i].partner = partner.label;
    }
  }
  return all;
}

// Batches of odd and even numbers of samples, which cut pairs or do not; odd and even epochs.
TEST(GatherMixedTest, AnyNumberOfRanksMixesTheSamePairs) {
  for (const std::int64_t samples : {1, 2, 29, 30}) {
    const Images data(samples);
    for (const std::int64_t batch : {5, 7, 8}) {
      const auto mixed = Mixed(EpochOf(data, Options(data, batch, 1, false)));
      for (const int world : {1, 2, 3, 4, 5}) {
        ASSERT_EQ(EpochOf(data, Options(data, batch, world, true)), mixed)
            << samples << " samples, batches of " << batch << ", " << world << " ranks";
      }
    }
  }
}

TEST(GatherMixedTest, LabelsThatAreNumbersBecomeMeans) {
  const Images data(29, /*numbers=*/2);
  const auto mixed = Mixed(EpochOf(data, Options(data, 7, 1, false)));
  for (const int world : {1, 2, 3}) {
    EXPECT_EQ(EpochOf(data, Options(data, 7, world, true)), mixed) << world;
  }
}

TEST(GatherMixedTest, PartnersAreNeighboursOfWhicheverOrder) {
  const Images data(30);
  const auto of_files = [&](bool mixes) {
    LoaderOptions options = Options(data, 7, 3, mixes);
    options.shards = std::make_shared<Shards>(
        std::make_shared<SampleGroups>(SampleGroups::FilesOf(data)), options.plan);
    return EpochOf(data, options);
  };
  EXPECT_EQ(of_files(true), Mixed(of_files(false)));
}

TEST(GatherMixedTest, AnyNumberOfThreadsDoes) {
  const Images data(29);
  ThreadPool pool(3);
  LoaderOptions options = Options(data, 12, 1, true);
  const auto alone = EpochOf(data, options);
  options.threads = {.pool = &pool, .count = 4};
  EXPECT_EQ(EpochOf(data, options), alone);
}

TEST(GatherMixedTest, PaddingHasNoPartner) {
  const Images data(10);
  LoaderOptions options = Options(data, 4, 1, true);
  Batch batch = MakeBatch(data, options.plan, true);
  EpochOrders orders(options);
  for (std::int64_t step = 0; step < 3; ++step)
    ASSERT_TRUE(Gather(data, options, step, orders, batch).ok());
  EXPECT_THAT(batch.weights, ::testing::ElementsAre(1, 1, 0, 0));
  EXPECT_EQ(batch.shares[2], 1);
  EXPECT_EQ(batch.partners[3], 0);
  EXPECT_EQ(batch.pixels.back(), 0);
}

}  // namespace
}  // namespace lockstep::train
