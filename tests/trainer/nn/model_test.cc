#include "trainer/nn/model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>

#include "tests/trainer/nn/tested_model.h"
#include "trainer/models/models.h"

namespace lockstep::train {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using Layers = std::vector<json>;

const json kFlatten = LayerJson("Flatten");
const json kMaxPool = LayerJson("MaxPooling2D");
json Conv(int filters, json more = json::object()) {
  more.update({{"filters", filters}, {"kernelSize", 3}});
  return LayerJson("Conv2D", more);
}
json Dense(int units, json more = json::object()) {
  more["units"] = units;
  return LayerJson("Dense", more);
}
const json kRelu{{"activation", "relu"}};

// Every kind of layer; tensors whose sizes are no multiples of the alignment.
const Layers kMixed = {Conv(5, {{"padding", "same"}}),
                       LayerJson("BatchNormalization"),
                       LayerJson("ReLU"),
                       kMaxPool,
                       Conv(3, kRelu),
                       LayerJson("AveragePooling2D", {{"poolSize", 2}, {"strides", 1}}),
                       LayerJson("Dropout", {{"rate", 0.25}}),
                       kFlatten,
                       Dense(7, kRelu),
                       LayerJson("BatchNormalization"),
                       Dense(4)};
const ModelOptions kMixedOptions{.batch = 6, .input = {2, 10, 10}, .classes = 4, .seed = 3};

TEST(ModelTest, FlatRangesAreAlignedOrderedAndDisjoint) {
  TestedModel tested(kMixed, kMixedOptions);
  std::int64_t end = 0;
  for (const TensorSlot& slot : tested.model().parameter_slots()) {
    EXPECT_EQ(slot.offset % 16, 0) << slot.name;
    EXPECT_GE(slot.offset, end) << slot.name;
    EXPECT_LT(slot.offset - end, 16) << slot.name;
    EXPECT_EQ(slot.size, slot.desc.shape.elements()) << slot.name;
    end = slot.offset + slot.size;
  }
  EXPECT_GE(static_cast<std::int64_t>(tested.model().parameters().size()), end);
  EXPECT_EQ(tested.model().gradients().size(), tested.model().parameters().size());
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tested.model().parameters().data()) % 64, 0u);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tested.model().states().data()) % 64, 0u);
}

TEST(ModelTest, SlotsAreNamedByLayerAndParameter) {
  TestedModel tested(kMixed, kMixedOptions);
  std::vector<std::string> names, states;
  for (const TensorSlot& slot : tested.model().parameter_slots()) names.push_back(slot.name);
  for (const TensorSlot& slot : tested.model().state_slots()) states.push_back(slot.name);
  EXPECT_THAT(names, ::testing::ElementsAre(
                         "conv2d/weight", "conv2d/bias", "batch_normalization/gamma",
                         "batch_normalization/beta", "conv2d_1/weight", "conv2d_1/bias",
                         "dense/weight", "dense/bias", "batch_normalization_1/gamma",
                         "batch_normalization_1/beta", "dense_1/weight", "dense_1/bias"));
  EXPECT_THAT(states, ::testing::ElementsAre(
                          "batch_normalization/mean", "batch_normalization/variance",
                          "batch_normalization_1/mean", "batch_normalization_1/variance"));
}

TEST(ModelTest, GapsBetweenTensorsStayZero) {
  TestedModel tested(kMixed, kMixedOptions);
  tested.Step(RandomBatch(6, {2, 10, 10}, 4, 1), {.valid = 6}, 1.0f / 6);
  std::vector<bool> used(tested.model().parameters().size(), false);
  for (const TensorSlot& slot : tested.model().parameter_slots()) {
    std::fill_n(used.begin() + slot.offset, slot.size, true);
  }
  for (std::size_t i = 0; i < used.size(); ++i) {
    if (used[i]) continue;
    EXPECT_EQ(tested.model().parameters()[i], 0) << i;
    EXPECT_EQ(tested.model().gradients()[i], 0) << i;
  }
}

