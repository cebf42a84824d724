#include "trainer/nn/stages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "trainer/backend/backend.h"
#include "trainer/models/models.h"

namespace lockstep::train {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Json = nlohmann::json;

class CutIntoStagesTest : public ::testing::Test {
 protected:
  std::vector<NamedOp> Compile(const std::vector<Json>& layers, const Shape& input = {3, 8, 8}) {
    const ModelOptions options{.batch = 2, .input = input, .classes = 4};
    return *CompileLayers(FuseLayers(*ParseLayers(layers)), options, *backend_);
  }
  std::vector<std::string> FirstOps(const std::vector<Json>& layers, int stages,
                                    const Shape& input = {3, 8, 8}) {
    const std::vector<NamedOp> ops = Compile(layers, input);
    std::vector<std::string> names;
    const std::vector<int> begins = *CutIntoStages(ops, stages);
    for (const int first : begins) {
      names.push_back(ops[static_cast<std::size_t>(first)].name);
    }
    return names;
  }

  const std::unique_ptr<Backend> backend_ = MakeBackend({.name = "reference"});
};

Json DenseLayer(int units) {
  return {{"type", "Dense"}, {"units", units}};
}
Json Conv(const std::string& name, int filters) {
  return {{"type", "Conv2D"},
          {"name", name},
          {"filters", filters},
          {"kernelSize", 3},
          {"padding", "same"}};
}

TEST_F(CutIntoStagesTest, OneStageHasAllOps) {
  EXPECT_THAT(FirstOps({DenseLayer(4)}, 1, {8}), ElementsAre("dense"));
}

TEST_F(CutIntoStagesTest, EqualLayersAreSharedEqually) {
  const std::vector<Json> layers = {DenseLayer(64), DenseLayer(64), DenseLayer(64),
                                    DenseLayer(64), DenseLayer(64), DenseLayer(4)};
  EXPECT_THAT(FirstOps(layers, 3, {64}), ElementsAre("dense", "dense_2", "dense_4"));
}

// The time of the slowest stage counts, not the number of layers.
TEST_F(CutIntoStagesTest, ALargeLayerIsAlone) {
  const std::vector<Json> layers = {DenseLayer(512), DenseLayer(8), DenseLayer(8), DenseLayer(4)};
  EXPECT_THAT(FirstOps(layers, 2, {512}), ElementsAre("dense", "dense_1"));
}

// Both cuts are as fast but for a few per cent. An early stage holds the outputs of more
// micro-batches.
TEST_F(CutIntoStagesTest, OfEquallyFastCutsTakesTheOneWithLessMemory) {
  std::vector<Json> layers;
  for (int i = 0; i < 41; ++i) layers.push_back(DenseLayer(64));
  layers.push_back(DenseLayer(4));
  const std::vector<NamedOp> ops = Compile(layers, {64});
  const std::vector<int> begins = *CutIntoStages(ops, 2);
  EXPECT_LE(begins[1], 21);
  EXPECT_GE(begins[1], 19);
}

TEST_F(CutIntoStagesTest, AResidualBlockStaysWhole) {
  const std::vector<Json> layers = {
      Conv("entry", 4),  Conv("first", 4),
      Conv("second", 4), {{"type", "Add"}, {"inputs", {"second", "entry"}}},
      Conv("third", 4),  {{"type", "Flatten"}},
      DenseLayer(4)};
  EXPECT_THAT(FirstOps(layers, 4), ElementsAre("entry", "first", "third", "dense"));
  const absl::Status status = CutIntoStages(Compile(layers), 5).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("spec.strategy.stages: found 5, expected at most 4"));
}

// A second reader of the samples would need them in a later stage.
TEST_F(CutIntoStagesTest, TheSamplesAreReadInTheFirstStageOnly) {
  const std::vector<Json> layers = {Conv("first", 3),
                                    {{"type", "Add"}, {"inputs", {"first", "input"}}},
                                    Conv("second", 4),
                                    {{"type", "Flatten"}},
                                    DenseLayer(4)};
  EXPECT_THAT(FirstOps(layers, 2), ElementsAre("first", "second"));
}

TEST_F(CutIntoStagesTest, EachStageHasParameters) {
  const std::vector<Json> layers = {{{"type", "Flatten"}},
                                    DenseLayer(4),
                                    {{"type", "ReLU"}},
                                    {{"type", "Dropout"}, {"rate", 0.5}}};
  EXPECT_FALSE(CutIntoStages(Compile(layers), 2).ok());
}

TEST_F(CutIntoStagesTest, EveryBundledResNetHasManyStages) {
  for (const std::string name : {"resnet-18", "resnet-50", "resnet-152"}) {
    const auto layers = BundledModel(name, 4, /*zero_gamma=*/false);
    ASSERT_TRUE(layers.ok()) << layers.status();
    const std::vector<NamedOp> ops = Compile(*layers, {3, 32, 32});
    EXPECT_TRUE(CutIntoStages(ops, 8).ok()) << name;
  }
}

// Without one, they would connect tensors of different sizes.
TEST_F(CutIntoStagesTest, FingerprintsDifferWithTheCut) {
  const std::vector<Json> layers = {DenseLayer(64), DenseLayer(64), DenseLayer(64), DenseLayer(4)};
  const auto fingerprint = [&](int stages) {
    return TakeStage(Compile(layers, {64}), {0, stages})->fingerprint;
  };
  EXPECT_EQ(fingerprint(1), "");
  EXPECT_NE(fingerprint(2), fingerprint(3));
  EXPECT_EQ(fingerprint(2), TakeStage(Compile(layers, {64}), {1, 2})->fingerprint);
}

}  // namespace
}  // namespace lockstep::train
