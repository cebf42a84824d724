#include "trainer/data/formats/image_folder.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>
#include <vector>

#include "tests/support/time_limit.h"
#include "tests/trainer/data/formats/image_files.h"
#include "trainer/data/formats/open_datasets.h"
#include "trainer/data/memory_cache.h"

namespace lockstep::train {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A gray image of 2x2.
std::string Gray(char level) {
  return PngFile({2, 2, 8, 0}, std::string(4, level));
}

class ImageFolderTest : public ::testing::Test {
 protected:
  ImageFolderTest() {
    spec_.format = api::DatasetFormat::kImageFolder;
    spec_.path = folder_.path();
    spec_.image_size = {1, 2};
    spec_.image_channels = 1;
  }
  void Write(const std::string& name, const std::string& content) {
    const std::string path = folder_.At(name);
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    WriteTextFile(path, content);
  }
  void WriteCatsAndDogs() {
    Write("train/dog/b.png", Gray(40));
    Write("train/dog/a.PNG", Gray(30));
    Write("train/cat/z.jpeg", JpegFile(4, 4, 1, std::string(16, 20)));
    Write("train/cat/notes.txt", "ignored");
    Write("train/cat/.hidden.png", "ignored");
    Write("test/dog/a.png", Gray(50));
  }
  absl::StatusOr<std::unique_ptr<Dataset>> Open(Split split = Split::kTrain) {
    return OpenImageFolder(spec_, split);
  }
  std::string Error(Split split = Split::kTrain) {
    return std::string(Open(split).status().message());
  }

