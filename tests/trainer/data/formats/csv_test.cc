#include "trainer/data/formats/csv.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <zlib.h>

#include <cstring>

#include "tests/support/mutate.h"
#include "tests/support/temp_directory.h"

namespace lockstep::train {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const char kTable[] = "a,label,b\n1.5,0,-2\n3e2,2,.25\n";

std::string CsvError(std::string_view text) {
  const auto table = ParseCsv(text, "label", "t.csv");
  EXPECT_TRUE(absl::IsDataLoss(table.status())) << table.status();
  return std::string(table.status().message());
}

TEST(CsvTest, LabelColumnIsTakenOutOfTheFeatures) {
  const auto table = ParseCsv(kTable, "label", "t.csv");
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(table->columns, 2);
  EXPECT_THAT(table->features, ElementsAre(1.5f, -2, 300, 0.25f));
  EXPECT_THAT(table->labels, ElementsAre(0, 2));
}

TEST(CsvTest, QuotesSpacesSignsAndLineEndsAreAccepted) {
  const auto table = ParseCsv(
      "\xEF\xBB\xBF\"a, b\",\"label\"\r\n +1 ,0\r\n\"2\",\"1\"\r\n3,0\r\n\r\n\n", "label", "t.csv");
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_THAT(table->features, ElementsAre(1, 2, 3));
  EXPECT_THAT(table->labels, ElementsAre(0, 1, 0));
}

TEST(CsvTest, NumbersTooSmallForAFloatAreZero) {
  const auto table = ParseCsv("label,a\n0,1e-50\n0,-1e-400\n0,1e-40\n0,3e38\n", "label", "t.csv");
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_THAT(table->features, ElementsAre(0, -0.0f, 1e-40f, 3e38f));
}

TEST(CsvTest, LastLineNeedsNoEnd) {
  const auto table = ParseCsv("label,a\n1,7", "label", "t.csv");
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_THAT(table->features, ElementsAre(7));
}

TEST(CsvTest, FaultsAreNamedWithLineAndColumn) {
  const struct {
    const char* text;
    const char* error;
  } cases[] = {
      {"", "t.csv: line 1: found a header of 1 columns, 0 of them named \"label\""},
      {"a,b\n1,2\n", "0 of them named \"label\""},
      {"label,label\n1,2\n", "2 of them named \"label\""},
      {"label\n1\n", "found a header of 1 columns, 1 of them"},
      {"label,a\n", "line 1: found no rows"},
      {"label,a\n\n", "line 2: found no rows"},
      {"label,a\n1,2\n\n1,2\n", "line 3: found an empty line, expected 2 fields"},
      {"label,a\n1,2,3\n", "line 2: found 3 fields, expected 2, as in the header"},
      {"label,a\n1\n", "line 2: found 1 fields, expected 2"},
      {"label,a\n1,x\n", "line 2, column \"a\": found \"x\", expected a finite number"},
      {"label,a\n1,\n", "column \"a\": found \"\", expected a finite number"},
      {"label,a\n1,nan\n", "found \"nan\", expected a finite number"},
      {"label,a\n1,1e99\n", "found \"1e99\", expected a finite number"},
      {"label,a\n1,1e39\n", "found \"1e39\", expected a finite number"},
      {"label,a\n1,-1e999\n", "found \"-1e999\", expected a finite number"},
      {"label,a\n1,+-5\n", "found \"+-5\", expected a finite number"},
      {"label,a\n1,1 2\n", "found \"1 2\", expected a finite number"},
      {"label,a\n1.0,2\n", "column \"label\": found \"1.0\", expected a class"},
      {"label,a\n-1,2\n", "column \"label\": found \"-1\", expected a class"},
      {"label,a\n1000000,2\n", "found \"1000000\", expected a class"},
      {"label,a\n1,\x01\x02\n", "found \"??\""},
  };
  for (const auto& [text, error] : cases) EXPECT_THAT(CsvError(text), HasSubstr(error)) << text;
}

TEST(CsvTest, ColumnsAreBounded) {
  EXPECT_THAT(CsvError("label" + std::string(70'000, ',') + "\n"),
              HasSubstr("found more columns, expected at most 65536"));
}

TEST(CsvTest, OpensTheFileOfEachSplit) {
  const TempDirectory folder;
  WriteTextFile(folder.At("train.csv"), kTable);
  gzFile file = gzopen(folder.At("test.csv.gz").c_str(), "wb");
  gzputs(file, "kind,a,b\n1,5,6\n");
  gzclose(file);
  const auto train = OpenCsv(folder.path(), {}, Split::kTrain);
  ASSERT_TRUE(train.ok()) << train.status();
  EXPECT_EQ((*train)->size(), 2);
  EXPECT_EQ((*train)->classes(), 3);
  EXPECT_EQ((*train)->sample_shape(), Shape({2}));
  const auto test = OpenCsv(folder.path(), {.label_column = "kind"}, Split::kTest);
  ASSERT_TRUE(test.ok()) << test.status();
  std::vector<std::uint8_t> bytes(8);
  EXPECT_EQ(*(*test)->Read(0, bytes), 1);
  float values[2];
  std::memcpy(values, bytes.data(), sizeof values);
  EXPECT_THAT(values, ElementsAre(5, 6));
  std::filesystem::remove(folder.At("train.csv"));
  EXPECT_TRUE(absl::IsNotFound(OpenCsv(folder.path(), {}, Split::kTrain).status()));
}

TEST(CsvTest, ColumnsOfTestSamplesAreMatchedByName) {
  for (const bool is_packed : {false, true}) {
    const TempDirectory folder;
    if (is_packed) {
      gzFile file = gzopen(folder.At("train.csv.gz").c_str(), "wb");
      gzputs(file, "label,age,\"income, net\",height\n1,2,3,4\n");
      gzclose(file);
    } else {
      WriteTextFile(folder.At("train.csv"), "label,age,\"income, net\",height\n1,2,3,4\n");
    }
    WriteTextFile(folder.At("test.csv"), "height,age,label,\"income, net\"\n4,2,0,3\n8,6,1,7\n");
    const auto test = OpenCsv(folder.path(), {}, Split::kTest);
    ASSERT_TRUE(test.ok()) << test.status();
    float values[3];
    const std::span<std::uint8_t> bytes(reinterpret_cast<std::uint8_t*>(values), sizeof values);
    EXPECT_EQ(*(*test)->Read(0, bytes), 0);
    EXPECT_THAT(values, ElementsAre(2, 3, 4));
    EXPECT_EQ(*(*test)->Read(1, bytes), 1);
    EXPECT_THAT(values, ElementsAre(6, 7, 8));
    WriteTextFile(folder.At("test.csv"), "label,age,weight,height\n1,2,3,4\n");
    EXPECT_THAT(std::string(OpenCsv(folder.path(), {}, Split::kTest).status().message()),
                HasSubstr("test.csv: line 1: found no column \"income, net\", expected the columns "
                          "of the training samples"));
  }
}

TEST(CsvTest, ColumnsMayHaveTheSameName) {
  const std::vector<std::string> same = {"x", "x"}, other = {"x", "y", "x"};
  CsvTable table{.names = same, .columns = 2, .features = {1, 2}};
  EXPECT_TRUE(OrderColumns(same, "t.csv", table).ok());
  EXPECT_THAT(table.features, ElementsAre(1, 2));
  table = {.names = {"y", "x", "x"}, .columns = 3, .features = {1, 2, 3, 4, 5, 6}};
  EXPECT_TRUE(OrderColumns(other, "t.csv", table).ok());
  EXPECT_THAT(table.features, ElementsAre(2, 1, 3, 5, 4, 6));
  const absl::Status fewer = OrderColumns(same, "t.csv", table);
  EXPECT_TRUE(absl::IsDataLoss(fewer)) << fewer;
  EXPECT_THAT(std::string(fewer.message()), HasSubstr("t.csv: line 1: found a column \"y\""));
}

TEST(CsvTest, LabelsMayBeNumbers) {
  const TempDirectory folder;
  WriteTextFile(folder.At("train.csv"), "a,label\n1,-2.5\n2,0\n");
  const auto train = OpenCsv(folder.path(), {}, Split::kTrain, LabelKind::kNumbers);
  ASSERT_TRUE(train.ok()) << train.status();
  EXPECT_EQ((*train)->size(), 2);
  EXPECT_EQ((*train)->targets(), 1);
  float number = 0;
  (*train)->ReadTargets(0, {&number, 1});
  EXPECT_EQ(number, -2.5f);
  std::vector<std::uint8_t> bytes(4);
  EXPECT_EQ(*(*train)->Read(1, bytes), 0);
  WriteTextFile(folder.At("test.csv"), "a,label\n1,inf\n");
  EXPECT_THAT(
      std::string(OpenCsv(folder.path(), {}, Split::kTest, LabelKind::kNumbers).status().message()),
      HasSubstr("column \"label\": found \"inf\", expected a finite number"));
}

// Its open would wait for a writer that never comes.
TEST(CsvTest, APipeIsRefusedAtOnce) {
  const TempDirectory folder;
  ASSERT_EQ(::mkfifo(folder.At("train.csv").c_str(), 0600), 0);
  const auto train = OpenCsv(folder.path(), {}, Split::kTrain);
  EXPECT_TRUE(absl::IsDataLoss(train.status())) << train.status();
  EXPECT_THAT(std::string(train.status().message()), HasSubstr("not a regular file"));
}

TEST(CsvTest, NoDamageCrashes) {
  int read = 0;
  for (std::uint64_t n = 0; n < 500; ++n) {
    const std::string text = Mutate(kTable, n);
    const auto table = ParseCsv(text, "label", "t.csv");
    if (!table.ok()) continue;
    ++read;
    EXPECT_EQ(table->features.size(),
              table->labels.size() * static_cast<std::size_t>(table->columns));
  }
  EXPECT_GT(read, 10);
  EXPECT_LT(read, 490);
}

}  // namespace
}  // namespace lockstep::train
