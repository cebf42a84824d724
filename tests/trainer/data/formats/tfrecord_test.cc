#include "trainer/data/formats/tfrecord.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <cstring>
#include <limits>

#include "tests/support/mutate.h"
#include "tests/trainer/data/formats/image_files.h"
#include "tests/trainer/data/formats/tfrecord_files.h"
#include "tests/trainer/data/pages.h"
#include "trainer/data/formats/tf_example.h"

namespace lockstep::train {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::span<const std::uint8_t> Bytes(const std::string& text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

std::string RawExample(const std::string& pixels, std::int64_t label) {
  return Example(BytesFeature("image", pixels) + IntegerFeature("label", label));
}

class TfRecordTest : public ::testing::Test {
 protected:
  TfRecordTest() {
    spec_.format = api::DatasetFormat::kTfRecord;
    spec_.path = folder_.path();
    spec_.tfrecord.emplace().shape = {1, 2, 2};
  }
  void Write(const std::string& content, const std::string& name = "train.tfrecord") {
    WriteTextFile(folder_.At(name), content);
  }
  absl::StatusOr<std::unique_ptr<Dataset>> Open() { return OpenTfRecord(spec_, Split::kTrain); }
  std::string Error() {
    const auto dataset = Open();
    EXPECT_TRUE(absl::IsDataLoss(dataset.status())) << dataset.status();
    return std::string(dataset.status().message());
  }
  std::string ReadError(std::int64_t index) {
    const auto dataset = Open();
    EXPECT_TRUE(dataset.ok()) << dataset.status();
    std::vector<std::uint8_t> sample((*dataset)->sample_bytes());
    const auto label = (*dataset)->Read(index, sample);
    EXPECT_TRUE(absl::IsDataLoss(label.status())) << label.status();
    return std::string(label.status().message());
  }

  TempDirectory folder_;
  api::DatasetSpec spec_;
};

// The record "abc": known checksums, computed bit by bit and masked as TensorFlow does.
TEST_F(TfRecordTest, RecordHasTheKnownBytes) {
  EXPECT_EQ(Crc32c("123456789"), 0xE3069283u);  // RFC 3720's check value
  const std::string record = TfRecord("abc");
  ASSERT_EQ(record.size(), 19u);
  EXPECT_EQ(record.substr(0, 8), std::string("\x03\0\0\0\0\0\0\0", 8));
  const auto found = FindRecords(Bytes(record), "a");
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_THAT(*found, ElementsAre(12u));
  const auto data = RecordAt(Bytes(record), 12, "a");
  ASSERT_TRUE(data.ok());
  EXPECT_EQ(std::string(data->begin(), data->end()), "abc");
}

TEST_F(TfRecordTest, RawPixelsBecomePlanesOfAllFiles) {
  Write(TfRecord(RawExample("abcd", 3)) + TfRecord(RawExample("efgh", 0)), "a-train-0");
  Write(TfRecord(RawExample("ijkl", 1)), "a-train-1");
  Write(TfRecord(RawExample("mnop", 1)), "a-test-0");
  const auto dataset = Open();
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_EQ((*dataset)->size(), 3);
  EXPECT_EQ((*dataset)->classes(), 4);
  EXPECT_EQ((*dataset)->sample_shape(), Shape({2, 1, 2}));
  std::vector<std::uint8_t> sample(4);
  EXPECT_EQ(*(*dataset)->Read(0, sample), 3);
  EXPECT_THAT(sample, ElementsAre('a', 'c', 'b', 'd'));
  EXPECT_EQ(*(*dataset)->Read(2, sample), 1);
  EXPECT_THAT(sample, ElementsAre('i', 'k', 'j', 'l'));
  EXPECT_EQ((*OpenTfRecord(spec_, Split::kTest))->size(), 1);
}

TEST_F(TfRecordTest, AFileOfBothSplitsIsRefused) {
  Write(TfRecord(RawExample("abcd", 0)), "latest-train-0.tfrecord");  // "latest" matches *test*
  for (const Split split : {Split::kTrain, Split::kTest}) {
    const absl::Status status = OpenTfRecord(spec_, split).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr("latest-train-0.tfrecord"), HasSubstr("trainFiles \"*train*\""),
                      HasSubstr("testFiles \"*test*\"")));
  }
  spec_.tfrecord->test_files = spec_.tfrecord->train_files;  // on purpose
  EXPECT_TRUE(Open().ok());
}

TEST_F(TfRecordTest, GzipIsInflated) {
  gzFile file = gzopen(folder_.At("train.gz").c_str(), "wb");
  const std::string record = TfRecord(RawExample("abcd", 1));
  gzwrite(file, record.data(), static_cast<unsigned>(record.size()));
  gzclose(file);
  const auto dataset = Open();
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  std::vector<std::uint8_t> sample(4);
  EXPECT_EQ(*(*dataset)->Read(0, sample), 1);
  const std::string packed = ReadTextFile(folder_.At("train.gz"));
  Write(packed.substr(0, packed.size() - 6), "train.gz");
  EXPECT_THAT(Error(), HasSubstr("train.gz: damaged gzip data"));
}