  TempDirectory folder_;
  api::DatasetSpec spec_;
};

std::pair<int, int> LabelAndPixel(const Dataset& dataset, std::int64_t index) {
  std::vector<std::uint8_t> sample(dataset.sample_bytes());
  const auto label = dataset.Read(index, sample);
  EXPECT_TRUE(label.ok()) << label.status();
  return {label.value_or(-1), sample.back()};
}

TEST_F(ImageFolderTest, ClassesAndFilesAreInTheOrderOfTheirNames) {
  WriteCatsAndDogs();
  const auto train = Open();
  ASSERT_TRUE(train.ok()) << train.status();
  EXPECT_EQ((*train)->sample_shape(), Shape({1, 1, 2}));
  EXPECT_EQ((*train)->classes(), 2);
  ASSERT_EQ((*train)->size(), 3);
  EXPECT_EQ(LabelAndPixel(**train, 0), std::pair(0, 20));
  EXPECT_EQ(LabelAndPixel(**train, 1), std::pair(1, 30));
  EXPECT_EQ(LabelAndPixel(**train, 2), std::pair(1, 40));
}

TEST_F(ImageFolderTest, TestSetHasTheClassesOfTheTrainingSet) {
  WriteCatsAndDogs();
  const auto one = Open(Split::kTest);
  ASSERT_TRUE(one.ok()) << one.status();
  EXPECT_EQ((*one)->classes(), 2);
  EXPECT_EQ(LabelAndPixel(**one, 0), std::pair(1, 50));
  std::filesystem::create_directories(folder_.At("test/cat"));  // without images
  const auto test = Open(Split::kTest);
  ASSERT_TRUE(test.ok()) << test.status();
  EXPECT_EQ(LabelAndPixel(**test, 0), std::pair(1, 50));
  Write("test/eel/a.png", Gray(1));
  EXPECT_THAT(Error(Split::kTest),
              AllOf(HasSubstr("test/eel"), HasSubstr("the training set has no such class")));
}

TEST_F(ImageFolderTest, TestSetIsTheFirstFolderWithClasses) {
  WriteCatsAndDogs();
  std::filesystem::remove_all(folder_.At("test"));
  Write("test/1.png", Gray(1));  // without its class
  Write("val/cat/a.png", Gray(60));
  const auto test = Open(Split::kTest);
  ASSERT_TRUE(test.ok()) << test.status();
  EXPECT_EQ(LabelAndPixel(**test, 0), std::pair(0, 60));
  Write("test/dog/a.png", Gray(50));
  EXPECT_EQ(LabelAndPixel(**Open(Split::kTest), 0), std::pair(1, 50));
}

TEST_F(ImageFolderTest, FolderOfClassesAloneIsDividedBySeed) {
  for (int i = 0; i < 10; ++i) {
    Write("a/" + std::to_string(i) + ".png", Gray(static_cast<char>(i)));
    Write("b/" + std::to_string(i) + ".png", Gray(static_cast<char>(10 + i)));
  }
  EXPECT_EQ((*Open())->size(), 20);
  EXPECT_TRUE(absl::IsNotFound(Open(Split::kTest).status()));
  EXPECT_THAT(Error(Split::kTest), HasSubstr("validationFraction above 0"));
  spec_.validation_fraction = 0.3;
  const TrainAndTest opened = OpenDatasets(spec_, true, 1).value();
  EXPECT_EQ(opened.train->size(), 14);
  EXPECT_EQ(opened.test->size(), 6);
}

TEST_F(ImageFolderTest, FaultsNameTheFileOrFolder) {
  EXPECT_THAT(Error(), HasSubstr("found 0 folders, expected 2 to 1000000"));
  std::filesystem::create_directories(folder_.At("train/cat"));
  std::filesystem::create_directories(folder_.At("train/dog"));
  EXPECT_THAT(Error(), HasSubstr("train/cat: found no images, expected those of one class"));
  EXPECT_THAT(Error(Split::kTest), HasSubstr("no folder of test images found"));
  std::filesystem::create_directories(folder_.At("test"));
  EXPECT_THAT(Error(Split::kTest), HasSubstr("test: found 0 folders, expected 1 to 1000000"));
  std::filesystem::create_directories(folder_.At("test/cat"));
  EXPECT_THAT(Error(Split::kTest), HasSubstr("test: found no images in the folders of 2 classes"));
  WriteCatsAndDogs();
  Write("train/lost+found/notes.txt", "");
  EXPECT_THAT(Error(), HasSubstr("train/lost+found: found no images"));
  std::filesystem::remove_all(folder_.At("train/lost+found"));
  Write("train/dog/c.gif", "GIF89a");
  EXPECT_THAT(Error(), HasSubstr("train/dog/c.gif: found an image of the format .gif"));
  std::filesystem::remove(folder_.At("train/dog/c.gif"));
  Write("train/dog/more/c.png", Gray(1));
  EXPECT_THAT(Error(), HasSubstr("train/dog/more: found a folder, expected the images"));
}

TEST_F(ImageFolderTest, DamagedImageIsNamedWhenItIsRead) {
  WriteCatsAndDogs();
  Write("train/dog/b.png", Gray(40).substr(0, 50));
  const auto train = Open();
  std::vector<std::uint8_t> sample(2);
  EXPECT_TRUE((*train)->Read(1, sample).ok());
  const auto label = (*train)->Read(2, sample);
  EXPECT_TRUE(absl::IsDataLoss(label.status()));
  EXPECT_THAT(std::string(label.status().message()),
              HasSubstr("train/dog/b.png: damaged PNG image"));
}

TEST_F(ImageFolderTest, AnImageThatIsBeingReplacedIsNotDamaged) {
  WriteCatsAndDogs();
  // The writer must come before the second read, a second after the first.
  bool is_read = false;
  for (int i = 0; i < 5 && !is_read; ++i) {
    const auto train = Open();
    Write("train/dog/b.png", "");
    std::jthread writer([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      Write("train/dog/b.png", Gray(70));
    });
    std::vector<std::uint8_t> sample((*train)->sample_bytes());
    is_read = (*train)->Read(2, sample).ok() && sample[0] == 70;
  }
  EXPECT_TRUE(is_read);
}

TEST_F(ImageFolderTest, OnceAnImageIsDamagedNoOtherIsWaitedFor) {
  WriteCatsAndDogs();
  for (int i = 0; i < 20; ++i) Write(fmt::format("train/dog/{}.png", i), "");
  const auto train = Open();
  std::vector<std::uint8_t> sample((*train)->sample_bytes());
  const auto begin = std::chrono::steady_clock::now();
  for (std::int64_t i = 1; i <= 20; ++i) {
    EXPECT_TRUE(absl::IsDataLoss((*train)->Read(i, sample).status())) << i;
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, testing::TimeLimit(std::chrono::seconds(15)));
}

TEST_F(ImageFolderTest, CacheDecodesOnce) {
  WriteCatsAndDogs();
  spec_.cache = false;
  const auto uncached = OpenDatasets(spec_, false, 1);
  spec_.cache = true;
  const auto cached = OpenDatasets(spec_, false, 1);
  ASSERT_TRUE(cached.ok() && uncached.ok());
  EXPECT_EQ(LabelAndPixel(*cached->train, 1), std::pair(1, 30));
  EXPECT_EQ(LabelAndPixel(*uncached->train, 1), std::pair(1, 30));
  Write("train/dog/a.PNG", Gray(99));
  EXPECT_EQ(LabelAndPixel(*cached->train, 1), std::pair(1, 30));
  EXPECT_EQ(LabelAndPixel(*cached->train, 2), std::pair(1, 40));
  EXPECT_EQ(LabelAndPixel(*uncached->train, 1), std::pair(1, 99));
}

TEST_F(ImageFolderTest, CacheKeepsNoErrorAndNotTooMuch) {
  WriteCatsAndDogs();
  Write("train/dog/a.PNG", "damaged");
  auto source = Open();
  const Dataset* const inner = source->get();
  const auto cached = CacheInMemory(*std::move(source));
  EXPECT_NE(cached.get(), inner);
  std::vector<std::uint8_t> sample(2);
  EXPECT_FALSE(cached->Read(1, sample).ok());
  Write("train/dog/a.PNG", Gray(30));
  EXPECT_EQ(LabelAndPixel(*cached, 1), std::pair(1, 30));
  spec_.image_size = {20'000, 20'000};  // 400 MB a sample
  auto large = Open();
  const Dataset* const same = large->get();
  EXPECT_EQ(CacheInMemory(*std::move(large)).get(), same);
}

}  // namespace
}  // namespace lockstep::train
