#include "trainer/models/models.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "tests/trainer/nn/tested_model.h"
#include "trainer/backend/cpu/device/cost.h"

namespace lockstep::train {
namespace {

const Shape kMnist = {1, 28, 28};

std::map<std::string, std::string> ParametersOf(const std::string& name, std::int64_t classes) {
  const auto layers = BundledModel(name, classes);
  EXPECT_TRUE(layers.ok()) << layers.status();
  TestedModel tested(*layers, {.batch = 2, .input = kMnist, .classes = classes});
  std::map<std::string, std::string> shapes;
  for (const TensorSlot& slot : tested.model().parameter_slots()) {
    shapes[slot.name] = slot.desc.shape.ToString();
  }
  return shapes;
}

std::int64_t CountParameters(const std::string& name, std::int64_t classes) {
  const auto backend = MakeBackend({.name = "reference"});
  const auto model = Model::Build(*BundledModel(name, classes),
                                  {.batch = 1, .input = {3, 32, 32}, .classes = classes}, *backend);
  EXPECT_TRUE(model.ok()) << model.status();
  std::int64_t count = 0;
  for (const TensorSlot& slot : (*model)->parameter_slots()) count += slot.desc.shape.elements();
  return count;
}

using Shapes = std::map<std::string, std::string>;

TEST(BundledModelTest, MlpHas128HiddenUnits) {
  EXPECT_EQ(ParametersOf("mlp", 10), (Shapes{{"dense/weight", "[128,784]"},
                                             {"dense/bias", "[128]"},
                                             {"dense_1/weight", "[10,128]"},
                                             {"dense_1/bias", "[10]"}}));
}

TEST(BundledModelTest, SimpleCnnIsOneConvolution) {
  EXPECT_EQ(ParametersOf("simple-cnn", 10), (Shapes{{"conv2d/weight", "[32,1,3,3]"},
                                                    {"conv2d/bias", "[32]"},
                                                    {"dense/weight", "[10,5408]"},
                                                    {"dense/bias", "[10]"}}));
}

TEST(BundledModelTest, CoreCnnIsTwoConvolutionsAndAWideLayer) {
  EXPECT_EQ(ParametersOf("core-cnn", 10), (Shapes{{"conv2d/weight", "[32,1,5,5]"},
                                                  {"conv2d/bias", "[32]"},
                                                  {"conv2d_1/weight", "[64,32,5,5]"},
                                                  {"conv2d_1/bias", "[64]"},
                                                  {"dense/weight", "[1024,3136]"},
                                                  {"dense/bias", "[1024]"},
                                                  {"dense_1/weight", "[10,1024]"},
                                                  {"dense_1/bias", "[10]"}}));
}

TEST(BundledModelTest, ClassesSizeTheLastLayer) {
  EXPECT_EQ(ParametersOf("mlp", 7).at("dense_1/weight"), "[7,128]");
}

TEST(BundledModelTest, EveryListedNameBuilds) {
  for (const std::string& name : BundledModelNames()) EXPECT_FALSE(ParametersOf(name, 3).empty());
}

TEST(BundledModelTest, UnknownNameListsTheKnownOnes) {
  const auto layers = BundledModel("resnet", 10);
  EXPECT_EQ(std::string(layers.status().message()),
            "model.name: found \"resnet\", expected one of mlp, simple-cnn, core-cnn, resnet-18, "
            "resnet-34, resnet-50, resnet-101, resnet-152, cifar-resnet-20");
}

// Torchvision's numbers of parameters, for 1000 classes and images of three channels; for CIFAR
// that of the paper's table 6, 0.27 million, with the projections of option B.
TEST(BundledModelTest, ResidualNetworksHaveTheirPapersParameters) {
  const std::map<std::string, std::int64_t> expected = {{"resnet-18", 11'689'512},
                                                        {"resnet-34", 21'797'672},
                                                        {"resnet-50", 25'557'032},
                                                        {"resnet-101", 44'549'160},
                                                        {"resnet-152", 60'192'808}};
  for (const auto& [name, count] : expected) EXPECT_EQ(CountParameters(name, 1000), count) << name;
  EXPECT_EQ(CountParameters("cifar-resnet-20", 10), 272'474);
}

// The last normalization of each block, by torchvision's names: bn3 of a bottleneck, else bn2.
TEST(BundledModelTest, ZeroGammasAreThoseOfTorchvision) {
  for (const auto& [name, last] : {std::pair{"resnet-18", "_bn2/gamma"},
                                   {"resnet-50", "_bn3/gamma"},
                                   {"cifar-resnet-20", "_bn2/gamma"}}) {
    for (const bool zero_gamma : {true, false}) {
      const auto backend = MakeBackend({.name = "cpu"});
      const auto model = *Model::Build(*BundledModel(name, 4, zero_gamma),
                                       {.batch = 1, .input = {3, 32, 32}, .classes = 4}, *backend);
      int zeros = 0;
      for (const TensorSlot& slot : model->parameter_slots()) {
        if (!slot.name.ends_with("/gamma")) continue;
        const float first = model->parameters()[static_cast<std::size_t>(slot.offset)];
        EXPECT_EQ(first, zero_gamma && slot.name.ends_with(last) ? 0.0f : 1.0f) << slot.name;
        zeros += first == 0.0f;
      }
      const int blocks = name == std::string("resnet-18") ? 8 : name[0] == 'c' ? 9 : 16;
      EXPECT_EQ(zeros, zero_gamma ? blocks : 0) << name;
    }
  }
}

// A block that adds nothing has no gradient but for what lets it begin to add.
TEST(BundledModelTest, WithZeroGammasABlockBeginsAsItsShortcut) {
  const ModelOptions options{.batch = 4, .input = {3, 32, 32}, .classes = 4};
  for (const char* backend : {"reference", "cpu"}) {
    TestedModel tested(*BundledModel("cifar-resnet-20", 4, /*zero_gamma=*/true), options, backend);
    tested.Step(RandomBatch(4, options.input, 4, 1), {.valid = 4}, 0.25f);
    for (const float value : tested.Gradient("layer1_0_conv2/weight")) ASSERT_EQ(value, 0.0f);
    float largest = 0;
    for (const float value : tested.Gradient("layer1_0_bn2/gamma")) {
      largest = std::max(largest, std::abs(value));
    }
    EXPECT_GT(largest, 0.0f) << backend;
  }
}

// CTest repeats these tests with oneDNN limited to AVX2 and to SSE4.1, to cover older processors.
class BundledModelOnTheCpuTest : public ::testing::TestWithParam<std::string> {
 protected:
  static constexpr std::int64_t kBatch = 8, kClasses = 10;
  std::vector<nlohmann::json> layers_ = *BundledModel(GetParam(), kClasses);
  ModelOptions options_{.batch = kBatch, .input = kMnist, .classes = kClasses, .seed = 3};
};

TEST_P(BundledModelOnTheCpuTest, AStepMatchesReference) {
  TestedModel found(layers_, options_, "cpu"), expected(layers_, options_, "reference");
  const Batch batch = RandomBatch(kBatch, kMnist, kClasses, 1);
  const StepContext step{.valid = kBatch};
  const float scale = 1.0f / kBatch;
  EXPECT_NEAR(found.Step(batch, step, scale).loss, expected.Step(batch, step, scale).loss, 1e-4);
  for (const TensorSlot& slot : expected.model().parameter_slots()) {
    const std::vector<float> ours = found.Gradient(slot.name),
                             theirs = expected.Gradient(slot.name);
    float largest = 1e-3f;
    for (const float value : theirs) largest = std::max(largest, std::abs(value));
    for (std::size_t i = 0; i < theirs.size(); ++i) {
      ASSERT_NEAR(ours[i], theirs[i], 1e-4f * largest) << slot.name << "[" << i << "]";
    }
  }
}

TEST_P(BundledModelOnTheCpuTest, NoOpIsAPlainLoop) {
  TestedModel tested(layers_, options_, "cpu");
  for (const OpReport& op : tested.model().Report()) {
    ASSERT_FALSE(op.choices.empty()) << op.name;
    for (const OpChoice& choice : op.choices) {
      EXPECT_FALSE(cpu::IsReference(choice.implementation))
          << op.name << ", " << choice.pass << ": " << choice.implementation;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, BundledModelOnTheCpuTest,
                         ::testing::Values("mlp", "simple-cnn", "core-cnn"), [](const auto& found) {
                           std::string name = found.param;
                           std::erase(name, '-');
                           return name;
                         });

}  // namespace
}  // namespace lockstep::train
