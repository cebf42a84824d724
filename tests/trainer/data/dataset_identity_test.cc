#include <gtest/gtest.h>

#include <fmt/format.h>

#include <cstdint>
#include <string>

#include "tests/support/temp_directory.h"
#include "trainer/data/dataset.h"

namespace lockstep::train {
namespace {

// Of a table of `rows` rows, the last of which has this label.
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

}  // namespace
}  // namespace lockstep::train
