#include "trainer/data/formats/npy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <limits>
#include <numeric>

#include "tests/support/mutate.h"
#include "tests/trainer/data/formats/npy_files.h"
#include "trainer/data/formats/npy_array.h"

namespace lockstep::train {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class NpyTest : public ::testing::Test {
 protected:
  void Write(const std::string& x, const std::string& y) {
    WriteTextFile(folder_.At("x_train.npy"), x);
    WriteTextFile(folder_.At("y_train.npy"), y);
  }
  absl::StatusOr<std::unique_ptr<Dataset>> OpenNumbers() {
    return OpenNpy(folder_.path(), {}, Split::kTrain, true, LabelKind::kNumbers);
  }
  absl::StatusOr<std::unique_ptr<Dataset>> Open(bool channels_last = false) {
    return OpenNpy(folder_.path(), {.channels_last = channels_last}, Split::kTrain, true);
  }
  std::string Error() {
    const auto dataset = Open();
    EXPECT_TRUE(absl::IsDataLoss(dataset.status())) << dataset.status();
    return std::string(dataset.status().message());
  }

  TempDirectory folder_;
};

// What numpy 1.26 writes for numpy.array([[1, 2], [3, 4]], numpy.float32), byte for byte.
const char kGolden[] =
    "\x93NUMPY\x01\x00v\x00{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), }"
    "                                                          \n"
    "\x00\x00\x80\x3f\x00\x00\x00\x40\x00\x00\x40\x40\x00\x00\x80\x40";

// Reading them ahead takes long, so that threads read what a batch needs.
TEST_F(NpyTest, LargeArraysDoNotCountAsInMemory) {
  const std::string x = folder_.At("x_train.npy");
  for (const bool is_large : {false, true}) {
    const std::string shape = is_large ? "(2, 268435456)" : "(2, 8)";
    const std::string header =
        NpyHeaderText("{'descr': '|u1', 'fortran_order': False, 'shape': " + shape + ", }");
    Write(header, NpyFile<std::uint8_t>("|u1", "(2,)", {0, 1}));
    std::filesystem::resize_file(x, header.size() + (is_large ? std::size_t{1} << 29 : 16));
    const auto dataset = Open();
    ASSERT_TRUE(dataset.ok()) << dataset.status();
    EXPECT_EQ((*dataset)->InMemory(), !is_large);
  }
}

TEST_F(NpyTest, LabelsMayBeNumbers) {
  const std::string samples = NpyFile<float>("<f4", "(2, 1)", {5, 6});
  Write(samples, NpyFile<float>("<f4", "(2, 3)", {1, 2, 3, 4, 5, 6.5f}));
  auto dataset = OpenNumbers();
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  ASSERT_EQ((*dataset)->targets(), 3);
  std::vector<float> numbers(3);
  (*dataset)->ReadTargets(1, numbers);
  EXPECT_THAT(numbers, ElementsAre(4, 5, 6.5f));
  Write(samples, NpyFile<std::int64_t>("<i8", "(2,)", {-7, 8}));
  dataset = OpenNumbers();
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  ASSERT_EQ((*dataset)->targets(), 1);
  numbers.resize(1);
  (*dataset)->ReadTargets(0, numbers);
  EXPECT_THAT(numbers, ElementsAre(-7));
}

TEST_F(NpyTest, NumbersOfALabelAreFiniteAndThereIsALabelForEachSample) {
  const std::string samples = NpyFile<float>("<f4", "(2, 1)", {5, 6});
  Write(samples, NpyFile<float>("<f4", "(2, 2)", {1, 2, 3, NAN}));
  EXPECT_THAT(std::string(OpenNumbers().status().message()),
              HasSubstr("label of sample 1 at offset 140 is nan, expected finite numbers"));
  Write(samples, NpyFile<float>("<f4", "(3, 1)", {1, 2, 3}));
  EXPECT_THAT(std::string(OpenNumbers().status().message()),
              HasSubstr("found an array of [3,1], expected [2] or [2,numbers]"));
}

TEST_F(NpyTest, FileOfNumPyIsReadAsFloats) {
  const std::string golden(kGolden, sizeof kGolden - 1);
  ASSERT_EQ(golden.size(), 128u + 16u);
  Write(golden, NpyFile<std::int64_t>("<i8", "(2,)", {1, 0}));
  const auto dataset = Open();
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_EQ((*dataset)->sample_shape(), Shape({2}));
  EXPECT_EQ((*dataset)->element(), DType::kFloat32);
  EXPECT_EQ((*dataset)->classes(), 2);
  std::vector<std::uint8_t> bytes((*dataset)->sample_bytes());
  EXPECT_EQ(*(*dataset)->Read(1, bytes), 0);
  float values[2];
  std::memcpy(values, bytes.data(), sizeof values);
  EXPECT_THAT(values, ElementsAre(3, 4));
}

TEST_F(NpyTest, FloatsThatAreNotFiniteAreRefusedByPlace) {
  Write(NpyFile<float>("<f4", "(2, 2)", {1, 2, 3, std::numeric_limits<float>::quiet_NaN()}),
        NpyFile<std::int64_t>("<i8", "(2,)", {1, 0}));
  const auto dataset = Open();
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  std::vector<std::uint8_t> bytes((*dataset)->sample_bytes());
  EXPECT_TRUE((*dataset)->Read(0, bytes).ok());
  const auto read = (*dataset)->Read(1, bytes);
  EXPECT_TRUE(absl::IsDataLoss(read.status())) << read.status();
  EXPECT_THAT(std::string(read.status().message()),
              HasSubstr("x_train.npy: sample 1: element 1 is nan, expected a finite number"));
}

TEST_F(NpyTest, ShapesBecomeChannelsHeightAndWidth) {
  std::vector<std::uint8_t> pixels(24);
  std::iota(pixels.begin(), pixels.end(), std::uint8_t{0});
  const std::string y = NpyFile<std::uint8_t>("|u1", "(2, 1)", {0, 9});
  Write(NpyFile("|u1", "(2, 3, 4)", pixels), y);
  EXPECT_EQ((*Open())->sample_shape(), Shape({1, 3, 4}));
  EXPECT_EQ((*Open(true))->sample_shape(), Shape({1, 3, 4}));
  Write(NpyFile("|u1", "(2, 2, 2, 3)", pixels), y);
  EXPECT_EQ((*Open())->sample_shape(), Shape({2, 2, 3}));
  const auto last = Open(true);
  EXPECT_EQ((*last)->sample_shape(), Shape({3, 2, 2}));
  std::vector<std::uint8_t> sample(12);
  EXPECT_EQ(*(*last)->Read(1, sample), 9);
  EXPECT_THAT(sample, ElementsAre(12, 15, 18, 21, 13, 16, 19, 22, 14, 17, 20, 23));
}

TEST_F(NpyTest, FloatImagesMayHaveChannelsLast) {
  Write(NpyFile<float>("<f4", "(1, 1, 2, 2)", {1, 2, 3, 4}),
        NpyFile<std::int32_t>("<i4", "(1,)", {0}));
  const auto dataset = Open(true);
  std::vector<std::uint8_t> bytes(16);
  ASSERT_TRUE((*dataset)->Read(0, bytes).ok());
  float values[4];
  std::memcpy(values, bytes.data(), sizeof values);
  EXPECT_THAT(values, ElementsAre(1, 3, 2, 4));
}

TEST_F(NpyTest, LabelsMayHaveAnyIntegerType) {
  const std::string x = NpyFile<std::uint8_t>("|u1", "(2, 1)", {0, 0});
  const std::string files[] = {
      NpyFile<std::int8_t>("|i1", "(2,)", {0, 5}), NpyFile<std::uint16_t>("<u2", "(2,)", {0, 5}),
      NpyFile<std::int16_t>("<i2", "(2,)", {0, 5}), NpyFile<std::uint32_t>("<u4", "(2,)", {0, 5}),
      NpyFile<std::uint64_t>("<u8", "(2,)", {0, 5})};
  for (const std::string& y : files) {
    Write(x, y);
    std::vector<std::uint8_t> sample(1);
    EXPECT_EQ(*(*Open())->Read(1, sample), 5);
    EXPECT_EQ((*Open())->classes(), 6);
  }
}

TEST_F(NpyTest, LabelsThatAreNoClassesAreRefused) {
  const std::string x = NpyFile<std::uint8_t>("|u1", "(2, 1)", {0, 0});
  Write(x, NpyFile<std::int64_t>("<i8", "(2,)", {0, -1}));
  EXPECT_THAT(Error(), HasSubstr("label of sample 1 at offset 136 is -1, expected 0 to 999999"));
  Write(x, NpyFile<std::uint64_t>("<u8", "(2,)", {~std::uint64_t{0}, 0}));
  EXPECT_THAT(Error(), HasSubstr("label of sample 0 at offset 128 is 9223372036854775807"));
  Write(x, NpyFile<float>("<f4", "(2,)", {0, 1}));
  EXPECT_THAT(Error(), HasSubstr("labels are float32, expected integers"));
  Write(x, NpyFile<std::uint8_t>("|u1", "(3,)", {0, 1, 2}));
  EXPECT_THAT(Error(), AllOf(HasSubstr("y_train.npy: found an array of [3], expected [2]"),
                             HasSubstr("x_train.npy")));
}

TEST_F(NpyTest, OtherTypesAndOrdersAreRefusedByName) {
  const std::string y = NpyFile<std::uint8_t>("|u1", "(1,)", {0});
  Write(NpyFile<double>("<f8", "(1, 1)", {1}), y);
  EXPECT_THAT(Error(), AllOf(HasSubstr("header at offset 20: found ''<f8', 'fortran"),
                             HasSubstr("float32 ('<f4')")));
  Write(NpyFile<float>(">f4", "(1, 1)", {1}), y);
  EXPECT_THAT(Error(), HasSubstr("found ''>f4'"));
  Write(NpyHeaderText("{'descr': '<f4', 'fortran_order': True, 'shape': (1, 1), }") + "1234", y);
  EXPECT_THAT(Error(), AllOf(HasSubstr("found 'True"), HasSubstr("ascontiguousarray")));
  Write(NpyHeaderText("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }"), y);
  EXPECT_THAT(Error(), HasSubstr("expected a type in quotes"));
  Write(NpyFile<std::int32_t>("<i4", "(1, 1)", {1}), y);
  EXPECT_THAT(Error(), HasSubstr("found <i4 of [1,1], expected uint8 (|u1) or float32 (<f4)"));
}

TEST_F(NpyTest, DamagedHeadersAreRefused) {
  const struct {
    std::string file;
    const char* error;
  } cases[] = {
      {"", "found no NPY header at offset 0 of 0 bytes"},
      {"\x89PNG.........", "found no NPY header"},
      {std::string("\x93NUMPY\x04\x00\x00\x00\x00\x00", 12), "version at offset 6 is 4.0"},
      {std::string("\x93NUMPY\x01\x00\xFF\x00{}", 12), "at offset 8 is 255, expected at most 2"},
      {NpyHeaderText("{'descr': '|u1', 'shape': (1,)}"), "each once"},
      {NpyHeaderText("{'shape': (1,), 'shape': (1,)}"), "each once"},
      {NpyHeaderText("{'shape': ()}"), "each once"},
      {NpyHeaderText("{'shape': (0,)}"), "1 to 8 extents of at least 1"},
      {NpyHeaderText("{'shape': (-1,)}"), "1 to 8 extents of at least 1"},
      {NpyHeaderText("{'shape': (4294967296, 4294967296)}"), "no more than 2^48"},
      {NpyHeaderText("{'shape': (1, 1, 1, 1, 1, 1, 1, 1, 1)}"), "1 to 8 extents"},
      {NpyHeaderText("{'shape': (1"), "a comma or a closing parenthesis"},
      {NpyHeaderText("{'descr': '|u1"), "a closing quote"},
      {NpyFile<std::uint8_t>("|u1", "(2, 2)", {1, 2, 3}),
       "cut short: found 131 bytes, expected 132"},
      {NpyFile<std::uint8_t>("|u1", "(2, 1)", {1, 2, 3}), "bytes after the end"},
      {NpyFile<std::uint8_t>("|u1", "(2,)", {1, 2}), "of at least two dimensions"},
  };
  for (const auto& [file, error] : cases) {
    Write(file, NpyFile<std::uint8_t>("|u1", "(2,)", {0, 1}));
    EXPECT_THAT(Error(), AllOf(HasSubstr("x_train.npy"), HasSubstr(error)));
  }
}

TEST_F(NpyTest, VersionTwoHasALongerLength) {
  std::string file = NpyFile<std::uint8_t>("|u1", "(1, 2)", {7, 8});
  file[6] = 2;
  file.insert(10, std::string(2, '\0'));
  Write(file, NpyFile<std::uint8_t>("|u1", "(1,)", {0}));
  const auto dataset = Open();
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  std::vector<std::uint8_t> sample(2);
  ASSERT_TRUE((*dataset)->Read(0, sample).ok());
  EXPECT_THAT(sample, ElementsAre(7, 8));
}

TEST_F(NpyTest, MissingFileIsNamed) {
  const auto dataset = Open();
  EXPECT_TRUE(absl::IsNotFound(dataset.status()));
  EXPECT_THAT(std::string(dataset.status().message()),
              HasSubstr("no train samples found, expected x_train.npy"));
}

TEST_F(NpyTest, NoDamageCrashes) {
  const std::string x = NpyFile<std::uint8_t>("|u1", "(2, 1, 2, 2)", {1, 2, 3, 4, 5, 6, 7, 8});
  const std::string y = NpyFile<std::int16_t>("<i2", "(2,)", {0, 1});
  int opened = 0;
  for (std::uint64_t n = 0; n < 600; ++n) {
    Write(n % 2 == 0 ? Mutate(x, n / 2) : x, n % 2 == 0 ? y : Mutate(y, n / 2));
    const auto dataset = Open(n % 3 == 0);
    if (!dataset.ok()) continue;
    ++opened;
    std::vector<std::uint8_t> sample((*dataset)->sample_bytes());
    for (std::int64_t i = 0; i < (*dataset)->size(); ++i) {
      EXPECT_TRUE((*dataset)->Read(i, sample).ok());
    }
  }
  EXPECT_GT(opened, 3);
  EXPECT_LT(opened, 580);
}

}  // namespace
}  // namespace lockstep::train
