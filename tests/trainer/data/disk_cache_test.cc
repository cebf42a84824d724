#include "trainer/data/disk_cache.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <thread>
#include <vector>

#include "tests/support/planted_link.h"
#include "tests/support/temp_directory.h"
#include "tests/trainer/data/formats/image_files.h"
#include "tests/trainer/data/formats/tfrecord_files.h"
#include "trainer/data/formats/open_datasets.h"

namespace lockstep::train {
namespace {

using ::testing::HasSubstr;

constexpr std::int64_t kSamples = 6;
constexpr std::size_t kSampleBytes = 3 * 50 * 70, kSlotBytes = kSampleBytes + 24;

// Pixel p of sample i is i + p, modulo 256, and its label i + 1.
struct Source {
  std::uint64_t digest = 7;
  std::vector<std::uint64_t> stamps = std::vector<std::uint64_t>(kSamples, 1);
  std::int32_t label_of_first = 1;
  std::atomic<int> decoded = 0;  // samples
};

class Decoding final : public DecodedSource {
 public:
  explicit Decoding(Source& source) : source_(source) {}
  std::int64_t size() const override { return kSamples; }
  const Shape& sample_shape() const override { return shape_; }
  std::int64_t classes() const override { return kSamples + 1; }
  bool InMemory() const override { return false; }
  std::uint64_t SourceDigest() const override { return source_.digest; }
  absl::StatusOr<std::uint64_t> StampOf(std::int64_t index) const override {
    return source_.stamps[static_cast<std::size_t>(index)];
  }
  absl::StatusOr<std::int32_t> Read(std::int64_t index,
                                    std::span<std::uint8_t> sample) const override {
    ++source_.decoded;
    for (std::size_t p = 0; p < sample.size(); ++p) {
      sample[p] = static_cast<std::uint8_t>(static_cast<std::size_t>(index) + p);
    }
    return index == 0 ? source_.label_of_first : static_cast<std::int32_t>(index + 1);
  }

 private:
  Source& source_;
  const Shape shape_ = {3, 50, 70};
};

void ExpectAllSamples(const Dataset& data) {
  std::vector<std::uint8_t> sample(kSampleBytes);
  for (std::int64_t i = 0; i < kSamples; ++i) {
    std::ranges::fill(sample, std::uint8_t{0xEE});
    const auto label = data.Read(i, sample);
    ASSERT_TRUE(label.ok()) << label.status();
    EXPECT_EQ(*label, i + 1);
    for (std::size_t p = 0; p < sample.size(); ++p) {
      ASSERT_EQ(sample[p], (static_cast<std::size_t>(i) + p) % 256) << "pixel " << p << " of " << i;
    }
  }
}

class DiskCacheTest : public ::testing::Test {
 protected:
  // As another process, or a later run, would.
  std::unique_ptr<Dataset> Open() {
    return CacheOnDisk(std::make_unique<Decoding>(source_), folder_);
  }
  // How many samples are decoded when all are read.
  int Decoded(const Dataset& data) {
    source_.decoded = 0;
    ExpectAllSamples(data);
    return source_.decoded;
  }
  std::vector<std::string> Files() const {
    std::vector<std::string> files;
    if (!std::filesystem::exists(folder_)) return files;
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
      files.push_back(entry.path());
    }
    return files;
  }
  std::string File() const {
    const std::vector<std::string> files = Files();
    EXPECT_EQ(files.size(), 1u);
    return files.empty() ? "" : files.front();
  }

