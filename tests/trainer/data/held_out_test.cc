#include "trainer/data/held_out.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "tests/support/temp_directory.h"
#include "tests/trainer/data/formats/idx_files.h"
#include "trainer/data/formats/open_datasets.h"

namespace lockstep::train {
namespace {

// Sample i is the byte i.
class ByteDataset final : public Dataset {
 public:
  explicit ByteDataset(std::int64_t size) : size_(size) {}
  std::int64_t size() const override { return size_; }
  const Shape& sample_shape() const override { return shape_; }
  std::int64_t classes() const override { return 3; }
  bool InMemory() const override { return true; }
  absl::StatusOr<std::int32_t> Read(std::int64_t index,
                                    std::span<std::uint8_t> sample) const override {
    sample[0] = static_cast<std::uint8_t>(index);
    return static_cast<std::int32_t>(index % 3);
  }

 private:
  std::int64_t size_;
  Shape shape_{1, 1, 1};
};

std::vector<int> Part(std::int64_t size, double fraction, Split split, std::uint64_t seed) {
  const auto parts = DivideDataset(std::make_shared<ByteDataset>(size), fraction, seed);
  EXPECT_TRUE(parts.ok()) << parts.status();
  const Dataset& part = split == Split::kTrain ? *parts->train : *parts->test;
  std::vector<int> samples;
  for (std::int64_t i = 0; i < part.size(); ++i) {
    std::uint8_t sample = 0;
    const auto label = part.Read(i, {&sample, 1});
    EXPECT_EQ(*label, sample % 3);
    samples.push_back(sample);
  }
  return samples;
}

TEST(DivideDatasetTest, PartsAreDisjointAndCoverTheWhole) {
  for (const double fraction : {0.01, 0.2, 0.5, 0.99}) {
    const auto train = Part(100, fraction, Split::kTrain, 7);
    const auto test = Part(100, fraction, Split::kTest, 7);
    EXPECT_EQ(std::ssize(test), std::llround(100 * fraction));
    std::set<int> all(train.begin(), train.end());
    all.insert(test.begin(), test.end());
    EXPECT_EQ(all.size(), 100u);
    EXPECT_EQ(train.size() + test.size(), 100u);
  }
}

TEST(DivideDatasetTest, SeedDecidesWhichSamplesAreHeldOut) {
  EXPECT_EQ(Part(100, 0.2, Split::kTest, 7), Part(100, 0.2, Split::kTest, 7));
  EXPECT_NE(Part(100, 0.2, Split::kTest, 7), Part(100, 0.2, Split::kTest, 8));
}

TEST(DivideDatasetTest, NeitherPartIsEmpty) {
  EXPECT_EQ(Part(2, 0.001, Split::kTest, 1).size(), 1u);
  EXPECT_EQ(Part(2, 0.999, Split::kTrain, 1).size(), 1u);
  EXPECT_TRUE(absl::IsDataLoss(DivideDataset(std::make_shared<ByteDataset>(1), 0.5, 1).status()));
}

TEST(DivideDatasetTest, SamplesKeepTheirPlaceInTheFile) {
  const TempDirectory folder;
  WriteTextFile(folder.At("train.csv"),
                "label,a\n0,2\n1,3\n0,4\n1,5\n");  // a is the number of its line
  api::DatasetSpec spec{
      .format = api::DatasetFormat::kCsv, .path = folder.path(), .validation_fraction = 0.5};
  const TrainAndTest opened = OpenDatasets(spec, true, 1).value();
  for (const Dataset* const part : {opened.train.get(), opened.test.get()}) {
    for (std::int64_t i = 0; i < part->size(); ++i) {
      float line = 0;
      EXPECT_TRUE(part->Read(i, {reinterpret_cast<std::uint8_t*>(&line), sizeof line}).ok());
      EXPECT_EQ(part->PlaceOf(i),
                folder.At("train.csv") + ": line " + std::to_string(std::lround(line)));
    }
  }
  WriteTextFile(folder.At("train.csv"), "label,a\n0,2\n");
  EXPECT_EQ(OpenDatasets(spec, true, 1).status().message(),
            folder.At("train.csv") +
                ": line 2: found no other sample, expected at least 2 to hold "
                "some out for spec.training.dataset.validationFraction");
}

TEST(DivideDatasetTest, TestFilesAreNotNeeded) {
  const TempDirectory folder;
  WriteTextFile(folder.At("train.csv"), "label,a\n0,1\n1,2\n0,3\n1,4\n");
  api::DatasetSpec spec{.format = api::DatasetFormat::kCsv, .path = folder.path()};
  EXPECT_TRUE(absl::IsNotFound(OpenDatasets(spec, true, 1).status()));
  spec.validation_fraction = 0.25;
  for (const bool with_test : {false, true}) {
    const TrainAndTest opened = OpenDatasets(spec, with_test, 1).value();
    EXPECT_EQ(opened.train->size(), 3);
    EXPECT_EQ(opened.test == nullptr ? 0 : opened.test->size(), with_test ? 1 : 0);
  }
}

// How often this process has mapped the file.
int Mappings(const std::string& path) {
  std::ifstream maps("/proc/self/maps");
  int count = 0;
  for (std::string line; std::getline(maps, line);) count += line.ends_with(path) ? 1 : 0;
  return count;
}

TEST(DivideDatasetTest, TheFilesAreOpenedOnce) {
  const IdxFolder folder;
  const api::DatasetSpec spec{
      .format = api::DatasetFormat::kIdx, .path = folder.path(), .validation_fraction = 0.25};
  const TrainAndTest opened = OpenDatasets(spec, true, 1).value();
  EXPECT_EQ(opened.train->size(), 3);
  EXPECT_EQ(opened.test->size(), 1);
  EXPECT_EQ(Mappings(folder.path() + "/train-images-idx3-ubyte"), 1);
}

}  // namespace
}  // namespace lockstep::train
