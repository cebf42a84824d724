// Losses from the job's spec to the trained model, on a host's device and on one with a queue.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "tests/support/temp_directory.h"
#include "tests/trainer/backend/backends_under_test.h"
#include "tests/trainer/data/formats/idx_files.h"
#include "tests/trainer/data/formats/npy_files.h"
#include "tests/trainer/train/rank.h"
#include "trainer/core/rng.h"

namespace lockstep::train {
namespace {

using ::testing::HasSubstr;

api::Json Dense(int units, const char* activation = "linear") {
  return {{"type", "Dense"}, {"units", units}, {"activation", activation}};
}

// Ten features in [-1, 1), as in the tutorials; `label` makes a row's label of them.
std::string Table(std::int64_t rows,
                  const std::function<double(const std::vector<double>&)>& label) {
  std::string text = "a,b,c,d,e,f,g,h,i,j,label\n";
  for (std::int64_t row = 0; row < rows; ++row) {
    std::vector<double> features;
    for (std::uint64_t i = 0; i < 10; ++i) {
      const PhiloxBlock words = Philox(7, static_cast<std::uint64_t>(row), i);
      features.push_back(2.0 * static_cast<double>(UniformFloat(words[0])) - 1);
      text += std::to_string(features.back()) + ",";
    }
    text += std::to_string(label(features)) + "\n";
  }
  return text;
}

class LossTest : public ::testing::TestWithParam<std::string> {
 protected:
  api::TrainingSpec TrainingOf(api::LossSpec loss, api::Json layers) {
    api::TrainingSpec training;
    training.model.layers = std::move(layers);
    training.dataset.format = api::DatasetFormat::kCsv;
    training.dataset.path = folder_.path();
    training.batch_size.global = 32;
    training.epochs = 30;
    training.optimizer.learning_rate = 0.02;
    training.loss = loss;
    return training;
  }
  void WriteTables(const std::function<double(const std::vector<double>&)>& label) {
    WriteTextFile(folder_.At("train.csv"), Table(200, label));
    WriteTextFile(folder_.At("test.csv"), Table(40, label));
  }
  // The state after the last step.
  RunState Train(const api::TrainingSpec& training) {
    LocalRendezvousHub hub(1);
    Rank rank(training, 1, hub, 0, nullptr, GetParam());
    EXPECT_TRUE(rank.Train());
    return rank.loop.state;
  }
  static std::string Refusal(const api::TrainingSpec& training) {
    const auto session = Session::Create({.training = training, .world = 1, .backend = GetParam()});
    EXPECT_TRUE(absl::IsInvalidArgument(session.status())) << session.status();
    return std::string(session.status().message());
  }