TEST(ModelTest, BackwardReportsContiguousDescendingRangesOfAllGradients) {
  TestedModel tested(kMixed, kMixedOptions);
  std::int64_t end = static_cast<std::int64_t>(tested.model().gradients().size());
  int calls = 0;
  tested.Step(RandomBatch(6, {2, 10, 10}, 4, 1), {.valid = 6}, 1,
              [&](std::int64_t offset, std::int64_t size) {
                EXPECT_GT(size, 0);
                EXPECT_EQ(offset + size, end);
                end = offset;
                ++calls;
              });
  EXPECT_EQ(end, 0);
  EXPECT_EQ(calls, 6) << "one for each layer with parameters";
}

TEST(ModelTest, ReportedGradientsAreFinalWhenTheyAreReported) {
  TestedModel tested(kMixed, kMixedOptions);
  std::map<std::int64_t, std::vector<float>> seen;
  const auto gradients = tested.model().gradients();
  tested.Step(RandomBatch(6, {2, 10, 10}, 4, 1), {.valid = 6}, 1,
              [&](std::int64_t offset, std::int64_t size) {
                seen[offset].assign(gradients.begin() + offset, gradients.begin() + offset + size);
              });
  for (const auto& [offset, values] : seen) {
    EXPECT_TRUE(std::equal(values.begin(), values.end(), gradients.begin() + offset));
  }
}

TEST(ModelTest, GradientsAreTheSlopesOfTheLoss) {
  // Without dropout's and pooling's kinks the loss is smooth almost everywhere.
  const Layers layers = {Conv(4, {{"padding", "same"}}),
                         LayerJson("BatchNormalization"),
                         LayerJson("AveragePooling2D"),
                         Conv(3),
                         LayerJson("Dropout", {{"rate", 0.25}}),
                         kFlatten,
                         Dense(6),
                         LayerJson("BatchNormalization"),
                         Dense(4)};
  TestedModel tested(layers, {.batch = 5, .input = {2, 8, 8}, .classes = 4});
  const Batch batch = RandomBatch(5, {2, 8, 8}, 4, 1);
  const StepContext step{.valid = 5, .step = 2, .first_position = 40};
  tested.Step(batch, step, 1);
  const std::vector<float> gradients(tested.model().gradients().begin(),
                                     tested.model().gradients().end());
  for (const TensorSlot& slot : tested.model().parameter_slots()) {
    for (std::int64_t i = 0; i < slot.size; i += 1 + slot.size / 5) {
      float& value = tested.model().parameters()[static_cast<std::size_t>(slot.offset + i)];
      const float kept = value, delta = 1e-2f;
      value = kept + delta;
      const double above = tested.Step(batch, step, 1).loss;
      value = kept - delta;
      const double below = tested.Step(batch, step, 1).loss;
      value = kept;
      EXPECT_NEAR((above - below) / (2 * delta),
                  gradients[static_cast<std::size_t>(slot.offset + i)], 5e-3)
          << slot.name << "[" << i << "]";
    }
  }
}

TEST(ModelTest, TheSameStepGivesTheSameBits) {
  TestedModel tested(kMixed, kMixedOptions);
  const Batch batch = RandomBatch(6, {2, 10, 10}, 4, 1), other = RandomBatch(6, {2, 10, 10}, 4, 2);
  const double loss = tested.Step(batch, {.valid = 6}, 1).loss;
  const std::vector<float> gradients(tested.model().gradients().begin(),
                                     tested.model().gradients().end());
  tested.Step(other, {.valid = 6, .step = 1}, 1);
  tested.Evaluate(other);
  EXPECT_EQ(tested.Step(batch, {.valid = 6}, 1).loss, loss);
  EXPECT_TRUE(std::equal(gradients.begin(), gradients.end(), tested.model().gradients().begin()));
}

// A dropout of nothing keeps the relu apart from its neighbours.
TEST(ModelTest, FusedEqualsUnfused) {
  const json nothing = LayerJson("Dropout", {{"rate", 0.0}}), relu = LayerJson("ReLU");
  const Layers fused = {Conv(4, kRelu), kMaxPool,        Conv(3, kRelu),
                        kFlatten,       Dense(6, kRelu), Dense(4)};
  const Layers unfused = {Conv(4), nothing, relu,     nothing,  kMaxPool, Conv(3), nothing,
                          relu,    nothing, kFlatten, Dense(6), nothing,  relu,    Dense(4)};
  const ModelOptions options{.batch = 5, .input = {2, 10, 10}, .classes = 4, .seed = 9};
  TestedModel a(fused, options), b(unfused, options);
  const Batch batch = RandomBatch(5, {2, 10, 10}, 4, 1);
  EXPECT_EQ(a.Step(batch, {.valid = 5}, 1).loss, b.Step(batch, {.valid = 5}, 1).loss);
  ASSERT_EQ(a.model().gradients().size(), b.model().gradients().size());
  for (std::size_t i = 0; i < a.model().gradients().size(); ++i) {
    ASSERT_EQ(a.model().gradients()[i], b.model().gradients()[i]) << i;
  }
}

