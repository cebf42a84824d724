#include "trainer/plan/plan_data.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/v1/enum_names.h"

namespace lockstep::train {
namespace {

using ::testing::HasSubstr;

SessionOptions OptionsOf(api::DatasetFormat format) {
  SessionOptions options;
  options.training.dataset.format = format;
  options.training.dataset.path = "/nowhere";
  return options;
}

TEST(PlanDataTest, SyntheticDataAreKnownWithoutFiles) {
  SessionOptions options = OptionsOf(api::DatasetFormat::kSynthetic);
  options.training.dataset.synthetic = api::SyntheticSpec{
      .train_examples = 5000, .test_examples = 20, .shape = {3, 32, 32}, .classes = 4};
  const PlannedData data = *PlanData(options, {});
  EXPECT_FALSE(data.is_opened);
  EXPECT_EQ(data.train.samples, 5000);
  EXPECT_EQ(data.train.shape, (Shape{3, 32, 32}));
  EXPECT_EQ(data.train.classes, 4);
  EXPECT_EQ(data.test->samples, 20);
  EXPECT_GT(data.bytes, std::size_t{14} << 20) << "they are kept in memory: 14.6 MiB";
  EXPECT_LT(data.bytes, std::size_t{80} << 20);
}

TEST(PlanDataTest, WhatIsGivenOfSyntheticDataChangesThatAlone) {
  SessionOptions options = OptionsOf(api::DatasetFormat::kSynthetic);
  const PlannedData more = *PlanData(options, {.samples = 7, .classes = {}, .shape = {}});
  EXPECT_EQ(more.train.samples, 7);
  EXPECT_EQ(more.train.shape, (Shape{1, 28, 28}));
  EXPECT_EQ(more.train.classes, 10);
  options.training.loss.type = api::LossType::kMeanSquaredError;
  EXPECT_EQ(PlanData(options, {.samples = 7, .classes = {}, .shape = {}})->train.targets, 1);
}

TEST(PlanDataTest, WhatTheJobFixesNeedNotBeThere) {
  SessionOptions options = OptionsOf(api::DatasetFormat::kTfRecord);
  options.training.dataset.image_size = {224, 192};
  options.training.dataset.tfrecord = api::TfRecordSpec{.shape = {}, .classes = 7};
  const PlannedData data = *PlanData(options, {});
  EXPECT_FALSE(data.is_opened);
  EXPECT_EQ(data.train.shape, (Shape{3, 224, 192}));
  EXPECT_EQ(data.train.classes, 7);
  EXPECT_EQ(data.train.samples, std::nullopt);
  EXPECT_EQ(DatasetOf(data.train)->sample_shape(), data.train.shape);
}

TEST(PlanDataTest, AugmentationThatDoesNotFitTheSamplesIsRefused) {
  SessionOptions options = OptionsOf(api::DatasetFormat::kIdx);
  options.training.dataset.augment = api::AugmentSpec{.cutout = api::CutoutSpec{29}};
  GivenData given{.classes = 10, .shape = Shape{1, 28, 28}};
  EXPECT_EQ(
      PlanData(options, given).status(),
      absl::InvalidArgumentError("spec.training.dataset.augment.cutout.size: found 29 for "
                                 "images of 28x28 pixels, expected at most the shorter side"));
  options.training.dataset.augment->cutout->size = 28;
  EXPECT_TRUE(PlanData(options, given).ok()) << "the files may hold bytes";
  given.shape = Shape{28};
  EXPECT_THAT(PlanData(options, given).status().message(),
              HasSubstr("augment: found samples of uint8 [28], expected images"));
}

TEST(PlanDataTest, NormalizationIsCheckedWithoutFiles) {
  SessionOptions options = OptionsOf(api::DatasetFormat::kNpy);
  options.training.dataset.normalize = api::NormalizeSpec{{0.5}, {0.5}};
  GivenData given{.classes = 10, .shape = Shape{1, 28, 28}};
  EXPECT_TRUE(PlanData(options, given).ok()) << "the files may hold bytes";
  given.shape = Shape{3, 28, 28};
  EXPECT_THAT(PlanData(options, given).status().message(),
              HasSubstr("normalize.mean: found 1 numbers for images of 3 channels"));
}

TEST(PlanDataTest, SaysWhatIsMissing) {
  const auto shape = PlanData(OptionsOf(api::DatasetFormat::kIdx), {}).status();
  EXPECT_TRUE(absl::IsNotFound(shape)) << shape;
  EXPECT_THAT(shape.message(), HasSubstr("/nowhere"));
  EXPECT_THAT(shape.message(),
              HasSubstr("format idx fixes no shape of a sample: the data set has to be opened, or "
                        "--sample-shape given"));
  EXPECT_THAT(PlanData(OptionsOf(api::DatasetFormat::kCifar), {}).status().message(),
              HasSubstr("format cifar fixes no number of classes"));
}

TEST(PlanDataTest, WhatIsGivenComesBeforeTheFiles) {
  const PlannedData data =
      *PlanData(OptionsOf(api::DatasetFormat::kCifar), {.samples = 9, .classes = 100, .shape = {}});
  EXPECT_EQ(data.train.shape, (Shape{3, 32, 32}));
  EXPECT_EQ(data.train.classes, 100);
  EXPECT_EQ(data.train.samples, 9);
  EXPECT_TRUE(data.test.has_value());
  SessionOptions options = OptionsOf(api::DatasetFormat::kCsv);
  options.training.evaluation.enabled = false;
  options.training.loss.type = api::LossType::kMeanSquaredError;
  const PlannedData numbers =
      *PlanData(options, {.samples = {}, .classes = {}, .shape = Shape{12}});
  EXPECT_EQ(numbers.train.targets, 1) << "a table has one label column";
  EXPECT_EQ(numbers.train.element, DType::kFloat32);
  EXPECT_FALSE(numbers.test.has_value());
}

TEST(PlanDataTest, DescribedSamplesThatWillBeKeptCount) {
  SessionOptions options = OptionsOf(api::DatasetFormat::kImageFolder);
  options.training.dataset.image_size = {32, 32};
  options.training.dataset.image_channels = 3;
  options.training.evaluation.enabled = false;
  const auto bytes = [&](std::optional<std::int64_t> samples) {
    return PlanData(options, {.samples = samples, .classes = 10, .shape = {}})->bytes;
  };
  constexpr std::size_t kSample = 3 * 32 * 32 + 4;  // with its label
  EXPECT_EQ(bytes(1000), 1000 * kSample);
  EXPECT_EQ(bytes(1'000'000), 0u) << "so many are not kept";
  EXPECT_EQ(bytes(std::nullopt), 0u);
  options.training.dataset.validation_fraction = 0.2;
  EXPECT_EQ(bytes(800), 1000 * kSample) << "the held out ones, too";
  options.training.dataset.cache = false;
  EXPECT_EQ(bytes(800), 0u);
  options.training.dataset.cache_directory = "/cache";
  EXPECT_EQ(bytes(800), 1000 * 8u) << "the stamp of each";
}

// A loader keeps fewer batches of samples that are in memory.
TEST(PlanDataTest, DescribedSamplesAreInMemoryAsOpenedOnes) {
  const auto facts = [](api::DatasetFormat format, bool cache) {
    SessionOptions options = OptionsOf(format);
    options.training.dataset.cache = cache;
    options.training.dataset.image_size = {32, 32};
    return *PlanData(options, {.samples = 50, .classes = 3, .shape = Shape{3, 32, 32}});
  };
  using Format = api::DatasetFormat;
  for (const Format format : {Format::kIdx, Format::kCifar, Format::kNpy, Format::kSynthetic}) {
    EXPECT_TRUE(facts(format, true).train.in_memory) << api::NameOf(format);
    EXPECT_TRUE(facts(format, true).test->in_memory) << api::NameOf(format);
    EXPECT_FALSE(facts(format, false).train.in_memory) << api::NameOf(format);
    EXPECT_FALSE(facts(format, false).test->in_memory) << api::NameOf(format);
  }
  SessionOptions large = OptionsOf(Format::kIdx);
  EXPECT_FALSE(PlanData(large, {.samples = 90'000, .classes = 3, .shape = Shape{3, 32, 32}})
                   ->train.in_memory)
      << "276 MB";
  EXPECT_TRUE(facts(Format::kCsv, false).train.in_memory);
  EXPECT_FALSE(facts(Format::kImageFolder, true).train.in_memory);
  EXPECT_FALSE(facts(Format::kTfRecord, true).train.in_memory);
}

TEST(PlanDataTest, DescribedSyntheticDataAreInMemoryAsGeneratedOnes) {
  SessionOptions options = OptionsOf(api::DatasetFormat::kSynthetic);
  for (const std::int64_t samples : {100, 2'000'000}) {
    options.training.dataset.synthetic = api::SyntheticSpec{
        .train_examples = samples, .test_examples = 70, .shape = {1, 28, 28}, .classes = 4};
    const PlannedData opened = *PlanData(options, {});
    const PlannedData described =
        *PlanData(options, {.samples = {}, .classes = {}, .shape = Shape{1, 28, 28}});
    EXPECT_EQ(described.train.in_memory, opened.train.in_memory) << samples;
    EXPECT_EQ(described.test->in_memory, opened.test->in_memory) << samples;
  }
}

TEST(PlanDataTest, DescribedSamplesOfUnknownTypeAreTakenForTheLargerOne) {
  SessionOptions options = OptionsOf(api::DatasetFormat::kNpy);
  const GivenData given{.samples = 50, .classes = 3, .shape = Shape{3, 32, 32}};
  EXPECT_EQ(PlanData(options, given)->train.element, DType::kFloat32);
  EXPECT_EQ(PlanData(options, given)->test->element, DType::kFloat32);
  options = OptionsOf(api::DatasetFormat::kTfRecord);
  EXPECT_EQ(PlanData(options, given)->train.element, DType::kUInt8) << "encoded images";
  options.training.dataset.tfrecord = api::TfRecordSpec{.shape = {3, 32, 32}, .classes = 3};
  EXPECT_EQ(PlanData(options, given)->train.element, DType::kFloat32);
}

TEST(PlanDataTest, ADescribedTableIsKept) {
  SessionOptions options = OptionsOf(api::DatasetFormat::kCsv);
  options.training.evaluation.enabled = false;
  EXPECT_EQ(PlanData(options, {.samples = 50, .classes = 3, .shape = Shape{12}})->bytes,
            50u * 13 * 4);
}

TEST(PlanDataTest, HeldOutSamplesThatNoMemoryHoldsAreRefused) {
  SessionOptions options = OptionsOf(api::DatasetFormat::kCsv);
  options.training.dataset.validation_fraction = 1 - 1e-12;
  const auto data = PlanData(options, {.samples = 1'000'000'000, .classes = 3, .shape = Shape{12}});
  EXPECT_TRUE(absl::IsInvalidArgument(data.status())) << data.status();
  EXPECT_THAT(std::string(data.status().message()),
              HasSubstr("--samples: found 1000000000 samples of 12 elements"));
}

TEST(PlanDataTest, DescribedSyntheticDataKeepWhatGeneratedOnesDo) {
  SessionOptions options = OptionsOf(api::DatasetFormat::kSynthetic);
  options.training.dataset.synthetic = api::SyntheticSpec{
      .train_examples = 5000, .test_examples = 1000, .shape = {3, 32, 32}, .classes = 4};
  const PlannedData opened = *PlanData(options, {});
  const PlannedData described =
      *PlanData(options, {.samples = {}, .classes = {}, .shape = Shape{3, 32, 32}});
  EXPECT_EQ(described.train.samples, 5000);
  EXPECT_EQ(described.test->samples, 1000);
  EXPECT_EQ(described.bytes, 6008u * 3 * 32 * 32);
  EXPECT_NEAR(static_cast<double>(opened.bytes), static_cast<double>(described.bytes), 1 << 20);
}

TEST(PlanDataTest, DescribedSyntheticDataAreDividedAsGeneratedOnes) {
  SessionOptions options = OptionsOf(api::DatasetFormat::kSynthetic);
  options.training.dataset.synthetic = api::SyntheticSpec{.train_examples = 1003};
  options.training.dataset.validation_fraction = 0.2;
  const PlannedData opened = *PlanData(options, {});
  const PlannedData described = *PlanData(options, {.samples = {}, .classes = 10, .shape = {}});
  EXPECT_EQ(opened.train.samples, 802);
  EXPECT_EQ(described.train.samples, 802);
  EXPECT_EQ(described.bytes, 1013u * 28 * 28) << "all are kept, and the 10 classes' patterns";
}

// Each image is a file.
TEST(PlanDataTest, TheTablesOfAFoldersFilesCount) {
  SessionOptions options = OptionsOf(api::DatasetFormat::kImageFolder);
  options.training.dataset.image_size = {32, 32};
  options.training.dataset.cache = false;
  options.world = 4;
  const auto plan = [&](std::optional<std::int64_t> samples) {
    return PlanData(options, {.samples = samples, .classes = 10, .shape = {}});
  };
  EXPECT_EQ(plan(1'000'000)->bytes, 0u) << "all deal from one order";
  EXPECT_EQ(plan(std::nullopt)->uncounted, "");
  options.training.dataset.auto_shard = api::AutoShard::kOff;
  EXPECT_EQ(plan(1'000'000)->bytes, 0u) << "a copy has no table of its own";
  options.training.dataset.auto_shard = api::AutoShard::kFile;
  EXPECT_EQ(plan(1'000'000)->bytes, 40'000'000u) << "with those of an epoch that has begun";
  EXPECT_THAT(plan(std::nullopt)->uncounted, HasSubstr("give the number of samples (--samples)"));
  options.training.dataset.validation_fraction = 0.5;
  EXPECT_EQ(plan(1'000'000)->bytes, 48'000'000u) << "and which samples are not held out";
}

TEST(PlanDataTest, FewerFilesThanReplicasAreRefused) {
  SessionOptions options = OptionsOf(api::DatasetFormat::kImageFolder);
  options.training.dataset.image_size = {32, 32};
  options.training.dataset.auto_shard = api::AutoShard::kFile;
  options.world = 4;
  const auto status = [&](std::optional<std::int64_t> samples) {
    return PlanData(options, {.samples = samples, .classes = 10, .shape = Shape{3, 32, 32}})
        .status();
  };
  EXPECT_THAT(std::string(status(3).message()),
              HasSubstr("found File with 3 training files for 4 replicas"));
  EXPECT_TRUE(status(4).ok());
  options.training.dataset.format = api::DatasetFormat::kNpy;
  EXPECT_THAT(std::string(status(std::nullopt).message()),
              HasSubstr("found File with 1 training file for 4 replicas"));
  options.training.dataset.format = api::DatasetFormat::kTfRecord;
  EXPECT_TRUE(status(3).ok()) << "how many files there are is not known";
}

TEST(PlanDataTest, SaysWhatItCannotCount) {
  SessionOptions options = OptionsOf(api::DatasetFormat::kCsv);
  const auto uncounted = [&](std::optional<std::int64_t> samples) {
    return PlanData(options, {.samples = samples, .classes = 3, .shape = Shape{12}})->uncounted;
  };
  EXPECT_THAT(uncounted(std::nullopt), HasSubstr("give their number (--samples)"));
  EXPECT_THAT(uncounted(50), HasSubstr("test samples that are kept"));
  options.training.evaluation.enabled = false;
  EXPECT_EQ(uncounted(50), "");
  options.training.dataset.format = api::DatasetFormat::kCifar;
  EXPECT_EQ(uncounted(std::nullopt), "") << "mapped files are not kept";
}

}  // namespace
}  // namespace lockstep::train
