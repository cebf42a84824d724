#include "trainer/data/held_out.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/support/temp_directory.h"

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
  const auto part = DivideDataset(std::make_unique<ByteDataset>(size), fraction, split, seed);
  EXPECT_TRUE(part.ok()) << part.status();
  std::vector<int> samples;
  for (std::int64_t i = 0; i < (*part)->size(); ++i) {
    std::uint8_t sample = 0;
    const auto label = (*part)->Read(i, {&sample, 1});
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
  EXPECT_TRUE(absl::IsDataLoss(
      DivideDataset(std::make_unique<ByteDataset>(1), 0.5, Split::kTest, 1).status()));
}

TEST(DivideDatasetTest, TestFilesAreNotNeeded) {
  const TempDirectory folder;
  WriteTextFile(folder.At("train.csv"), "label,a\n0,1\n1,2\n0,3\n1,4\n");
  api::DatasetSpec spec{.format = api::DatasetFormat::kCsv, .path = folder.path()};
  EXPECT_TRUE(absl::IsNotFound(OpenDataset(spec, Split::kTest, 1).status()));
  spec.validation_fraction = 0.25;
  EXPECT_EQ((*OpenDataset(spec, Split::kTest, 1))->size(), 1);
  EXPECT_EQ((*OpenDataset(spec, Split::kTrain, 1))->size(), 3);
}

}  // namespace
}  // namespace lockstep::train