TEST(ModelTest, GradientsGoWhereTheyAreBound) {
  TestedModel tested(kMixed, kMixedOptions);
  const Batch batch = RandomBatch(6, {2, 10, 10}, 4, 1);
  tested.Step(batch, {.valid = 6}, 1);
  const std::vector<float> expected(tested.model().gradients().begin(),
                                    tested.model().gradients().end());
  Arena arena;
  arena.Reserve(expected.size() * sizeof(float));
  arena.Allocate();
  tested.model().BindGradients(arena.At<float>(0));
  EXPECT_EQ(tested.model().gradients().data(), arena.At<float>(0));
  tested.Step(batch, {.valid = 6}, 1);
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), arena.At<float>(0)));
}

TEST(ModelTest, FingerprintsTellModelsApartButNotSeedsOrBatches) {
  const Layers one = {kFlatten, Dense(4)}, other = {kFlatten, Dense(4, {{"useBias", false}})};
  const auto fingerprint = [](const Layers& layers, std::int64_t batch, std::uint64_t seed) {
    return TestedModel(layers, {.batch = batch, .input = {1, 3, 3}, .classes = 4, .seed = seed})
        .model()
        .LayoutFingerprint();
  };
  EXPECT_EQ(fingerprint(one, 4, 1), fingerprint(one, 8, 2));
  EXPECT_NE(fingerprint(one, 4, 1), fingerprint(other, 4, 1));
}

std::string LayoutOf(const Layers& layers, const Shape& input, const std::string& backend) {
  const auto made = MakeBackend({.name = backend});
  const auto model =
      Model::Build(layers, {.batch = 2, .input = input, .classes = 4, .initializes = false}, *made);
  EXPECT_TRUE(model.ok()) << model.status();
  return (*model)->LayoutFingerprint();
}

// The counts alone do not tell these apart.
TEST(ModelTest, FingerprintsTellNamesAndShapesApart) {
  const Layers layers = {Conv(16, {{"padding", "same"}}), kFlatten, Dense(4)};
  Layers renamed = layers, reshaped = layers;
  renamed.front()["name"] = "first";
  reshaped.front()["kernelSize"] = json::array({9, 1});
  const Shape input = {16, 9, 9};
  const std::string fingerprint = LayoutOf(layers, input, "reference");
  EXPECT_EQ(fingerprint, LayoutOf(layers, input, "reference"));
  const std::string counts = fingerprint.substr(0, fingerprint.find("tensorsDigest="));
  for (const Layers& others : {renamed, reshaped}) {
    const std::string other = LayoutOf(others, input, "reference");
    EXPECT_THAT(other, StartsWith(counts));
    EXPECT_NE(other, fingerprint);
  }
}

// A refusal then says whether the models differ or only the processors.
TEST(ModelTest, FingerprintsTellTensorsFromTheirMemoryLayouts) {
  const Layers layers = {Conv(16, {{"padding", "same"}}), kFlatten, Dense(4)};
  const auto tensors = [&layers](const char* backend) {
    const std::string fingerprint = LayoutOf(layers, {16, 9, 9}, backend);
    const std::size_t end = fingerprint.find("memoryLayouts=");
    EXPECT_NE(end, std::string::npos) << fingerprint;
    return fingerprint.substr(0, end);
  };
  EXPECT_EQ(tensors("reference"), tensors("cpu"));
}

// Processes that join have to introduce themselves within 16 KiB.
TEST(ModelTest, FingerprintsAreShortHoweverManyTensorsThereAre) {
  for (const std::string& name : BundledModelNames()) {
    for (const char* backend : {"reference", "cpu"}) {
      const std::string fingerprint = LayoutOf(*BundledModel(name, 4), {1, 28, 28}, backend);
      EXPECT_LT(fingerprint.size(), 200u) << name << ": " << fingerprint;
    }
  }
}