  const TempDirectory directory_;
  const std::string folder_ = directory_.At("node/cache");
  Source source_;
};

TEST_F(DiskCacheTest, ASampleIsDecodedOnceForAllEpochsAndProcesses) {
  const auto first = Open(), other = Open();
  EXPECT_EQ(Decoded(*first), kSamples);
  EXPECT_EQ(Decoded(*first), 0);
  EXPECT_EQ(Decoded(*Open()), 0);
  EXPECT_EQ(Decoded(*other), 1) << "it looks for a file of another process when it has a sample";
  EXPECT_EQ(std::filesystem::file_size(File()), kSamples * kSlotBytes);
}

TEST_F(DiskCacheTest, OpeningWritesNothing) {
  const auto data = Open();
  EXPECT_EQ(data->size(), kSamples);
  EXPECT_FALSE(std::filesystem::exists(folder_));
}

TEST_F(DiskCacheTest, ADamagedSampleIsDecodedAgain) {
  EXPECT_EQ(Decoded(*Open()), kSamples);
  const std::string whole = ReadTextFile(File());
  // A pixel, the label, and the checksum of the third sample.
  for (const std::size_t at : {24 + 40, 16, 20}) {
    std::string damaged = whole;
    char& byte = damaged[2 * kSlotBytes + at];
    byte = static_cast<char>(byte ^ 1);
    WriteTextFile(File(), damaged);
    EXPECT_EQ(Decoded(*Open()), 1) << at;
    EXPECT_EQ(ReadTextFile(File()), whole) << "it is written again";
  }
}

TEST_F(DiskCacheTest, OfAnotherPlaceASampleIsNotTaken) {
  EXPECT_EQ(Decoded(*Open()), kSamples);
  std::string content = ReadTextFile(File());
  content.replace(0, kSlotBytes, content.substr(kSlotBytes, kSlotBytes));
  WriteTextFile(File(), content);
  EXPECT_EQ(Decoded(*Open()), 1);
}

// Whoever may write in the folder can make it, with a right checksum. The sample itself is sound.
TEST_F(DiskCacheTest, ALabelOfNoClassIsNotTaken) {
  source_.label_of_first = kSamples + 1;
  std::vector<std::uint8_t> sample(kSampleBytes);
  EXPECT_EQ(Open()->Read(0, sample).value(), kSamples + 1);
  source_.label_of_first = 1;
  EXPECT_EQ(Decoded(*Open()), kSamples);
  EXPECT_EQ(Decoded(*Open()), 0) << "it was written again";
}

TEST_F(DiskCacheTest, WhatACrashHasTornIsDecodedAgain) {
  EXPECT_EQ(Decoded(*Open()), kSamples);
  std::filesystem::resize_file(File(), 3 * kSlotBytes + kSlotBytes / 2);
  EXPECT_EQ(Decoded(*Open()), 3);
  // Pages of a sample that did not reach the disk, but the later ones did.
  std::string content = ReadTextFile(File());
  content.replace(kSlotBytes + 4096, 4096, std::string(4096, '\0'));
  WriteTextFile(File(), content);
  EXPECT_EQ(Decoded(*Open()), 1);
}

TEST_F(DiskCacheTest, ASampleWhoseFileHasChangedIsDecodedAgain) {
  EXPECT_EQ(Decoded(*Open()), kSamples);
  source_.stamps[4] = 2;
  const auto data = Open();
  EXPECT_EQ(Decoded(*data), 1);
  EXPECT_EQ(Decoded(*data), 0);
  source_.stamps[4] = 0;  // as good a stamp as any
  EXPECT_EQ(Decoded(*Open()), 1);
  EXPECT_EQ(Decoded(*Open()), 0);
}

TEST_F(DiskCacheTest, OtherDataHaveAFileOfTheirOwn) {
  EXPECT_EQ(Decoded(*Open()), kSamples);
  source_.digest = 8;
  EXPECT_EQ(Decoded(*Open()), kSamples);
  EXPECT_EQ(Files().size(), 2u);
  source_.digest = 7;
  EXPECT_EQ(Decoded(*Open()), 0);
}

TEST_F(DiskCacheTest, AFullDiskEndsTheWritingAndNotTheReading) {
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  signal(SIGXFSZ, SIG_IGN);
  const rlimit small{2 * kSlotBytes + 10, before.rlim_max};  // as a disk that becomes full
  setrlimit(RLIMIT_FSIZE, &small);
  ::testing::internal::CaptureStderr();
  const auto data = Open();
  EXPECT_EQ(Decoded(*data), kSamples);
  EXPECT_EQ(Decoded(*data), kSamples - 2);
  EXPECT_EQ(Decoded(*Open()), kSamples - 2) << "the third is torn";
  const std::string log = ::testing::internal::GetCapturedStderr();
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_THAT(log, HasSubstr("decoded samples are no longer kept on disk"));
  EXPECT_THAT(log, HasSubstr(File()));
  EXPECT_THAT(log, HasSubstr("cannot write it"));
  EXPECT_EQ(std::ranges::count(log, '\n'), 2) << log;  // one for each of the two that wrote
}

TEST_F(DiskCacheTest, WithoutAFolderThatCanBeMadeSamplesAreDecoded) {
  WriteTextFile(directory_.At("node"), "a file");
  ::testing::internal::CaptureStderr();
  const auto data = Open();
  EXPECT_EQ(Decoded(*data), kSamples);
  EXPECT_EQ(Decoded(*data), kSamples);
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(log, HasSubstr("cannot create it: Not a directory"));
  EXPECT_EQ(std::ranges::count(log, '\n'), 1) << log;
}

TEST_F(DiskCacheTest, ALinkInTheFolderIsNotFollowed) {
  EXPECT_EQ(Decoded(*Open()), kSamples);
  for (const testing::Link link : testing::kLinks) {
    const std::string victim = directory_.At("victim");
    WriteTextFile(victim, "");
    testing::PlantLink(File(), victim, link);
    EXPECT_EQ(Decoded(*Open()), kSamples);
    EXPECT_EQ(std::filesystem::file_size(victim), 0u);
  }
}

TEST_F(DiskCacheTest, ProcessesAndThreadsFillOneFileTogether) {
  const auto first = Open(), other = Open();
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 8; ++i) {
      threads.emplace_back([&, i] { ExpectAllSamples(i % 2 == 0 ? *first : *other); });
    }
  }
  EXPECT_EQ(Decoded(*Open()), 0);
}

