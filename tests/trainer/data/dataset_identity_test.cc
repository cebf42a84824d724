#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/temp_directory.h"
#include "tests/trainer/data/formats/image_files.h"
#include "trainer/data/dataset.h"
#include "trainer/data/dataset_identity.h"
#include "trainer/data/formats/open_datasets.h"

namespace lockstep::train {
namespace {

// The identity of a table of `rows` rows, the last of which has this label.
std::string IdentityOfTable(std::int64_t rows, int last_label, LabelKind labels) {
  const TempDirectory folder;
  std::string text = "a,b,label\n";
  for (std::int64_t row = 0; row < rows; ++row) {
    text += fmt::format("{},{},{}\n", row, row + 1, row + 1 == rows ? last_label : row % 3);
  }
  WriteTextFile(folder.At("test.csv"), text);
  const api::DatasetSpec spec{.format = api::DatasetFormat::kCsv, .path = folder.path()};
  return *IdentityOf(**OpenTestSet(spec, 1, labels));
}

TEST(DatasetIdentityTest, IsThatOfTheSamplesWhereverTheyAre) {
  for (const LabelKind labels : {LabelKind::kClasses, LabelKind::kNumbers}) {
    EXPECT_EQ(IdentityOfTable(1000, 1, labels), IdentityOfTable(1000, 1, labels));
    EXPECT_NE(IdentityOfTable(1000, 1, labels), IdentityOfTable(1000, 2, labels)) << "the last";
    EXPECT_NE(IdentityOfTable(1000, 1, labels), IdentityOfTable(1003, 1, labels));
    EXPECT_NE(IdentityOfTable(1, 1, labels), IdentityOfTable(1, 2, labels));
  }
}

TEST(DatasetIdentityTest, OtherImagesHaveAnother) {
  const auto identity = [](std::uint64_t seed) {
    const api::DatasetSpec spec{.format = api::DatasetFormat::kSynthetic};
    return *IdentityOf(**OpenTestSet(spec, seed, LabelKind::kClasses));
  };
  EXPECT_EQ(identity(1), identity(1));
  EXPECT_NE(identity(1), identity(2));
}

// Two classes with an image each.
std::string IdentityOfImages(const std::string& first, std::vector<std::int64_t> size,
                             api::Interpolation interpolation = api::Interpolation::kBilinear) {
  const TempDirectory folder;
  for (const char* name : {"train/a", "train/b"}) {
    std::filesystem::create_directories(folder.At(name));
  }
  WriteTextFile(folder.At("train/a/0.png"), first);
  WriteTextFile(folder.At("train/b/0.png"), PngFile({.width = 2, .height = 2}, std::string(12, 9)));
  const api::DatasetSpec spec{.format = api::DatasetFormat::kImageFolder,
                              .path = folder.path(),
                              .image_size = std::move(size),
                              .interpolation = interpolation};
  return *IdentityOf(*OpenDatasets(spec, false, 1)->train);
}

TEST(DatasetIdentityTest, IsThatOfEncodedImagesAndOfWhatBecomesOfThem) {
  const auto gray = [](char brightness, const std::string& chunks = "") {
    return PngFile({.width = 2, .height = 2}, std::string(12, brightness), chunks);
  };
  const std::string identity = IdentityOfImages(gray(1), {4, 4});
  EXPECT_EQ(identity, IdentityOfImages(gray(1), {4, 4}));
  EXPECT_NE(identity, IdentityOfImages(gray(2), {4, 4}));
  EXPECT_NE(identity, IdentityOfImages(gray(1, PngChunk("tEXt", "other bytes")), {4, 4}))
      << "the same pixels: what a decoder makes of a file may differ between processors";
  EXPECT_NE(identity, IdentityOfImages(gray(1), {4, 5}));
  EXPECT_NE(identity, IdentityOfImages(gray(1), {4, 4}, api::Interpolation::kNearest));
}

class LargeSamples final : public Dataset {
 public:
  std::int64_t size() const override { return 1000; }
  const Shape& sample_shape() const override { return shape_; }
  std::int64_t classes() const override { return 2; }
  bool InMemory() const override { return true; }
  absl::StatusOr<std::int32_t> Read(std::int64_t index, std::span<std::uint8_t>) const override {
    read_.push_back(index);
    return 0;
  }
  const std::vector<std::int64_t>& read() const { return read_; }

 private:
  const Shape shape_{1, 5 << 10, 4 << 10};  // 20 MiB
  mutable std::vector<std::int64_t> read_;
};

TEST(DatasetIdentityTest, ReadsFewLargeSamples) {
  const LargeSamples data;
  ASSERT_TRUE(DigestOfSamples(data).ok());
  EXPECT_THAT(data.read(), ::testing::ElementsAre(0, 499, 999));
}

}  // namespace
}  // namespace lockstep::train
