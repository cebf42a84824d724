// Whole models on every back end against `reference`: ops with different layouts follow each other
// here, which no test of one op covers.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <tuple>

#include "tests/trainer/backend/backends_under_test.h"
#include "tests/trainer/nn/tested_model.h"

namespace lockstep::train {
namespace {

using nlohmann::json;

struct ModelCase {
  std::string name;
  std::vector<json> layers;
};

constexpr std::int64_t kBatch = 6, kClasses = 4;
const Shape kInput = {2, 12, 12};

json ConvOf(int filters, int kernel, const char* padding, bool relu) {
  return LayerJson("Conv2D", {{"filters", filters},
                              {"kernelSize", kernel},
                              {"padding", padding},
                              {"activation", relu ? "relu" : "linear"}});
}
json DenseOf(int units, bool relu = false) {
  return LayerJson("Dense", {{"units", units}, {"activation", relu ? "relu" : "linear"}});
}

std::vector<ModelCase> ModelCases() {
  const json flatten = LayerJson("Flatten"), max_pool = LayerJson("MaxPooling2D");
  const json norm = LayerJson("BatchNormalization"), relu = LayerJson("ReLU");
  const json dropout = LayerJson("Dropout", {{"rate", 0.25}});
  const json average = LayerJson("AveragePooling2D", {{"strides", 1}, {"padding", "same"}});
  return {
      {"Mlp", {flatten, DenseOf(20, true), DenseOf(kClasses)}},
      {"CoreCnn",
       {ConvOf(16, 5, "same", true), max_pool, ConvOf(20, 5, "same", true), max_pool, flatten,
        DenseOf(32, true), DenseOf(kClasses)}},
      {"EveryLayer",
       {ConvOf(20, 3, "same", false), norm, relu, max_pool, ConvOf(18, 3, "valid", true), average,
        dropout, flatten, DenseOf(7, true), norm, dropout, DenseOf(kClasses)}},
      {"FlattenBeforeBatchNorm",
       {ConvOf(5, 3, "valid", true), flatten, norm, relu, DenseOf(kClasses)}},
      {"FlattenBeforeElementwise",
       {ConvOf(5, 3, "valid", false), flatten, relu, dropout, DenseOf(kClasses)}},
      {"GlobalPoolToLogits",
       {norm, ConvOf(8, 3, "same", true), ConvOf(kClasses, 1, "valid", false),
        LayerJson("GlobalAveragePooling2D")}},
      {"SmoothActivations",
       {LayerJson("Conv2D", {{"filters", 6}, {"kernelSize", 3}, {"activation", "gelu"}}), max_pool,
        LayerJson("Activation", {{"activation", "tanh"}}), flatten,
        LayerJson("Dense", {{"units", 9}, {"activation", "silu"}}), DenseOf(kClasses)}},
      {"PoolsBehindZeros",
       {ConvOf(8, 3, "same", true), LayerJson("ZeroPadding2D"),
        LayerJson("MaxPooling2D", {{"poolSize", 3}, {"strides", 2}}), LayerJson("ZeroPadding2D"),
        LayerJson("MaxPooling2D", {{"poolSize", 3}, {"strides", 2}}), max_pool, flatten,
        DenseOf(kClasses)}},
      {"ResidualBlocks",
       {ConvOf(16, 3, "same", true),
        LayerJson("Conv2D",
                  {{"filters", 16}, {"kernelSize", 3}, {"padding", "same"}, {"useBias", false}}),
        norm, LayerJson("Add", {{"inputs", {"conv2d", "batch_normalization"}}}), relu,
        ConvOf(20, 1, "valid", false),
        LayerJson("Conv2D",
                  {{"filters", 20}, {"kernelSize", 3}, {"padding", "same"}, {"inputs", {"re_lu"}}}),
        LayerJson("Add", {{"inputs", {"conv2d_2", "conv2d_3", "conv2d_2"}}}), flatten,
        DenseOf(kClasses)}},
      {"InceptionLikeBlock",
       {ConvOf(16, 3, "same", true), ConvOf(8, 1, "valid", true),
        LayerJson("Conv2D", {{"filters", 5},
                             {"kernelSize", 3},
                             {"padding", "same"},
                             {"activation", "gelu"},
                             {"inputs", {"conv2d"}}}),
        LayerJson("MaxPooling2D",
                  {{"poolSize", 3}, {"strides", 1}, {"padding", "same"}, {"inputs", {"conv2d"}}}),
        LayerJson("Concatenate", {{"inputs", {"conv2d_1", "conv2d_2", "max_pooling2d", "input"}}}),
        max_pool, flatten, dropout, DenseOf(kClasses)}},
      {"MergedMatrices",
       {ConvOf(5, 3, "valid", true), flatten, DenseOf(7, true),
        LayerJson("Dense", {{"units", 7}, {"inputs", {"flatten"}}}),
        LayerJson("Add", {{"inputs", {"dense", "dense_1"}}}),
        LayerJson("Concatenate", {{"inputs", {"add", "flatten"}}}), DenseOf(kClasses)}},
      {"ConvolutionToLogits", {ConvOf(kClasses, 12, "valid", false), flatten}},
      {"PoolFirst", {max_pool, average, ConvOf(8, 3, "same", true), flatten, DenseOf(kClasses)}},
  };
}

std::vector<ModelCase> DepthwiseModelCases() {
  const json norm = LayerJson("BatchNormalization"), relu = LayerJson("ReLU");
  return {
      {"MobileNetLike",
       {ConvOf(16, 3, "same", false), norm, relu,
        LayerJson("DepthwiseConv2D", {{"kernelSize", 3}, {"padding", "same"}, {"useBias", false}}),
        norm, relu, ConvOf(20, 1, "valid", false), norm, relu, LayerJson("ZeroPadding2D"),
        LayerJson("DepthwiseConv2D", {{"kernelSize", 3}, {"strides", 2}}), norm, relu,
        LayerJson("SeparableConv2D", {{"filters", 24},
                                      {"kernelSize", 3},
                                      {"depthMultiplier", 2},
                                      {"padding", "same"},
                                      {"activation", "relu"}}),
        LayerJson("GlobalAveragePooling2D"), DenseOf(kClasses)}},
      {"DepthwiseFirst",
       {LayerJson("DepthwiseConv2D", {{"kernelSize", 3}, {"activation", "relu"}}),
        LayerJson("Flatten"), DenseOf(kClasses)}},
  };
}

void ExpectClose(const std::vector<float>& found, const std::vector<float>& expected,
                 const std::string& what) {
  ASSERT_EQ(found.size(), expected.size()) << what;
  // A bias before BatchNormalization has gradient 0; what is found is the rounding of sums of terms
  // up to about 1e-2.
  float largest = 1e-2f;
  for (const float value : expected) largest = std::max(largest, std::abs(value));
  for (std::size_t i = 0; i < found.size(); ++i) {
    ASSERT_NEAR(found[i], expected[i], 1e-4f * largest) << what << "[" << i << "]";
  }
}

class ModelOnBackendsTest : public ::testing::TestWithParam<std::tuple<std::string, ModelCase>> {};

TEST_P(ModelOnBackendsTest, StepAndEvaluationMatchReference) {
  const auto& [backend, model_case] = GetParam();
  const ModelOptions options{.batch = kBatch, .input = kInput, .classes = kClasses, .seed = 3};
  TestedModel found(model_case.layers, options, backend);
  TestedModel expected(model_case.layers, options, "reference");
  const Batch batch = Slice(RandomBatch(kBatch, kInput, kClasses, 1), 0, 5, kBatch);
  const StepContext step{.valid = 5, .step = 2, .first_position = 30};
  EXPECT_NEAR(found.Step(batch, step, 0.2f).loss, expected.Step(batch, step, 0.2f).loss, 1e-4);
  for (const TensorSlot& slot : expected.model().parameter_slots()) {
    EXPECT_EQ(found.Parameter(slot.name), expected.Parameter(slot.name)) << slot.name;
    ExpectClose(found.Gradient(slot.name), expected.Gradient(slot.name), slot.name);
  }
  EXPECT_NEAR(found.Evaluate(batch).loss, expected.Evaluate(batch).loss, 1e-3);
}

TEST_P(ModelOnBackendsTest, AModelThatOnlyEvaluatesGivesTheSameInLessMemory) {
  const auto& [backend, model_case] = GetParam();
  ModelOptions options{.batch = kBatch, .input = kInput, .classes = kClasses, .seed = 3};
  TestedModel trains(model_case.layers, options, backend);
  options.trains = false;
  TestedModel evaluates(model_case.layers, options, backend);
  EXPECT_TRUE(evaluates.model().gradients().empty());
  EXPECT_EQ(evaluates.model().Memory().gradients, 0u);
  EXPECT_LT(evaluates.model().Memory().activations, trains.model().Memory().activations);
  for (const std::uint64_t stream : {1, 2}) {  // the second finds what the first has left
    const Batch batch = Slice(RandomBatch(kBatch, kInput, kClasses, stream), 0, 5, kBatch);
    EXPECT_EQ(evaluates.Evaluate(batch).loss, trains.Evaluate(batch).loss);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, ModelOnBackendsTest,
                         ::testing::Combine(::testing::ValuesIn(kBackendsUnderTest),
                                            ::testing::ValuesIn(ModelCases())),
                         [](const auto& model) {
                           return TestName(std::get<0>(model.param)) +
                                  std::get<1>(model.param).name;
                         });
INSTANTIATE_TEST_SUITE_P(DepthwiseModels, ModelOnBackendsTest,
                         ::testing::Combine(::testing::ValuesIn(kBackendsUnderTest),
                                            ::testing::ValuesIn(DepthwiseModelCases())),
                         [](const auto& model) {
                           return TestName(std::get<0>(model.param)) +
                                  std::get<1>(model.param).name;
                         });

}  // namespace
}  // namespace lockstep::train
