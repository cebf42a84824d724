#include "trainer/nn/op_facts.h"

#include <gtest/gtest.h>

#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "tests/trainer/nn/tested_model.h"
#include "trainer/models/models.h"
#include "trainer/nn/layer.h"
#include "trainer/nn/model.h"

namespace lockstep::train {
namespace {

// So plan, bench and gpu-check call it the same.
TEST(OpNameTest, IsThatOfTheLayer) {
  const std::vector<nlohmann::json> layers = {
      LayerJson("Conv2D", {{"filters", 1}, {"kernelSize", 1}}),
      LayerJson("DepthwiseConv2D", {{"kernelSize", 1}}),
      LayerJson("ZeroPadding2D"),
      LayerJson("MaxPooling2D"),
      LayerJson("AveragePooling2D"),
      LayerJson("BatchNormalization"),
      LayerJson("LayerNormalization"),
      LayerJson("Activation", {{"activation", "tanh"}}),
      LayerJson("Add", {{"inputs", {"activation", "layer_normalization"}}}),
      LayerJson("Concatenate", {{"inputs", {"add", "activation"}}}),
      LayerJson("GlobalAveragePooling2D"),
      LayerJson("Flatten"),
      LayerJson("Dropout", {{"rate", 0.5}}),
      LayerJson("Dense", {{"units", 1}})};
  const auto parsed = ParseLayers(layers);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  ASSERT_EQ(parsed->size(), layers.size());
  for (std::size_t i = 0; i < layers.size(); ++i) {
    std::visit(
        [&layer = layers[i]](const auto& spec) {
          if constexpr (std::is_constructible_v<OpSpec, decltype(spec)>) {
            EXPECT_EQ(OpName(spec), layer.at("type").template get<std::string>());
          } else {
            ADD_FAILURE() << layer;
          }
        },
        (*parsed)[i].spec);
  }
}

TEST(OpFactsTest, AConvolutionCountsTwoOperationsForEachWeightAndOutput) {
  const Conv2dSpec spec{.x = {{4, 3, 9, 9}},
                        .filters = 5,
                        .kernel_h = 3,
                        .kernel_w = 2,
                        .relu = true,
                        .zeros = {.top = 1}};
  const OpFacts facts = FactsOf(spec, {4, 5, 8, 8});
  EXPECT_EQ(facts.type, "ZeroPadding2D + Conv2D + ReLU");
  EXPECT_EQ(facts.forward_flops, 2 * (4 * 5 * 8 * 8) * (3 * 3 * 2));
  EXPECT_EQ(facts.backward_flops, 2 * facts.forward_flops);
  Conv2dSpec first = spec;
  first.input_gradient = false;
  EXPECT_EQ(FactsOf(first, {4, 5, 8, 8}).backward_flops, facts.forward_flops);
}

TEST(OpFactsTest, ADepthwiseConvolutionCountsTheKernelOfEachChannel) {
  const DepthwiseConv2dSpec spec{
      .x = {{4, 3, 9, 9}}, .depth_multiplier = 2, .kernel_h = 3, .kernel_w = 2, .relu = true};
  const OpFacts facts = FactsOf(spec, {4, 6, 7, 8});
  EXPECT_EQ(facts.type, "DepthwiseConv2D + ReLU");
  EXPECT_EQ(facts.forward_flops, 2 * (4 * 6 * 7 * 8) * (3 * 2));
  EXPECT_EQ(facts.backward_flops, 2 * facts.forward_flops);
}

TEST(OpFactsTest, ADenseLayerCountsItsMatrix) {
  const OpFacts facts = FactsOf(DenseSpec{.x = {{4, 3, 2, 2}}, .units = 7}, {4, 7});
  EXPECT_EQ(facts.type, "Dense");
  EXPECT_EQ(facts.forward_flops, 2 * 4 * 12 * 7);
}

TEST(OpFactsTest, LargestTensorsMakeNoNegativeNumber) {
  constexpr std::int64_t kSide = 46'340;  // squared, nearly the most elements of a tensor
  const Conv2dSpec spec{
      .x = {{1, 1, kSide, kSide}}, .filters = 1, .kernel_h = kSide, .kernel_w = kSide};
  EXPECT_NEAR(FactsOf(spec, {1, 1, kSide, kSide}).backward_flops, 0x1p64, 0x1p52);
}

// PyTorch's torch.utils.flop_counter counts the same of this model with an image of 224x224, for
// the forward pass and for both. Its parameters are torchvision's.
TEST(OpFactsTest, AResNet50HasTheKnownNumbers) {
  const auto backend = MakeBackend({.name = "cpu", .threads = 1});
  const auto model = *Model::Build(
      *BundledModel("resnet-50", 1000),
      {.batch = 1, .input = {3, 224, 224}, .classes = 1000, .initializes = false}, *backend);
  double forward = 0, backward = 0;
  std::int64_t parameters = 0, states = 0;
  for (const OpReport& op : model->Report()) {
    forward += op.facts.forward_flops;
    backward += op.facts.backward_flops;
    parameters += op.parameters;
    states += op.states;
  }
  EXPECT_EQ(forward, 8'178'368'512);
  EXPECT_EQ(forward + backward, 24'299'077'632);
  EXPECT_EQ(parameters, 25'557'032);
  EXPECT_EQ(states, 53'120);
}

}  // namespace
}  // namespace lockstep::train