// Data sets of files. Their samples come from the disk if another image of the same size, put in
// its place with the same time of modification, is not seen.
class KeptFilesTest : public ::testing::Test {
 protected:
  KeptFilesTest() {
    spec_.path = directory_.At("data");
    spec_.image_size = {1, 2};
    spec_.image_channels = 1;
    spec_.cache = false;
    spec_.cache_directory = directory_.At("cache");
  }
  static std::string Gray(char level) { return PngFile({2, 2, 8, 0}, std::string(4, level)); }
  // `time`: of the modification, in seconds.
  void Write(const std::string& name, const std::string& content, std::int64_t time) const {
    const std::string path = spec_.path + "/" + name;
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    WriteTextFile(path, content);
    const timespec both[] = {{time, 0}, {time, 0}};
    ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), both, 0), 0);
  }
  // The first training sample of a later run.
  std::pair<int, int> LabelAndPixel() const {
    const auto opened = OpenDatasets(spec_, /*with_test=*/false, /*seed=*/1);
    EXPECT_TRUE(opened.ok()) << opened.status();
    std::vector<std::uint8_t> sample(opened->train->sample_bytes());
    const auto label = opened->train->Read(0, sample);
    EXPECT_TRUE(label.ok()) << label.status();
    return {label.value_or(-1), sample.back()};
  }

  const TempDirectory directory_;
  api::DatasetSpec spec_;
};

TEST_F(KeptFilesTest, AnImageOfAFolderIsKeptUntilItsFileChanges) {
  spec_.format = api::DatasetFormat::kImageFolder;
  Write("train/cat/a.png", Gray(10), 100);
  Write("train/dog/a.png", Gray(20), 100);
  EXPECT_EQ(LabelAndPixel(), std::pair(0, 10));
  Write("train/cat/a.png", Gray(30), 100);
  EXPECT_EQ(LabelAndPixel(), std::pair(0, 10)) << "not read from the file";
  Write("train/cat/a.png", Gray(30), 101);
  EXPECT_EQ(LabelAndPixel(), std::pair(0, 30));
  Write("train/ant/a.png", Gray(40), 100);  // shifts the labels
  EXPECT_EQ(LabelAndPixel(), std::pair(0, 40));
  Write("train/cat/a.png", Gray(50), 101);
  spec_.image_size = {1, 3};  // decodes anew
  std::filesystem::remove_all(spec_.path + "/train/ant");
  EXPECT_EQ(LabelAndPixel(), std::pair(0, 50));
}

// The next process would take it for a class.
TEST_F(KeptFilesTest, AFolderAmongTheClassesIsRefused) {
  spec_.format = api::DatasetFormat::kImageFolder;
  Write("train/cat/a.png", Gray(10), 100);
  Write("train/dog/a.png", Gray(20), 100);
  for (const std::string below : {"train/cache", "train/cat/cache", "train/../train/cache"}) {
    spec_.cache_directory = spec_.path + "/" + below;
    const auto opened = OpenDatasets(spec_, /*with_test=*/false, /*seed=*/1);
    EXPECT_TRUE(absl::IsInvalidArgument(opened.status())) << opened.status();
    EXPECT_THAT(opened.status().message(), HasSubstr("spec.training.dataset.cacheDirectory"));
  }
  for (const std::string elsewhere : {"cache", "train/.cache", "train2/cache", "train"}) {
    spec_.cache_directory = spec_.path + "/" + elsewhere;
    EXPECT_EQ(LabelAndPixel(), std::pair(0, 10)) << elsewhere;
    EXPECT_EQ(LabelAndPixel(), std::pair(0, 10)) << elsewhere;
  }
}

TEST_F(KeptFilesTest, ATestSetsLabelsAreThoseOfTheTrainingSetNow) {
  spec_.format = api::DatasetFormat::kImageFolder;
  Write("train/cat/a.png", Gray(10), 100);
  Write("train/dog/a.png", Gray(20), 100);
  Write("test/dog/a.png", Gray(25), 100);
  std::vector<std::uint8_t> sample(2);
  const auto label_of_test = [&] {
    return *(*OpenTestSet(spec_, 1, LabelKind::kClasses))->Read(0, sample);
  };
  EXPECT_EQ(label_of_test(), 1);
  Write("train/ant/a.png", Gray(40), 100);
  EXPECT_EQ(label_of_test(), 2);
}

TEST_F(KeptFilesTest, AnImageOfARecordIsKeptUntilItsFileChanges) {
  spec_.format = api::DatasetFormat::kTfRecord;
  const auto record = [](char level, std::int64_t label) {
    return TfRecord(Example(BytesFeature("image", Gray(level)) + IntegerFeature("label", label)));
  };
  Write("train.tfrecord", record(10, 1), 100);
  EXPECT_EQ(LabelAndPixel(), std::pair(1, 10));
  Write("train.tfrecord", record(30, 1), 100);
  EXPECT_EQ(LabelAndPixel(), std::pair(1, 10)) << "not read from the record";
  Write("train.tfrecord", record(30, 0), 101);
  EXPECT_EQ(LabelAndPixel(), std::pair(0, 30));
  spec_.tfrecord.emplace().label = "other";
  Write("train.tfrecord",
        TfRecord(Example(BytesFeature("image", Gray(30)) + IntegerFeature("other", 7))), 101);
  EXPECT_EQ(LabelAndPixel(), std::pair(7, 30)) << "another label is another data set";
}

}  // namespace
}  // namespace lockstep::train