// A length of 0x8B1F, or of 0x88B1F with gzip's method, too.
TEST_F(TfRecordTest, AFileWhoseFirstLengthLooksLikeGzipIsPlain) {
  for (const std::size_t length : {35'615u, 559'903u}) {
    std::string pixels(length, 'p');
    while (RawExample(pixels, 1).size() > length) pixels.pop_back();
    const std::string record = TfRecord(RawExample(pixels, 1));
    ASSERT_EQ(record.substr(0, 2), "\x1F\x8B");
    spec_.tfrecord->shape = {static_cast<std::int64_t>(pixels.size())};
    Write(record);
    const auto dataset = Open();
    ASSERT_TRUE(dataset.ok()) << dataset.status();
    std::vector<std::uint8_t> sample(pixels.size());
    EXPECT_EQ(*(*dataset)->Read(0, sample), 1);
  }
}

TEST_F(TfRecordTest, OpeningReadsOnlyTheHeadersOfLargeRecords) {
  spec_.tfrecord->shape = {110'000};
  spec_.tfrecord->classes = 2;
  std::string records;
  for (int i = 0; i < 200; ++i) records += TfRecord(RawExample(std::string(110'000, 'p'), 1));
  Write(records);
  const std::string path = folder_.At("train.tfrecord");
  if (!DropFromMemory(path)) GTEST_SKIP() << "the file's pages stay in memory";
  const auto dataset = Open();
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_EQ((*dataset)->size(), 200);
  EXPECT_LT(ShareInMemory(path), 0.5);
}

TEST_F(TfRecordTest, TheLargestLabelIsFoundInAnyFile) {
  for (int i = 0; i < 40; ++i) {
    Write(TfRecord(RawExample("abcd", 1)) + TfRecord(RawExample("efgh", i == 17 ? 6 : 0)),
          fmt::format("train-{:02}", i));
  }
  const auto dataset = Open();
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_EQ((*dataset)->size(), 80);
  EXPECT_EQ((*dataset)->classes(), 7);
  std::vector<std::uint8_t> sample(4);
  EXPECT_EQ(*(*dataset)->Read(35, sample), 6);  // the second one of the file 17
  Write(TfRecord(RawExample("abcd", -1)), "train-20");
  Write(TfRecord(RawExample("abcd", -1)), "train-30");
  EXPECT_THAT(Error(), HasSubstr("train-20: record at offset 0: label \"label\" is -1"));
}

TEST_F(TfRecordTest, EncodedImagesAreDecoded) {
  spec_.tfrecord = {};
  spec_.image_size = {1, 1};
  Write(TfRecord(RawExample(PngFile({1, 1, 8, 2}, "\x0A\x14\x1E"), 1)));
  const auto dataset = Open();
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  std::vector<std::uint8_t> sample(3);
  EXPECT_EQ(*(*dataset)->Read(0, sample), 1);
  EXPECT_THAT(sample, ElementsAre(10, 20, 30));
  Write(TfRecord(RawExample("GIF89a", 1)));
  EXPECT_THAT(ReadError(0), AllOf(HasSubstr("train.tfrecord: record at offset 0"),
                                  HasSubstr("feature \"image\": found 6 bytes that start")));
  EXPECT_EQ(*(*Open())->LabelOf(0), 1) << "a label needs no decoding";
  EXPECT_THAT(PlaceBeyond(1, **Open()), HasSubstr("record at offset 0: label 1"));
}

TEST_F(TfRecordTest, FloatsKeepTheirShapePackedOrNot) {
  const float values[] = {1.5f, -2};
  const std::string bytes(reinterpret_cast<const char*>(values), sizeof values);
  const std::string singles = "\x0D" + bytes.substr(0, 4) + "\x0D" + bytes.substr(4);
  spec_.tfrecord = api::TfRecordSpec{.feature = "x", .label = "y", .shape = {2}};
  for (const std::string& list : {WireField(1, bytes), singles}) {
    Write(TfRecord(Example(FeatureEntry("x", 2, list) + IntegerFeature("y", 1))));
    const auto dataset = Open();
    ASSERT_TRUE(dataset.ok()) << dataset.status();
    EXPECT_EQ((*dataset)->element(), DType::kFloat32);
    EXPECT_EQ((*dataset)->sample_shape(), Shape({2}));
    std::vector<std::uint8_t> sample(8);
    EXPECT_EQ(*(*dataset)->Read(0, sample), 1);
    EXPECT_EQ(std::memcmp(sample.data(), values, sizeof values), 0);
  }
  Write(TfRecord(
      Example(FeatureEntry("x", 2, WireField(1, bytes + bytes)) + IntegerFeature("y", 1))));
  EXPECT_THAT(ReadError(0), HasSubstr("feature \"x\": found 4 floats, expected 2"));
}

TEST_F(TfRecordTest, FloatsThatAreNotFiniteAreRefusedByPlace) {
  const float values[] = {1.5f, -std::numeric_limits<float>::infinity()};
  const std::string bytes(reinterpret_cast<const char*>(values), sizeof values);
  spec_.tfrecord = api::TfRecordSpec{.feature = "x", .label = "y", .shape = {2}};
  Write(TfRecord(Example(FeatureEntry("x", 2, WireField(1, bytes)) + IntegerFeature("y", 1))));
  EXPECT_THAT(ReadError(0),
              HasSubstr("feature \"x\": element 1 is -inf, expected a finite number"));
}

TEST(TfRecordPlaceTest, ALengthThatWasRewrittenIsRefused) {
  const std::string record = TfRecord("data");
  std::vector<std::uint8_t> file(record.begin(), record.end());
  const auto found = FindRecords(file, "f");
  ASSERT_TRUE(found.ok()) << found.status();
  ASSERT_EQ(found->size(), 1u);
  EXPECT_TRUE(RecordAt(file, found->front(), "f").ok());
  for (const std::size_t at : {0, 5}) {  // one more byte, and far beyond the file
    std::vector<std::uint8_t> rewritten = file;
    ++rewritten[at];
    const auto read = RecordAt(rewritten, found->front(), "f");
    EXPECT_TRUE(absl::IsUnavailable(read.status())) << read.status();
    EXPECT_THAT(std::string(read.status().message()), HasSubstr("found a length of"));
  }
}

TEST_F(TfRecordTest, DamagedRecordsAreNamedWithTheirOffset) {
  const std::string first = TfRecord(RawExample("abcd", 1)), both = first + first;
  const std::string second = "record at offset " + std::to_string(first.size());
  std::string length = both, data = both, checksum = both;
  length[first.size()] ^= 1;
  data[first.size() + 20] ^= 1;
  checksum.back() ^= 1;
  Write(length);
  EXPECT_THAT(Error(), AllOf(HasSubstr(second), HasSubstr("checksum of its length is")));
  Write(data);
  EXPECT_THAT(Error(), AllOf(HasSubstr(second), HasSubstr("checksum of its data is")));
  Write(checksum);
  EXPECT_THAT(Error(), HasSubstr("checksum of its data is"));
  Write(both.substr(0, both.size() - 1));
  EXPECT_THAT(Error(), AllOf(HasSubstr(second), HasSubstr("cut short")));
  Write(both.substr(0, first.size() + 5));
  EXPECT_THAT(Error(), HasSubstr("cut short: found 5 bytes, expected at least 16"));
  Write("");
  EXPECT_THAT(Error(), HasSubstr("found no records in the 1 files"));
  const std::string huge = LittleEndianText(~std::uint64_t{0}, 8);
  Write(huge + MaskedCrcText(huge) + "data");
  EXPECT_THAT(Error(), HasSubstr("found 0 bytes of data, expected 18446744073709551615"));
}

TEST_F(TfRecordTest, ExamplesOfAnotherFormAreNamed) {
  Write(TfRecord(Example(IntegerFeature("label", 1))));
  EXPECT_THAT(Error(), HasSubstr("record at offset 0: found no feature \"image\""));
  Write(TfRecord("\x0A\x7F"));
  EXPECT_THAT(Error(), HasSubstr("found malformed bytes, expected a tf.train.Example"));
  Write(TfRecord(RawExample("abcd", -1)));
  EXPECT_THAT(Error(), HasSubstr("label \"label\" is -1, expected one integer from 0 to 999999"));
  Write(TfRecord(Example(BytesFeature("image", "abcd") + BytesFeature("label", "1"))));
  EXPECT_THAT(Error(), HasSubstr("label \"label\" is none, expected one integer"));
  Write(TfRecord(RawExample("abc", 1)));
  EXPECT_THAT(ReadError(0), HasSubstr("found 3 bytes, expected 4, those of tfrecord.shape"));
  spec_.tfrecord->classes = 2;
  Write(TfRecord(RawExample("abcd", 2)));
  EXPECT_THAT(ReadError(0), HasSubstr("label \"label\" is 2, expected one integer from 0 to 1"));
  spec_.tfrecord->train_files = "*.none";
  EXPECT_TRUE(absl::IsNotFound(Open().status()));
}

TEST(TfExampleTest, NoDamageCrashes) {
  const std::string example =
      Example(BytesFeature("image", "abcdefgh") + IntegerFeature("label", 300) +
              FeatureEntry("x", 2, WireField(1, std::string(8, '\1'))));
  int found = 0;
  for (std::uint64_t n = 0; n < 3000; ++n) {
    const std::string text = Mutate(example, n);
    for (const char* name : {"image", "label", "x"}) {
      const auto feature = FindTfFeature(Bytes(text), name);
      if (!feature.ok() || !*feature) continue;
      ++found;
      EXPECT_LE(OnlyBytes(**feature).value_or(Bytes("")).size(), text.size());
      OnlyInteger(**feature);
      std::vector<std::uint8_t> floats(8);
      CopyFloats(**feature, floats);
    }
  }
  EXPECT_GT(found, 1000);
  EXPECT_LT(found, 8500);
}

}  // namespace
}  // namespace lockstep::train