TEST(ModelTest, TheSeedDecidesTheInitialParameters) {
  const Layers layers = {kFlatten, Dense(4)};
  const auto weights = [&](std::uint64_t seed) {
    return TestedModel(layers, {.batch = 2, .input = {1, 3, 3}, .classes = 4, .seed = seed})
        .Parameter("dense/weight");
  };
  EXPECT_EQ(weights(1), weights(1));
  EXPECT_NE(weights(1), weights(2));
}

// Two classes of points that no line separates.
TEST(ModelTest, LearnsExclusiveOr) {
  const Layers layers = {Dense(8, kRelu), Dense(2)};
  TestedModel tested(layers, {.batch = 4, .input = {2}, .classes = 2, .seed = 1});
  const Batch batch{.x = {0, 0, 0, 1, 1, 0, 1, 1}, .labels = {0, 1, 1, 0}, .weights = {1, 1, 1, 1}};
  const auto sgd = tested.backend().MakeOptimizer(SgdSpec{});
  const OptimizerStep settings{.learning_rate = 0.5f};
  sgd->Bind({.values = tested.model().parameters().data(),
             .gradients = tested.model().gradients().data(),
             .slots = {},
             .size = static_cast<std::int64_t>(tested.model().parameters().size()),
             .step = &settings});
  for (std::int64_t step = 1; step <= 500; ++step) {
    tested.Step(batch, {.valid = 4}, 0.25f);
    sgd->Step();
  }
  const LossTotals result = tested.Evaluate(batch);
  EXPECT_EQ(result.correct, 4);
  EXPECT_LT(result.loss / 4, 0.05);
}

std::string FaultOf(const Layers& layers, Shape input = {1, 8, 8}) {
  const auto backend = MakeBackend({.name = "reference"});
  const auto model =
      Model::Build(layers, {.batch = 2, .input = std::move(input), .classes = 10}, *backend);
  return model.ok() ? "no fault" : std::string(model.status().message());
}

TEST(ModelTest, LayersThatDoNotFitTheirInputAreRefusedByName) {
  EXPECT_THAT(FaultOf({Dense(10)}), HasSubstr("layers[0]: Dense on an input of [1,8,8] a sample, "
                                              "expected Flatten"));
  EXPECT_THAT(FaultOf({kFlatten, Conv(2)}),
              HasSubstr("layers[1]: Conv2D on an input of [64] a sample, expected an image"));
  EXPECT_THAT(FaultOf({Conv(2), Conv(2), Conv(2), Conv(2), kFlatten, Dense(10)}),
              HasSubstr("layers[3].kernelSize: found 3x3 on an image of 2x2, expected at most"));
  EXPECT_THAT(FaultOf({LayerJson("MaxPool2D", {{"poolSize", 9}})}),
              HasSubstr("layers[0].poolSize: found 9x9 on an image of 8x8"));
  EXPECT_THAT(FaultOf({LayerJson("MaxPool2D", {{"poolSize", 1 << 16}, {"padding", "same"}})}),
              HasSubstr("layers[0].poolSize: found 65536x65536, expected a window of at most "
                        "2.15e+09 elements"));
  EXPECT_THAT(FaultOf({kFlatten, Dense(12)}),
              HasSubstr("layers[1]: the last layer gives [12] a sample, expected [10]"));
  EXPECT_THAT(FaultOf({Conv(10)}),
              HasSubstr("layers[0]: the last layer gives [10,6,6] a sample, expected [10]"));
  EXPECT_THAT(FaultOf({kFlatten, Dense(1 << 20), Dense(1 << 20), Dense(10)}),
              HasSubstr("layers[2].units: makes a tensor of 1.1e+12 elements, expected at most"));
}

