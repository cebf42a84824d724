#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/trainer/nn/tested_model.h"
#include "trainer/nn/layer.h"

namespace lockstep::train {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

std::string ParseFault(const std::vector<json>& layers) {
  const auto parsed = ParseLayers(layers);
  return parsed.ok() ? "no fault" : std::string(parsed.status().message());
}

std::vector<std::string> NamesOf(const std::vector<json>& layers) {
  const auto parsed = ParseLayers(layers);
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  std::vector<std::string> names;
  if (parsed.ok()) {
    for (const Layer& layer : *parsed) names.push_back(layer.name);
  }
  return names;
}

TEST(ParseLayersTest, DefaultsAreThoseOfKeras) {
  const auto layers =
      ParseLayers({LayerJson("Conv2D", {{"filters", 8}, {"kernelSize", {3, 5}}}),
                   LayerJson("MaxPooling2D", {{"poolSize", 3}}), LayerJson("BatchNormalization")});
  ASSERT_TRUE(layers.ok()) << layers.status();
  const auto& conv = std::get<Conv2dSpec>((*layers)[0].spec);
  EXPECT_EQ(conv.filters, 8);
  EXPECT_EQ(conv.kernel_h, 3);
  EXPECT_EQ(conv.kernel_w, 5);
  EXPECT_EQ(conv.stride_h, 1);
  EXPECT_EQ(conv.padding, Padding::kValid);
  EXPECT_TRUE(conv.bias);
  EXPECT_EQ(layers->size(), 3u) << "no activation";
  const auto& pool = std::get<Pool2dSpec>((*layers)[1].spec);
  EXPECT_EQ(pool.window_w, 3);
  EXPECT_EQ(pool.stride_h, 3) << "strides follow poolSize";
  const auto& norm = std::get<BatchNormSpec>((*layers)[2].spec);
  EXPECT_FLOAT_EQ(norm.momentum, 0.99f);
  EXPECT_FLOAT_EQ(norm.epsilon, 1e-3f);
}

TEST(ParseLayersTest, EveryFieldIsRead) {
  const auto layers = ParseLayers(
      {LayerJson("Conv2D", {{"filters", 2},
                            {"kernelSize", 2},
                            {"strides", {2, 1}},
                            {"padding", "same"},
                            {"useBias", false},
                            {"activation", "relu"}}),
       LayerJson("AveragePooling2D", {{"poolSize", {2, 3}}, {"strides", 1}, {"padding", "same"}}),
       LayerJson("BatchNormalization", {{"momentum", 0.5}, {"epsilon", 0.01}}),
       LayerJson("Dropout", {{"rate", 0.25}}), LayerJson("Activation", {{"activation", "tanh"}}),
       LayerJson("GlobalAveragePooling2D"), LayerJson("Flatten"), LayerJson("ReLU"),
       LayerJson("Dense", {{"units", 3}, {"useBias", false}, {"activation", "silu"}})});
  ASSERT_TRUE(layers.ok()) << layers.status();
  ASSERT_EQ(layers->size(), 11u) << "two of Conv2D and of Dense with an activation";
  const auto spec = [&](std::size_t i) { return (*layers)[i].spec; };
  const auto conv = std::get<Conv2dSpec>(spec(0));
  EXPECT_EQ(conv.stride_h, 2);
  EXPECT_EQ(conv.stride_w, 1);
  EXPECT_EQ(conv.padding, Padding::kSame);
  EXPECT_FALSE(conv.bias);
  EXPECT_EQ(std::get<ActivationSpec>(spec(1)).activation, Activation::kRelu);
  const auto pool = std::get<Pool2dSpec>(spec(2));
  EXPECT_EQ(pool.kind, PoolKind::kAverage);
  EXPECT_EQ(pool.window_w, 3);
  EXPECT_EQ(pool.stride_w, 1);
  EXPECT_EQ(pool.padding, Padding::kSame);
  EXPECT_FLOAT_EQ(std::get<BatchNormSpec>(spec(3)).momentum, 0.5f);
  EXPECT_FLOAT_EQ(std::get<BatchNormSpec>(spec(3)).epsilon, 0.01f);
  EXPECT_FLOAT_EQ(std::get<DropoutSpec>(spec(4)).rate, 0.25f);
  EXPECT_EQ(std::get<ActivationSpec>(spec(5)).activation, Activation::kTanh);
  EXPECT_TRUE(std::holds_alternative<GlobalAveragePool2dSpec>(spec(6)));
  EXPECT_TRUE(std::holds_alternative<FlattenSpec>(spec(7)));
  EXPECT_EQ(std::get<ActivationSpec>(spec(8)).activation, Activation::kRelu);
  const auto dense = std::get<DenseSpec>(spec(9));
  EXPECT_EQ(dense.units, 3);
  EXPECT_FALSE(dense.bias);
  EXPECT_EQ(std::get<ActivationSpec>(spec(10)).activation, Activation::kSilu);
}

TEST(ParseLayersTest, ADepthwiseConvolutionHasKerasFields) {
  const auto layers = ParseLayers({LayerJson("DepthwiseConv2D", {{"kernelSize", 3}}),
                                   LayerJson("DepthwiseConv2D", {{"kernelSize", {3, 5}},
                                                                 {"depthMultiplier", 2},
                                                                 {"strides", 2},
                                                                 {"padding", "same"},
                                                                 {"useBias", false},
                                                                 {"activation", "relu"}})});
  ASSERT_TRUE(layers.ok()) << layers.status();
  ASSERT_EQ(layers->size(), 3u);
  const auto usual = std::get<DepthwiseConv2dSpec>((*layers)[0].spec);
  EXPECT_EQ((*layers)[0].name, "depthwise_conv2d");
  EXPECT_EQ(usual.depth_multiplier, 1);
  EXPECT_EQ(usual.kernel_w, 3);
  EXPECT_EQ(usual.stride_h, 1);
  EXPECT_TRUE(usual.bias);
  const auto full = std::get<DepthwiseConv2dSpec>((*layers)[1].spec);
  EXPECT_EQ(full.depth_multiplier, 2);
  EXPECT_EQ(full.kernel_w, 5);
  EXPECT_EQ(full.stride_w, 2);
  EXPECT_EQ(full.padding, Padding::kSame);
  EXPECT_FALSE(full.bias);
  EXPECT_EQ((*layers)[2].name, "depthwise_conv2d_1/activation");
}

TEST(ParseLayersTest, ASeparableConvolutionIsADepthwiseOneAndOneOfPixels) {
  const auto layers = ParseLayers({LayerJson("SeparableConv2D", {{"filters", 8},
                                                                 {"kernelSize", 3},
                                                                 {"strides", 2},
                                                                 {"depthMultiplier", 2},
                                                                 {"padding", "same"},
                                                                 {"activation", "gelu"}}),
                                   LayerJson("Flatten", {{"inputs", {"separable_conv2d"}}})});
  ASSERT_TRUE(layers.ok()) << layers.status();
  ASSERT_EQ(layers->size(), 4u);
  EXPECT_EQ((*layers)[0].name, "separable_conv2d/depthwise");
  const auto depthwise = std::get<DepthwiseConv2dSpec>((*layers)[0].spec);
  EXPECT_EQ(depthwise.depth_multiplier, 2);
  EXPECT_EQ(depthwise.stride_h, 2);
  EXPECT_EQ(depthwise.padding, Padding::kSame);
  EXPECT_FALSE(depthwise.bias) << "the bias is that of the whole";
  EXPECT_EQ((*layers)[1].name, "separable_conv2d/pointwise");
  const auto pointwise = std::get<Conv2dSpec>((*layers)[1].spec);
  EXPECT_EQ(pointwise.filters, 8);
  EXPECT_EQ(pointwise.kernel_h, 1);
  EXPECT_EQ(pointwise.stride_h, 1);
  EXPECT_TRUE(pointwise.bias);
  EXPECT_EQ((*layers)[2].name, "separable_conv2d/activation");
  EXPECT_EQ((*layers)[3].inputs, std::vector<int>{2});
}

TEST(ParseLayersTest, ANormBeginsWithOnesOrZeros) {
  const auto layers =
      ParseLayers({LayerJson("BatchNormalization"),
                   LayerJson("BatchNormalization", {{"gammaInitializer", "zeros"}})});
  ASSERT_TRUE(layers.ok()) << layers.status();
  EXPECT_FALSE(std::get<BatchNormSpec>((*layers)[0].spec).zero_gamma);
  EXPECT_TRUE(std::get<BatchNormSpec>((*layers)[1].spec).zero_gamma);
}

TEST(ParseLayersTest, ALayerNormHasKerasFields) {
  const auto layers = ParseLayers(
      {LayerJson("LayerNormalization"),
       LayerJson("LayerNormalization", {{"epsilon", 0.5}, {"center", false}, {"scale", false}})});
  ASSERT_TRUE(layers.ok()) << layers.status();
  EXPECT_EQ((*layers)[0].name, "layer_normalization");
  const auto usual = std::get<LayerNormSpec>((*layers)[0].spec);
  EXPECT_FLOAT_EQ(usual.epsilon, 1e-3f);
  EXPECT_TRUE(usual.center);
  EXPECT_TRUE(usual.scale);
  const auto bare = std::get<LayerNormSpec>((*layers)[1].spec);
  EXPECT_FLOAT_EQ(bare.epsilon, 0.5f);
  EXPECT_FALSE(bare.center);
  EXPECT_FALSE(bare.scale);
}

TEST(ParseLayersTest, TheSlopeOfALeakyReluIsKerasOrTheGivenOne) {
  const auto layers =
      ParseLayers({LayerJson("LeakyReLU"), LayerJson("LeakyReLU", {{"negativeSlope", 0.01}}),
                   LayerJson("Dense", {{"units", 3}, {"activation", "leaky_relu"}})});
  ASSERT_TRUE(layers.ok()) << layers.status();
  const auto slope = [&](std::size_t i) {
    const auto activation = std::get<ActivationSpec>((*layers)[i].spec);
    EXPECT_EQ(activation.activation, Activation::kLeakyRelu);
    return activation.slope;
  };
  EXPECT_EQ((*layers)[0].name, "leaky_re_lu");
  EXPECT_FLOAT_EQ(slope(0), 0.3f);
  EXPECT_FLOAT_EQ(slope(1), 0.01f);
  EXPECT_FLOAT_EQ(slope(3), 0.2f);
}

TEST(ParseLayersTest, AnActivationIsNamedAfterItsLayerAndKeepsItsIndex) {
  const auto layers =
      ParseLayers({LayerJson("Flatten"),
                   LayerJson("Dense", {{"units", 3}, {"name", "hidden"}, {"activation", "gelu"}})});
  ASSERT_TRUE(layers.ok()) << layers.status();
  ASSERT_EQ(layers->size(), 3u);
  EXPECT_EQ((*layers)[1].name, "hidden");
  EXPECT_EQ((*layers)[2].name, "hidden/activation");
  EXPECT_EQ((*layers)[2].index, 1u);
}

TEST(ParseLayersTest, NamesAreGivenOrCountedByType) {
  EXPECT_THAT(
      NamesOf({LayerJson("Dense", {{"units", 1}}),
               LayerJson("Dense", {{"units", 1}, {"name", "dense_1"}}),
               LayerJson("Dense", {{"units", 1}}), LayerJson("MaxPool2D"),
               LayerJson("MaxPooling2D")}),
      ::testing::ElementsAre("dense", "dense_1", "dense_2", "max_pooling2d", "max_pooling2d_1"));
}

TEST(ParseLayersTest, InputsAreTheLayerBeforeOrThoseNamed) {
  const auto layers =
      ParseLayers({LayerJson("Conv2D", {{"filters", 2}, {"kernelSize", 1}, {"activation", "tanh"}}),
                   LayerJson("BatchNormalization"),
                   LayerJson("Add", {{"inputs", {"batch_normalization", "conv2d", "input"}}}),
                   LayerJson("Flatten")});
  ASSERT_TRUE(layers.ok()) << layers.status();
  std::vector<std::vector<int>> inputs;
  for (const Layer& layer : *layers) inputs.push_back(layer.inputs);
  EXPECT_EQ(inputs, (std::vector<std::vector<int>>{{kSamples}, {0}, {1}, {2, 1, kSamples}, {3}}))
      << "conv2d's output is its activation's";
}

TEST(ParseLayersTest, ALayerCalledInputIsMeantByItsName) {
  const auto layers = ParseLayers({LayerJson("Flatten"), LayerJson("ReLU", {{"name", "input"}}),
                                   LayerJson("Add", {{"inputs", {"input", "flatten"}}})});
  ASSERT_TRUE(layers.ok()) << layers.status();
  EXPECT_EQ((*layers)[2].inputs, (std::vector<int>{1, 0}));
}

struct FaultCase {
  const char* name;
  std::vector<json> layers;
  std::string message;
};

class ParseLayersFaultTest : public ::testing::TestWithParam<FaultCase> {};

TEST_P(ParseLayersFaultTest, NamesFieldFoundAndExpected) {
  EXPECT_THAT(ParseFault(GetParam().layers), HasSubstr(GetParam().message));
}

const json kFlattenLayer = LayerJson("Flatten");
INSTANTIATE_TEST_SUITE_P(
    Faults, ParseLayersFaultTest,
    ::testing::Values(
        FaultCase{"Empty", {}, "layers: found an empty list, expected at least one layer"},
        FaultCase{"NoObject", {kFlattenLayer, 7}, "layers[1]: found 7, expected an object"},
        FaultCase{"NoType", {json::object()}, "layers[0].type: found nothing, expected one of"},
        FaultCase{"UnknownType",
                  {kFlattenLayer, LayerJson("LSTM")},
                  "layers[1].type: found \"LSTM\", expected one of Activation, Add, Average"},
        FaultCase{"UnitsMissing",
                  {LayerJson("Dense")},
                  "layers[0].units: found nothing, expected an integer in [1, 1048576]"},
        FaultCase{"UnitsText",
                  {LayerJson("Dense", {{"units", "ten"}})},
                  "layers[0].units: found \"ten\", expected an integer"},
        FaultCase{"UnitsZero",
                  {LayerJson("Dense", {{"units", 0}})},
                  "layers[0].units: found 0, expected an integer in [1,"},
        FaultCase{"UnitsNegative",
                  {LayerJson("Dense", {{"units", -5}})},
                  "layers[0].units: found -5, expected"},
        FaultCase{"UnitsFraction",
                  {LayerJson("Dense", {{"units", 1.5}})},
                  "layers[0].units: found 1.5, expected an integer"},
        FaultCase{"UnitsHuge",
                  {LayerJson("Dense", {{"units", 18446744073709551615ull}})},
                  "layers[0].units: found 18446744073709551615, expected"},
        FaultCase{"KernelTriple",
                  {LayerJson("Conv2D", {{"filters", 1}, {"kernelSize", {1, 2, 3}}})},
                  "layers[0].kernelSize: found a list, expected an integer in [1, 1048576] or a "
                  "pair [height, width]"},
        FaultCase{"KernelMissing",
                  {LayerJson("Conv2D", {{"filters", 1}})},
                  "layers[0].kernelSize: found nothing"},
        FaultCase{"PaddingUnknown",
                  {LayerJson("MaxPool2D", {{"padding", "full"}})},
                  "layers[0].padding: found \"full\", expected one of valid, same"},
        FaultCase{"ZeroPaddingText",
                  {LayerJson("ZeroPadding2D", {{"padding", "same"}})},
                  "layers[0].padding: found \"same\", expected an integer in [0, 1048576]"},
        FaultCase{"ZeroPaddingNegative",
                  {LayerJson("ZeroPadding2D", {{"padding", -1}})},
                  "layers[0].padding: found -1, expected an integer in [0, 1048576]"},
        FaultCase{"ActivationMissing",
                  {LayerJson("Activation")},
                  "layers[0].activation: found nothing, expected an activation other than linear"},
        FaultCase{"GammaUnknown",
                  {LayerJson("BatchNormalization", {{"gammaInitializer", "random"}})},
                  "layers[0].gammaInitializer: found \"random\", expected one of ones, zeros"},
        FaultCase{"SlopeNegative",
                  {LayerJson("LeakyReLU", {{"negativeSlope", -0.1}})},
                  "layers[0].negativeSlope: found -0.1, expected a number in [0, 1000)"},
        FaultCase{"RateMissing", {LayerJson("Dropout")}, "layers[0].rate: found nothing"},
        FaultCase{"RateOne",
                  {LayerJson("Dropout", {{"rate", 1.0}})},
                  "layers[0].rate: found 1.0, expected a number in [0, 1)"},
        FaultCase{"RateRoundedToOne",
                  {LayerJson("Dropout", {{"rate", 0.99999999}})},
                  "layers[0].rate: found 0.99999999, expected a number that is below 1 as a 32-bit "
                  "float too"},
        FaultCase{"MomentumRoundedToOne",
                  {LayerJson("BatchNormalization", {{"momentum", 0.99999999}})},
                  "layers[0].momentum: found 0.99999999, expected a number that is below 1 as a"},
        FaultCase{"BiasText",
                  {LayerJson("Dense", {{"units", 1}, {"useBias", "no"}})},
                  "layers[0].useBias: found \"no\", expected true or false"},
        FaultCase{"SnakeCase",
                  {LayerJson("Dense", {{"units", 1}, {"use_bias", true}})},
                  "layers[0].use_bias: unknown field; did you mean \"useBias\"?"},
        FaultCase{"UnknownField",
                  {LayerJson("MaxPool2D", {{"poolSize", 2}, {"strides", 0}, {"color", "red"}})},
                  "layers[0].color: unknown field; expected one of type, poolSize, strides, "
                  "padding, inputs, name"},
        FaultCase{"InputsOfAddMissing",
                  {kFlattenLayer, LayerJson("Add")},
                  "layers[1].inputs: found nothing, expected the names of at least two earlier"},
        FaultCase{"InputsTooFew",
                  {kFlattenLayer, LayerJson("Concatenate", {{"inputs", {"flatten"}}})},
                  "layers[1].inputs: found a list, expected the names of at least two"},
        FaultCase{"InputsTooMany",
                  {kFlattenLayer, LayerJson("ReLU", {{"inputs", {"flatten", "input"}}})},
                  "layers[1].inputs: found a list, expected the name of one"},
        FaultCase{"InputsUnknown",
                  {kFlattenLayer, LayerJson("ReLU", {{"inputs", {"flat"}}})},
                  "names of earlier layers, or input, and \"flat\" is neither"},
        FaultCase{"InputsLater",
                  {LayerJson("Add", {{"inputs", {"input", "flatten"}}}), kFlattenLayer},
                  "names of earlier layers, or input, and \"flatten\" is neither"},
        FaultCase{"InputsNoList",
                  {kFlattenLayer, LayerJson("ReLU", {{"inputs", "flatten"}})},
                  "layers[1].inputs: found \"flatten\", expected a list of texts"},
        FaultCase{"OutputUnused",
                  {kFlattenLayer, LayerJson("ReLU", {{"inputs", {"input"}}})},
                  "layers[0]: found no later layer that reads the output of flatten, expected it"},
        FaultCase{"NameTwice",
                  {LayerJson("Flatten", {{"name", "a"}}), LayerJson("ReLU", {{"name", "a"}})},
                  "layers[1].name: found \"a\", expected a name that no earlier layer has"},
        FaultCase{"NameNumber",
                  {LayerJson("Flatten", {{"name", 3}})},
                  "layers[0].name: found 3, expected a text"},
        FaultCase{"NameSlash",
                  {LayerJson("Flatten", {{"name", "a/b"}})},
                  "layers[0].name: found \"a/b\", expected a text without a slash"}),
    [](const auto& fault) { return fault.param.name; });

TEST(ParseLayersTest, BytesThatAreNoTextAreReportedToo) {
  EXPECT_THAT(ParseFault({LayerJson("Dense", {{"units", "\xff"}})}),
              HasSubstr("layers[0].units: found \"\\ufffd\", expected an integer"));
  EXPECT_LT(ParseFault({LayerJson("Dense", {{"units", std::string(5000, 'x')}})}).size(), 300u);
}

TEST(ParseLayersTest, EveryFaultIsReportedAtOnce) {
  const std::string fault =
      ParseFault({LayerJson("Dense", {{"units", 0}}), LayerJson("Dropout", {{"rate", 2}})});
  EXPECT_THAT(fault, HasSubstr("layers[0].units"));
  EXPECT_THAT(fault, HasSubstr("layers[1].rate"));
}

}  // namespace
}  // namespace lockstep::train