  const TempDirectory folder_;
};

double Plane(const std::vector<double>& x) {
  return 2 * x[0] - x[1] + 0.5 * x[9] + 3;
}

// What is linear, one dense layer fits exactly: any other loss, or labels of other rows, would not.
TEST_P(LossTest, EveryRegressionFitsAPlane) {
  WriteTables(Plane);
  for (const api::LossType type : {api::LossType::kMeanSquaredError,
                                   api::LossType::kMeanAbsoluteError, api::LossType::kHuber}) {
    api::TrainingSpec training = TrainingOf({.type = type}, api::Json::array({Dense(1)}));
    training.epochs = 80;
    const RunState state = Train(training);
    EXPECT_LT(state.test_loss, 0.05) << static_cast<int>(type);
    // What the reports call the mean absolute error.
    EXPECT_LT(state.test_accuracy, 0.05) << static_cast<int>(type);
    EXPECT_GT(state.test_accuracy, 0) << static_cast<int>(type);
    if (type == api::LossType::kMeanAbsoluteError) {
      EXPECT_NEAR(state.test_accuracy, state.test_loss, 1e-6);
    }
  }
}

TEST_P(LossTest, PartsOfABatchGiveTheLossOfTheWhole) {
  WriteTables(Plane);
  api::TrainingSpec training =
      TrainingOf({.type = api::LossType::kHuber, .delta = 0.5}, api::Json::array({Dense(1)}));
  training.epochs = 1;
  const RunState whole = Train(training);
  training.gradient_accumulation = 5;
  const RunState parts = Train(training);
  EXPECT_NEAR(parts.sums.loss, whole.sums.loss, 1e-4 * whole.sums.loss);
  EXPECT_NEAR(parts.test_loss, whole.test_loss, 1e-4 * whole.test_loss);
}

TEST_P(LossTest, ABinaryLossTakesClassesWithAndWithoutSigmoid) {
  api::TrainingSpec training =
      TrainingOf({.type = api::LossType::kBinaryCrossentropy}, api::Json::array({Dense(1)}));
  WriteTables([](const std::vector<double>& x) { return x[0] + x[1] > 0 ? 1 : 0; });
  const RunState of_logits = Train(training);
  EXPECT_GT(of_logits.test_accuracy, 0.9);
  training.model.layers = api::Json::array({Dense(1, "sigmoid")});
  EXPECT_EQ(Train(training).test_loss, of_logits.test_loss) << "the same function";
  // Labels that stay classes.
  training.dataset = SmallTraining().dataset;
  training.dataset.synthetic->classes = 2;
  training.model.layers = api::Json::array({{{"type", "Flatten"}}, Dense(1)});
  EXPECT_LT(Train(training).test_loss, 0.6);
}

TEST_P(LossTest, OneHotLabelsTrainAsTheirClassesDo) {
  std::vector<float> samples, one_hot(64 * 2, 0.0f);
  std::vector<std::int64_t> classes;
  for (std::uint64_t i = 0; i < 64; ++i) {
    samples.push_back(UniformFloat(Philox(3, i, 0)[0]) - 0.5f);
    classes.push_back(samples.back() > 0 ? 1 : 0);
    one_hot[2 * i + static_cast<std::size_t>(classes.back())] = 1;
  }
  api::TrainingSpec training = TrainingOf({.type = api::LossType::kCategoricalCrossentropy},
                                          api::Json::array({Dense(2, "softmax")}));
  training.dataset.format = api::DatasetFormat::kNpy;
  training.loss.from_logits = false;
  const auto write = [&](const std::string& labels) {
    for (const char* split : {"train", "test"}) {
      WriteTextFile(folder_.At(std::string("x_") + split + ".npy"),
                    NpyFile<float>("<f4", "(64, 1)", samples));
      WriteTextFile(folder_.At(std::string("y_") + split + ".npy"), labels);
    }
  };
  write(NpyFile<float>("<f4", "(64, 2)", one_hot));
  const RunState of_one_hot = Train(training);
  EXPECT_GT(of_one_hot.test_accuracy, 0.9);
  write(NpyFile<std::int64_t>("<i8", "(64,)", classes));
  EXPECT_THAT(Refusal(training),
              HasSubstr("spec.training.loss.type: found CategoricalCrossentropy "
                        "with labels of 1 numbers, expected one for each class"));
  training.loss.type = api::LossType::kSparseCategoricalCrossentropy;
  EXPECT_NEAR(Train(training).test_loss, of_one_hot.test_loss, 1e-6);
}

// The gradient is that of the loss only where a label is a distribution.
TEST_P(LossTest, LabelsOfClassesThatAreNoDistributionAreRefused) {
  api::TrainingSpec training =
      TrainingOf({.type = api::LossType::kCategoricalCrossentropy}, api::Json::array({Dense(2)}));
  training.dataset.format = api::DatasetFormat::kNpy;
  const auto refusal = [&](float first, float second) {
    std::vector<float> labels(64 * 2, 0.5f);
    labels[6] = first;
    labels[7] = second;
    for (const char* split : {"train", "test"}) {
      WriteTextFile(folder_.At(std::string("x_") + split + ".npy"),
                    NpyFile<float>("<f4", "(64, 1)", std::vector<float>(64, 1.0f)));
      WriteTextFile(folder_.At(std::string("y_") + split + ".npy"),
                    NpyFile<float>("<f4", "(64, 2)", labels));
    }
    const auto session = Session::Create({.training = training, .world = 1, .backend = GetParam()});
    return std::string(session.status().message());
  };
  EXPECT_EQ(refusal(0.33f, 0.66f), "") << "as people round";
  EXPECT_THAT(refusal(1, 1), HasSubstr("sample 3: found numbers in its label that add up to 2, "
                                       "expected 1 for CategoricalCrossentropy"));
  EXPECT_THAT(refusal(-0.5f, 1.5f), HasSubstr("sample 3: found -0.5 in its label"));
}

TEST_P(LossTest, ALastLayerOrLabelsThatDoNotFitAreRefused) {
  WriteTables(Plane);
  const api::TrainingSpec wide =
      TrainingOf({.type = api::LossType::kMeanSquaredError}, api::Json::array({Dense(2)}));
  EXPECT_THAT(Refusal(wide), HasSubstr("the last layer gives [2] a sample, expected [1], one value "
                                       "for each number of a label"));
  api::TrainingSpec images = SmallTraining();
  images.loss.type = api::LossType::kBinaryCrossentropy;
  EXPECT_THAT(Refusal(images),
              HasSubstr("found BinaryCrossentropy with labels of 3 classes, expected 2 classes"));
  const api::TrainingSpec plane =
      TrainingOf({.type = api::LossType::kBinaryCrossentropy}, api::Json::array({Dense(1)}));
  const auto session = Session::Create({.training = plane, .world = 1, .backend = GetParam()});
  EXPECT_TRUE(absl::IsDataLoss(session.status()));
  EXPECT_THAT(std::string(session.status().message()),
              HasSubstr("in its label, expected 0 to 1 for BinaryCrossentropy"));
}

TEST_P(LossTest, ALabelOutOfRangeIsNamedWithItsLine) {
  std::string table = "label,a\n";
  for (int row = 0; row < 100; ++row) table += row == 17 ? "2,1\n" : "1,1\n";
  WriteTextFile(folder_.At("train.csv"), table);
  api::TrainingSpec training =
      TrainingOf({.type = api::LossType::kBinaryCrossentropy}, api::Json::array({Dense(1)}));
  training.dataset.validation_fraction = 0.5;
  const auto binary = Session::Create({.training = training, .world = 1, .backend = GetParam()});
  EXPECT_EQ(binary.status().message(),
            folder_.At("train.csv") +
                ": line 19: found 2 in its label, expected 0 to 1 for BinaryCrossentropy");
  training.loss.type = api::LossType::kSparseCategoricalCrossentropy;
  training.dataset.validation_fraction = 0;
  WriteTextFile(folder_.At("test.csv"), "label,a\n1,1\n7,1\n");
  const auto classes = Session::Create({.training = training, .world = 1, .backend = GetParam()});
  EXPECT_EQ(classes.status().message(),
            folder_.At("test.csv") +
                ": line 3: label 7 of a test sample, expected 0 to 2, the classes of the training "
                "samples");
}

TEST_P(LossTest, IdxFilesOfTwoClassesFitABinaryLoss) {
  IdxFolder files;
  files.Write("train-labels-idx1-ubyte", LabelFile({0, 1, 1, 0}));
  files.Write("t10k-labels-idx1-ubyte", LabelFile({1, 0}));
  api::TrainingSpec training = TrainingOf({.type = api::LossType::kBinaryCrossentropy},
                                          api::Json::array({{{"type", "Flatten"}}, Dense(1)}));
  training.dataset = {.format = api::DatasetFormat::kIdx, .path = files.path()};
  training.batch_size.global = 2;
  const auto session = Session::Create({.training = training, .world = 1, .backend = GetParam()});
  EXPECT_TRUE(session.ok()) << session.status();
}

INSTANTIATE_TEST_SUITE_P(Devices, LossTest, ::testing::ValuesIn(kDevices),
                         [](const auto& device) { return TestName(device.param); });

}  // namespace
}  // namespace lockstep::train