TEST(ModelTest, TensorsThatNoIntegerCountsAreRefused) {
  constexpr int kMost = 1 << 20;
  const json wide = LayerJson("Conv2D", {{"filters", kMost}, {"kernelSize", 1}});
  const json zeros = LayerJson("ZeroPadding2D", {{"padding", kMost}});
  EXPECT_THAT(
      FaultOf({wide, zeros, kFlatten, Dense(10)}, {1, 1, 1}),
      HasSubstr("layers[1].padding: makes a tensor of 9.22e+18 elements, expected at most"));
  const json relu = LayerJson("ReLU");
  const json edges = LayerJson("ZeroPadding2D", {{"padding", 46'339}});
  const json pool = LayerJson("MaxPool2D", {{"poolSize", 46'340}, {"strides", 1}});
  EXPECT_THAT(FaultOf({wide, relu, edges, pool, kFlatten, Dense(10)}, {1, 1, 1}),
              HasSubstr(".poolSize: makes a tensor of 4.5e+15 elements"))
      << "zeros are fused";
  EXPECT_THAT(FaultOf({kFlatten, Dense(10)}, {1 << 10, 1 << 10, 1 << 10}),
              HasSubstr("model: 2 samples of [1024,1024,1024] make a tensor of 2.15e+09 elements"));
}

TEST(ModelTest, ImpossibleSamplesAreRefused) {
  EXPECT_THAT(FaultOf({kFlatten, Dense(10)}, {0, 8, 8}), HasSubstr("samples of [0,8,8]"));
  EXPECT_THAT(FaultOf({kFlatten, Dense(10)}, {8, 8}), HasSubstr("samples of [8,8]"));
}

TEST(ModelTest, MemoryOfTheBackwardPassIsShared) {
  // Eight equal layers: 9 activations are kept, but 2 gradients serve all; the rest is small.
  Layers layers;
  for (int i = 0; i < 8; ++i) layers.push_back(Conv(4, {{"padding", "same"}}));
  layers.push_back(LayerJson("GlobalAveragePooling2D"));
  const Shape input = {4, 32, 32};
  TestedModel tested(layers, {.batch = 8, .input = input, .classes = 4});
  const std::size_t activation = 8 * static_cast<std::size_t>(input.elements()) * sizeof(float);
  EXPECT_LT(tested.model().Memory().total(), 12 * activation);
}

TEST(ModelTest, WhatNoBackwardPassReadsIsNotKept) {
  // Each of eight blocks keeps the output of the convolution and the sum, but not that of the
  // normalization, which only the sum reads. Few gradients serve all.
  Layers layers;
  std::string last = "input";
  const auto add = [&](json layer, const std::string& name,
                       const std::vector<std::string>& inputs) {
    layer["name"] = name;
    layer["inputs"] = inputs;
    layers.push_back(std::move(layer));
  };
  for (int i = 0; i < 8; ++i) {
    const std::string block = std::to_string(i);
    add(Conv(4, {{"padding", "same"}}), "conv" + block, {last});
    add(LayerJson("BatchNormalization"), "norm" + block, {"conv" + block});
    add(LayerJson("Add"), "sum" + block, {"norm" + block, last});
    last = "sum" + block;
  }
  layers.push_back(LayerJson("GlobalAveragePooling2D"));
  const Shape input = {4, 32, 32};
  TestedModel tested(layers, {.batch = 8, .input = input, .classes = 4}, "cpu");
  const std::size_t activation = 8 * static_cast<std::size_t>(input.elements()) * sizeof(float);
  EXPECT_LT(tested.model().Memory().activations, 22 * activation);
}

TEST(ModelTest, ItsOwnGradientsAreFreedWhenTheyAreBoundElsewhere) {
  TestedModel tested({kFlatten, Dense(10)}, {.batch = 2, .input = {1, 8, 8}, .classes = 10});
  Model& model = tested.model();
  const ModelMemory before = model.Memory();
  EXPECT_EQ(before.gradients, before.parameters);
  Arena elsewhere;
  elsewhere.Reserve(model.gradients().size_bytes());
  elsewhere.Allocate();
  model.BindGradients(elsewhere.At<float>(0));
  EXPECT_EQ(model.Memory().gradients, 0u);
  EXPECT_EQ(model.Memory().total(), before.total() - before.gradients);
}

TEST(ModelTest, AModelThatDoesNotInitializeIsZeroUntilItShall) {
  ModelOptions options{.batch = 2, .input = {1, 8, 8}, .classes = 10};
  options.initializes = false;
  const auto backend = MakeBackend({.name = "reference"});
  const auto model = *Model::Build({kFlatten, Dense(10)}, options, *backend);
  const auto is_zero = [&] {
    return std::ranges::all_of(model->parameters(), [](float value) { return value == 0; });
  };
  EXPECT_TRUE(is_zero());
  model->InitializeParameters();
  EXPECT_FALSE(is_zero());
}

}  // namespace
}  // namespace lockstep::train
