#include "trainer/plan/plan_data.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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
  EXPECT_GE(data.bytes, 5000u * 3 * 32 * 32) << "they are kept in memory";
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

}  // namespace
}  // namespace lockstep::train
