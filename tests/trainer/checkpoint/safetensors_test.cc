#include "trainer/checkpoint/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "tests/support/folders.h"
#include "tests/support/mutate.h"
#include "tests/support/temp_directory.h"

namespace lockstep::train {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string FileOf(const std::vector<NamedTensor>& tensors) {
  const auto header = SafetensorsHeader(tensors);
  EXPECT_TRUE(header.ok()) << header.status();
  std::string bytes;
  for (const auto piece : SafetensorsPieces(*header, tensors)) {
    bytes.append(reinterpret_cast<const char*>(piece.data()), piece.size());
  }
  return bytes;
}

std::string FileOf(const std::string& header, const std::string& data = "") {
  const std::uint64_t length = header.size();
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  return bytes + header + data;
}

std::string ErrorOf(const std::string& bytes) {
  const absl::Status status = ParseSafetensors(bytes, "a.safetensors").status();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("a.safetensors: "));
  return std::string(status.message());
}

const std::vector<NamedTensor> kTensors = {
    {"conv2d/weight", Shape{2, 1, 1, 2}, {1, -2.5f, 3e-8f, std::numeric_limits<float>::infinity()}},
    {"step", Shape{}, {7}},
    {"none", Shape{0, 3}, {}},
    {"bias", Shape{3}, {-0.0f, 1, 2}}};

TEST(SafetensorsTest, ReadsWhatItWrote) {
  const auto read = ParseSafetensors(FileOf(kTensors), "a.safetensors");
  ASSERT_TRUE(read.ok()) << read.status();
  // An empty tensor has no place of its own among the data, so order is by offset.
  EXPECT_THAT(*read, ::testing::UnorderedElementsAreArray(kTensors));
  EXPECT_TRUE(std::signbit(read->back().data[0]));
}

TEST(SafetensorsTest, BytesAreThoseOfTheFormat) {
  const std::string bytes = FileOf(std::vector<NamedTensor>{{"a", Shape{1}, {1.0f}}});
  EXPECT_EQ(bytes,
            FileOf(std::string(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})") + "  ",
                   std::string("\x00\x00\x80\x3f", 4)));
  EXPECT_EQ((bytes.size() - 4) % 8, 0u);  // the data is aligned
}

TEST(SafetensorsTest, ReadsAFileWithoutTensors) {
  EXPECT_TRUE(ParseSafetensors(FileOf(std::vector<NamedTensor>{}), "a")->empty());
}

TEST(SafetensorsTest, ReadsMetadataAndAnyOrderOfKeys) {
  const auto read = ParseSafetensors(
      FileOf(
          R"({"__metadata__":{"format":"pt"},"b":{"data_offsets":[4,8],"shape":[1,1],"dtype":"F32"},)"
          R"("a":{"shape":[],"dtype":"F32","data_offsets":[0,4]}})",
          "12345678"),
      "a");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->at(0).name, "a");
  EXPECT_EQ(read->at(1).shape, Shape({1, 1}));
}

TEST(SafetensorsTest, WritingRefusesWhatNoReaderAccepts) {
  const auto error = [](std::vector<NamedTensor> tensors) {
    const absl::Status status = SafetensorsHeader(tensors).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status));
    return std::string(status.message());
  };
  EXPECT_THAT(error({{"a", Shape{2}, {1}}}), HasSubstr("found 1 values, its shape [2] has 2"));
  EXPECT_THAT(error({{"a", Shape{1}, {1}}, {"a", Shape{1}, {1}}}), HasSubstr("tensor a"));
  EXPECT_THAT(error({{"__metadata__", Shape{1}, {1}}}), HasSubstr("reserved"));
  EXPECT_THAT(error({{"\xFF", Shape{1}, {1}}}), HasSubstr("not UTF-8"));
}

TEST(SafetensorsTest, HeaderLengthIsBounded) {
  EXPECT_THAT(ErrorOf("1234567"), HasSubstr("found 7 bytes, expected at least 8"));
  std::string bytes = FileOf(kTensors);
  bytes[7] = '\x7F';
  EXPECT_THAT(ErrorOf(bytes), HasSubstr("header length at offset 0 is 9"));
  EXPECT_THAT(ErrorOf(FileOf("[1,2]")), HasSubstr("not a JSON object"));
  EXPECT_THAT(ErrorOf(FileOf("{\"a\":")), HasSubstr("not a JSON object"));
}

TEST(SafetensorsTest, DataCutShortOrTooLongIsRefused) {
  const std::string bytes = FileOf(kTensors);
  EXPECT_THAT(ErrorOf(bytes.substr(0, bytes.size() - 1)), HasSubstr("bytes of data"));
  EXPECT_THAT(ErrorOf(bytes + "x"), HasSubstr("found 33 bytes of data, expected 32"));
}

