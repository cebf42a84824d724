#include "trainer/data/formats/synthetic.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "trainer/data/formats/open_datasets.h"

namespace lockstep::train {
namespace {

api::SyntheticSpec SmallSpec() {
  api::SyntheticSpec spec;
  spec.train_examples = 200;
  spec.test_examples = 100;
  spec.shape = {1, 7, 9};
  spec.classes = 4;
  return spec;
}

std::unique_ptr<Dataset> Make(Split split, std::uint64_t seed, bool cache = true) {
  auto dataset = MakeSynthetic(SmallSpec(), split, seed, cache);
  EXPECT_TRUE(dataset.ok()) << dataset.status();
  return *std::move(dataset);
}

std::vector<std::uint8_t> Pixels(const Dataset& dataset, std::int64_t index) {
  std::vector<std::uint8_t> pixels(static_cast<std::size_t>(dataset.sample_shape().elements()));
  EXPECT_TRUE(dataset.Read(index, pixels).ok());
  return pixels;
}

TEST(SyntheticTest, IsAFunctionOfSeedSplitAndIndex) {
  const auto train = Make(Split::kTrain, 1);
  EXPECT_EQ(Pixels(*train, 5), Pixels(*Make(Split::kTrain, 1), 5));
  EXPECT_NE(Pixels(*train, 5), Pixels(*Make(Split::kTrain, 2), 5));
  EXPECT_NE(Pixels(*train, 5), Pixels(*Make(Split::kTest, 1), 5));
  EXPECT_NE(Pixels(*train, 5), Pixels(*train, 9));  // of the same class
  EXPECT_EQ(Make(Split::kTest, 1)->size(), 100);
}

TEST(SyntheticTest, CachedAndMadeWhenReadAreTheSame) {
  const auto cached = Make(Split::kTrain, 1, true), made = Make(Split::kTrain, 1, false);
  EXPECT_TRUE(cached->InMemory());
  EXPECT_FALSE(made->InMemory());
  for (std::int64_t i = 0; i < cached->size(); ++i) ASSERT_EQ(Pixels(*cached, i), Pixels(*made, i));
}

// A test sample is nearest to the mean training sample of its own class.
TEST(SyntheticTest, ClassesAreSeparableAcrossSplits) {
  const auto train = Make(Split::kTrain, 3), test = Make(Split::kTest, 3);
  std::vector<std::vector<double>> means(4, std::vector<double>(63));
  for (std::int64_t i = 0; i < train->size(); ++i) {
    const auto pixels = Pixels(*train, i);
    for (std::size_t p = 0; p < 63; ++p)
      means[static_cast<std::size_t>(i % 4)][p] += pixels[p] / 50.0;
  }
  for (std::int64_t i = 0; i < test->size(); ++i) {
    std::vector<std::uint8_t> pixels(63);
    const std::int32_t label = *test->Read(i, pixels);
    std::size_t nearest = 0;
    double least = 1e30;
    for (std::size_t c = 0; c < 4; ++c) {
      double distance = 0;
      for (std::size_t p = 0; p < 63; ++p) distance += std::pow(means[c][p] - pixels[p], 2);
      if (distance < least) least = distance, nearest = c;
    }
    EXPECT_EQ(nearest, static_cast<std::size_t>(label)) << i;
  }
}

TEST(SyntheticTest, FieldOutOfRangeIsNamed) {
  const auto error = [](const api::SyntheticSpec& spec) {
    const absl::Status status = MakeSynthetic(spec, Split::kTrain, 1, true).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status));
    return std::string(status.message());
  };
  api::SyntheticSpec spec = SmallSpec();
  spec.shape = {1, 0, 9};
  EXPECT_THAT(error(spec), ::testing::HasSubstr("dataset.synthetic.shape: found [1,0,9]"));
  spec = SmallSpec();
  spec.classes = 1;
  EXPECT_THAT(error(spec),
              ::testing::HasSubstr("dataset.synthetic.classes: found 1, expected 2 to"));
  spec = SmallSpec();
  spec.train_examples = 0;
  EXPECT_THAT(error(spec), ::testing::HasSubstr("trainExamples: found 0, expected at least 1"));
}

TEST(OpenDatasetsTest, ChoosesByFormat) {
  api::DatasetSpec spec;
  spec.format = api::DatasetFormat::kSynthetic;
  spec.synthetic = SmallSpec();
  const auto synthetic = OpenDatasets(spec, false, 1);
  ASSERT_TRUE(synthetic.ok());
  EXPECT_EQ(synthetic->train->classes(), 4);
  EXPECT_EQ(synthetic->test, nullptr);
  spec.format = api::DatasetFormat::kIdx;
  spec.path = "/no/such/folder";
  const absl::Status status = OpenDatasets(spec, false, 1).status();
  EXPECT_TRUE(absl::IsNotFound(status));
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("/no/such/folder"));
}

}  // namespace
}  // namespace lockstep::train
