#include <gtest/gtest.h>

#include "tests/trainer/nn/tested_model.h"
#include "trainer/nn/layer.h"

namespace lockstep::train {
namespace {

const nlohmann::json kConv = LayerJson("Conv2D", {{"filters", 2}, {"kernelSize", 3}});
const nlohmann::json kConvRelu =
    LayerJson("Conv2D", {{"filters", 2}, {"kernelSize", 3}, {"activation", "relu"}});
const nlohmann::json kRelu = LayerJson("ReLU");
const nlohmann::json kMaxPool = LayerJson("MaxPooling2D");

std::vector<Layer> Fused(const std::vector<nlohmann::json>& layers) {
  return FuseLayers(ParseLayers(layers).value());
}

TEST(FuseLayersTest, ReluMovesFromConvolutionIntoTheMaxPool) {
  for (const auto& layers :
       {std::vector{kConvRelu, kMaxPool}, {kConv, kRelu, kMaxPool}, {kConv, kMaxPool, kRelu}}) {
    const std::vector<Layer> fused = Fused(layers);
    ASSERT_EQ(fused.size(), 2u);
    EXPECT_FALSE(std::get<Conv2dSpec>(fused[0].spec).relu);
    EXPECT_TRUE(std::get<Pool2dSpec>(fused[1].spec).relu);
  }
}

TEST(FuseLayersTest, ReluBehindAConvolutionOrDenseLayerBecomesItsActivation) {
  const std::vector<Layer> fused =
      Fused({kConv, kRelu, LayerJson("Flatten"), LayerJson("Dense", {{"units", 3}}),
             LayerJson("Activation", {{"activation", "relu"}})});
  ASSERT_EQ(fused.size(), 3u);
  EXPECT_TRUE(std::get<Conv2dSpec>(fused[0].spec).relu);
  EXPECT_TRUE(std::get<DenseSpec>(fused[2].spec).relu);
}

const nlohmann::json kZeros = LayerJson("ZeroPadding2D");
const nlohmann::json kWidePool = LayerJson("MaxPooling2D", {{"poolSize", 3}, {"strides", 2}});

TEST(FuseLayersTest, AConvolutionReadsZerosPastTheEdges) {
  const std::vector<Layer> fused = Fused({kZeros, kConvRelu});
  ASSERT_EQ(fused.size(), 1u);
  EXPECT_EQ(std::get<Conv2dSpec>(fused[0].spec).zeros, (Edges{1, 1, 1, 1}));
  EXPECT_EQ(fused[0].inputs, std::vector<int>{kSamples});
  // Not if the zeros are as wide as the kernel, or if the convolution adds some itself.
  EXPECT_EQ(Fused({LayerJson("ZeroPadding2D", {{"padding", 3}}), kConv}).size(), 2u);
  EXPECT_EQ(
      Fused({kZeros, LayerJson("Conv2D", {{"filters", 2}, {"kernelSize", 3}, {"padding", "same"}})})
          .size(),
      2u);
}

TEST(FuseLayersTest, ADepthwiseConvolutionTakesZerosAndRelu) {
  const std::vector<Layer> fused =
      Fused({kZeros, LayerJson("DepthwiseConv2D", {{"kernelSize", 3}, {"activation", "relu"}})});
  ASSERT_EQ(fused.size(), 1u);
  const auto& spec = std::get<DepthwiseConv2dSpec>(fused[0].spec);
  EXPECT_EQ(spec.zeros, (Edges{1, 1, 1, 1}));
  EXPECT_TRUE(spec.relu);
  EXPECT_EQ(Fused({LayerJson("ZeroPadding2D", {{"padding", 3}}),
                   LayerJson("DepthwiseConv2D", {{"kernelSize", 3}})})
                .size(),
            2u);
}

// Zeros count in a max pool; only behind a relu are they as good as no elements.
TEST(FuseLayersTest, AMaxPoolReadsZerosPastTheEdgesOnlyWithRelu) {
  const nlohmann::json norm = LayerJson("BatchNormalization");
  for (const auto& layers :
       {std::vector{kConvRelu, kZeros, kWidePool}, {kConv, kRelu, kZeros, kWidePool}}) {
    const std::vector<Layer> fused = Fused(layers);
    ASSERT_EQ(fused.size(), 2u);
    EXPECT_FALSE(std::get<Conv2dSpec>(fused[0].spec).relu);
    EXPECT_TRUE(std::get<Pool2dSpec>(fused[1].spec).relu);
    EXPECT_EQ(std::get<Pool2dSpec>(fused[1].spec).zeros, (Edges{1, 1, 1, 1}));
  }
  EXPECT_EQ(Fused({norm, kRelu, kZeros, kWidePool}).size(), 2u);
  EXPECT_EQ(Fused({norm, kZeros, kWidePool}).size(), 3u);
}

TEST(FuseLayersTest, AMaxPoolThatReadsZerosKeepsItsRelu) {
  for (const auto& after : {std::vector{kMaxPool}, {kZeros, kWidePool}}) {
    std::vector<nlohmann::json> layers = {kConvRelu, kZeros, kWidePool};
    layers.insert(layers.end(), after.begin(), after.end());
    const std::vector<Layer> fused = Fused(layers);
    ASSERT_EQ(fused.size(), 2 + after.size());
    EXPECT_EQ(std::get<Pool2dSpec>(fused[1].spec).zeros, (Edges{1, 1, 1, 1}));
    EXPECT_TRUE(std::get<Pool2dSpec>(fused[1].spec).relu);
    EXPECT_FALSE(std::get<Pool2dSpec>(fused.back().spec).relu);
  }
}

TEST(FuseLayersTest, ReluMovesOnThroughMaxPoolsAsLongAsTheyReadNoZeros) {
  const std::vector<Layer> fused = Fused({kConvRelu, kMaxPool, kZeros, kWidePool});
  ASSERT_EQ(fused.size(), 3u);
  EXPECT_FALSE(std::get<Pool2dSpec>(fused[1].spec).relu);
  EXPECT_TRUE(std::get<Pool2dSpec>(fused[2].spec).relu);
  EXPECT_EQ(std::get<Pool2dSpec>(fused[2].spec).zeros, (Edges{1, 1, 1, 1}));
}

TEST(FuseLayersTest, AveragePoolTakesNoRelu) {
  const std::vector<Layer> fused = Fused({kConvRelu, LayerJson("AveragePooling2D"), kRelu});
  ASSERT_EQ(fused.size(), 3u);
  EXPECT_TRUE(std::get<Conv2dSpec>(fused[0].spec).relu);
  EXPECT_FALSE(std::get<Pool2dSpec>(fused[1].spec).relu);
}

// A relu that something else reads as well, or that reads what something else reads, stays.
TEST(FuseLayersTest, NothingThatTwoLayersReadIsFused) {
  const std::vector<Layer> before = Fused(
      {kConv, kRelu, LayerJson("Add", {{"inputs", {"conv2d", "re_lu"}}}), LayerJson("Flatten")});
  ASSERT_EQ(before.size(), 4u);
  EXPECT_FALSE(std::get<Conv2dSpec>(before[0].spec).relu);
}

TEST(FuseLayersTest, AReluThatTwoLayersReadIsFusedIntoItsInput) {
  const std::vector<Layer> fused =
      Fused({kConvRelu, kMaxPool, LayerJson("MaxPooling2D", {{"inputs", {"conv2d"}}}),
             LayerJson("Add", {{"inputs", {"max_pooling2d", "max_pooling2d_1"}}}), kRelu});
  ASSERT_EQ(fused.size(), 4u);
  EXPECT_TRUE(std::get<Conv2dSpec>(fused[0].spec).relu);
  EXPECT_FALSE(std::get<Pool2dSpec>(fused[1].spec).relu) << "the other pool reads it too";
  EXPECT_EQ(fused[1].inputs, std::vector<int>{0});
  EXPECT_EQ(fused[2].inputs, std::vector<int>{0});
  EXPECT_TRUE(std::get<AddSpec>(fused[3].spec).relu);
  EXPECT_EQ(fused[3].inputs, (std::vector<int>{1, 2}));
}

TEST(FuseLayersTest, OtherActivationsStayOpsOfTheirOwn) {
  const std::vector<Layer> fused = Fused(
      {LayerJson("Dense", {{"units", 3}, {"activation", "gelu"}}), LayerJson("MaxPooling2D")});
  ASSERT_EQ(fused.size(), 3u);
  EXPECT_FALSE(std::get<DenseSpec>(fused[0].spec).relu);
  EXPECT_EQ(std::get<ActivationSpec>(fused[1].spec).activation, Activation::kGelu);
  EXPECT_FALSE(std::get<Pool2dSpec>(fused[2].spec).relu);
}

TEST(FuseLayersTest, OtherLayersStandInBetweenAndKeepTheirIndex) {
  const std::vector<Layer> fused =
      Fused({kConvRelu, LayerJson("Dropout", {{"rate", 0.5}}), kRelu, kMaxPool});
  ASSERT_EQ(fused.size(), 3u);
  EXPECT_TRUE(std::get<Conv2dSpec>(fused[0].spec).relu);
  EXPECT_TRUE(std::get<Pool2dSpec>(fused[2].spec).relu);
  EXPECT_EQ(fused[1].index, 1u);
  EXPECT_EQ(fused[2].index, 3u);
}

}  // namespace
}  // namespace lockstep::train
