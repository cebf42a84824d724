#include "trainer/data/formats/cifar.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/mutate.h"
#include "tests/support/temp_directory.h"

namespace lockstep::train {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// A record whose pixels all are `pixel`, but for the first one, which is its label.
std::string Record(const std::string& labels, char pixel) {
  return labels + labels.back() + std::string(3071, pixel);
}

class CifarTest : public ::testing::Test {
 protected:
  void Write(const std::string& name, const std::string& content) {
    WriteTextFile(folder_.At(name), content);
  }
  // File n has n records, with the labels n, n + 1, ….
  void WriteCifar10() {
    for (char n = 1; n <= 5; ++n) {
      std::string records;
      for (char i = 0; i < n; ++i) records += Record(std::string(1, static_cast<char>(n + i)), n);
      Write("data_batch_" + std::to_string(n) + ".bin", records);
    }
    Write("test_batch.bin", Record("\x03", 9));
  }
  absl::StatusOr<std::unique_ptr<Dataset>> Open(Split split = Split::kTrain) {
    return OpenCifar(folder_.path(), split, true);
  }
  std::string Error() { return std::string(Open().status().message()); }

  TempDirectory folder_;
};

TEST_F(CifarTest, SamplesContinueFromFileToFile) {
  WriteCifar10();
  const auto dataset = Open();
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_EQ((*dataset)->size(), 15);
  EXPECT_EQ((*dataset)->classes(), 10);
  EXPECT_EQ((*dataset)->sample_shape(), Shape({3, 32, 32}));
  std::vector<std::uint8_t> sample(3072);
  std::vector<std::pair<int, int>> read;  // label, last pixel
  for (std::int64_t i = 0; i < 15; ++i) {
    const auto label = (*dataset)->Read(i, sample);
    ASSERT_TRUE(label.ok()) << label.status();
    EXPECT_EQ(sample[0], *label);
    read.emplace_back(*label, sample[3071]);
  }
  EXPECT_EQ(read[0], std::pair(1, 1));
  EXPECT_EQ(read[1], std::pair(2, 2));
  EXPECT_EQ(read[2], std::pair(3, 2));
  EXPECT_EQ(read[14], std::pair(9, 5));
  EXPECT_EQ((*Open(Split::kTest))->size(), 1);
}

TEST_F(CifarTest, FineLabelsOfCifar100AreTaken) {
  Write("train.bin", Record("\x05\x63", 1) + Record("\x63\x07", 2));
  const auto dataset = Open();
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_EQ((*dataset)->classes(), 100);
  std::vector<std::uint8_t> sample(3072);
  EXPECT_EQ(*(*dataset)->Read(0, sample), 99);
  EXPECT_EQ(sample[0], 99);
  EXPECT_EQ(*(*dataset)->Read(1, sample), 7);
}

TEST_F(CifarTest, MissingFilesAreNamed) {
  const auto none = Open();
  EXPECT_TRUE(absl::IsNotFound(none.status()));
  EXPECT_THAT(Error(), AllOf(HasSubstr("data_batch_5.bin (CIFAR-10) or train.bin (CIFAR-100)")));
  WriteCifar10();
  std::filesystem::remove(folder_.At("data_batch_4.bin"));
  EXPECT_TRUE(absl::IsNotFound(Open().status()));
  EXPECT_THAT(Error(), HasSubstr("data_batch_4.bin"));
}

TEST_F(CifarTest, FilesOfBothAreRefused) {
  WriteCifar10();
  Write("train.bin", Record("\x05\x06", 1));
  EXPECT_THAT(Error(), HasSubstr("expected the files of either CIFAR-10 or CIFAR-100"));
}

TEST_F(CifarTest, SizeMustBeWholeRecords) {
  WriteCifar10();
  for (const std::string& content :
       {std::string(), Record("\x01", 1).substr(1), Record("\x01", 1) + "x"}) {
    Write("data_batch_2.bin", content);
    EXPECT_TRUE(absl::IsDataLoss(Open().status()));
    EXPECT_THAT(Error(), AllOf(HasSubstr("data_batch_2.bin"),
                               HasSubstr("expected a positive multiple of 3073")));
  }
}

TEST_F(CifarTest, LabelOutOfRangeIsNamedWithItsOffset) {
  WriteCifar10();
  Write("data_batch_2.bin", Record("\x01", 1) + Record("\x0A", 1));
  const auto dataset = Open();
  std::vector<std::uint8_t> sample(3072);
  EXPECT_TRUE((*dataset)->Read(1, sample).ok());
  const auto label = (*dataset)->Read(2, sample);
  EXPECT_TRUE(absl::IsDataLoss(label.status()));
  EXPECT_THAT(std::string(label.status().message()),
              AllOf(HasSubstr("data_batch_2.bin: label at offset 3073 is 10, expected 0 to 9")));
}

TEST_F(CifarTest, NoDamageCrashes) {
  const std::string records = Record("\x05\x06", 1) + Record("\x07\x08", 1);
  int opened = 0;
  for (std::uint64_t n = 0; n < 100; ++n) {
    Write("train.bin", Mutate(records, n));
    const auto dataset = Open();
    if (!dataset.ok()) continue;
    ++opened;
    std::vector<std::uint8_t> sample(3072);
    for (std::int64_t i = 0; i < (*dataset)->size(); ++i) {
      const auto label = (*dataset)->Read(i, sample);
      EXPECT_TRUE(!label.ok() || *label < 100);
    }
  }
  EXPECT_GT(opened, 5);
  EXPECT_LT(opened, 95);
}

}  // namespace
}  // namespace lockstep::train