TEST(SafetensorsTest, EntriesAreChecked) {
  const auto error = [](const std::string& entry) {
    return ErrorOf(FileOf("{\"a\":" + entry + "}", "12345678"));
  };
  EXPECT_THAT(error("3"), HasSubstr("tensor a: found 3, expected dtype, shape and data_offsets"));
  EXPECT_THAT(error(R"({"dtype":"F16","shape":[4],"data_offsets":[0,8]})"),
              HasSubstr(R"(dtype is "F16", expected "F32")"));
  EXPECT_THAT(error(R"({"dtype":"F32","shape":[2],"data_offsets":[8,0]})"),
              HasSubstr("data_offsets is [8,0]"));
  EXPECT_THAT(error(R"({"dtype":"F32","shape":[2],"data_offsets":[0,12]})"),
              HasSubstr("within the 8 bytes"));
  EXPECT_THAT(error(R"({"dtype":"F32","shape":[2],"data_offsets":[0,-8]})"),
              HasSubstr("expected two offsets"));
  EXPECT_THAT(error(R"({"dtype":"F32","shape":[3],"data_offsets":[0,8]})"),
              HasSubstr("shape is [3], expected one of 8 bytes"));
  EXPECT_THAT(error(R"({"dtype":"F32","shape":[4294967296,4294967296,2],"data_offsets":[0,8]})"),
              HasSubstr("expected one of 8 bytes"));
  EXPECT_THAT(error(R"({"dtype":"F32","shape":[1.5],"data_offsets":[0,8]})"),
              HasSubstr("shape is"));
}

TEST(SafetensorsTest, TensorsOfOtherTypesAreNamedToThoseWhoAskForThem) {
  const std::string bytes = FileOf(R"({"steps":{"dtype":"I64","shape":[],"data_offsets":[0,8]},)"
                                   R"("a":{"dtype":"F32","shape":[1],"data_offsets":[8,12]}})",
                                   std::string(12, '\0'));
  EXPECT_THAT(ErrorOf(bytes), HasSubstr(R"(tensor steps: dtype is "I64", expected "F32")"));
  const auto read = ParseSafetensors(bytes, "a.safetensors", OtherTypes::kNamed);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read,
            (std::vector<NamedTensor>{{.name = "steps", .shape = {}, .data = {}, .type = "I64"},
                                      {.name = "a", .shape = Shape({1}), .data = {0}}}));
  const std::string hole =
      FileOf(R"({"a":{"dtype":"I64","shape":[],"data_offsets":[4,12]}})", std::string(12, '\0'));
  EXPECT_TRUE(absl::IsDataLoss(ParseSafetensors(hole, "a", OtherTypes::kNamed).status()));
  const std::string no_type =
      FileOf(R"({"a":{"dtype":3,"shape":[],"data_offsets":[0,8]}})", std::string(8, '\0'));
  EXPECT_TRUE(absl::IsDataLoss(ParseSafetensors(no_type, "a", OtherTypes::kNamed).status()));
}

TEST(SafetensorsTest, HolesAndOverlapsAreRefused) {
  const auto two = [](const std::string& first, const std::string& second) {
    return ErrorOf(
        FileOf("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":" + first +
                   "},\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":" + second + "}}",
               "123456789012"));
  };
  EXPECT_THAT(two("[0,4]", "[8,12]"),
              HasSubstr("tensor b begins at byte 8 of the data, expected 4"));
  EXPECT_THAT(two("[0,4]", "[0,4]"),
              HasSubstr("tensor b begins at byte 0 of the data, expected 4"));
  EXPECT_THAT(two("[0,4]", "[4,8]"), HasSubstr("found 12 bytes of data, expected 8"));
}

TEST(SafetensorsTest, DeeplyNestedHeaderIsRefused) {
  const std::string deep = "{\"a\":" + std::string(200000, '[') + std::string(200000, ']') + "}";
  EXPECT_THAT(ErrorOf(FileOf(deep)), HasSubstr("is not a JSON object of at most 8 levels"));
}

// Minutes, if each member were compared with those before it.
TEST(SafetensorsTest, AHeaderOfManyMembersIsReadAtOnce) {
  std::string header = "{";
  for (int i = 0; i < 200'000; ++i) header += "\"" + std::to_string(i) + "\":{},";
  header.back() = '}';
  EXPECT_THAT(ErrorOf(FileOf(header)), HasSubstr("tensor 0: found {}"));
}

TEST(SafetensorsTest, NoDamageCrashes) {
  const std::string bytes = FileOf(kTensors);
  const std::string head = bytes.substr(0, bytes.size() - 32);
  for (std::uint64_t n = 0; n < 20000; ++n) {
    // Half of the time only the header is changed: the data tells nothing.
    const std::string damaged =
        n % 2 == 0 ? Mutate(bytes, n / 2) : Mutate(head, n / 2) + bytes.substr(head.size());
    const auto read = ParseSafetensors(damaged, "a.safetensors");
    if (!read.ok()) {
      EXPECT_TRUE(absl::IsDataLoss(read.status()));
    }
  }
}

const std::string kTestData =
    std::string(LOCKSTEP_SOURCE_DIR) + "/tests/trainer/checkpoint/testdata/";

// safetensors_peer.py reads this very file with the real package.
TEST(SafetensorsTest, WritesTheFileThatThePythonPackageReads) {
  EXPECT_EQ(FileOf(kTensors), ReadTextFile(kTestData + "ours.safetensors"));
}

// safetensors_peer.py has written it with the real package.
TEST(SafetensorsTest, ReadsAFileOfThePythonPackage) {
  const auto read = ParseSafetensors(ReadTextFile(kTestData + "theirs.safetensors"), "theirs");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_THAT(*read, ::testing::UnorderedElementsAreArray(kTensors));
}

}  // namespace
}  // namespace lockstep::train
