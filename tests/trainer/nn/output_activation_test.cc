// How a model may end for each kind of loss.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "trainer/nn/model.h"

namespace lockstep::train {
namespace {

using Layers = std::vector<nlohmann::json>;
using ::testing::HasSubstr;

nlohmann::json Dense(const char* activation) {
  return {{"type", "Dense"}, {"units", 2}, {"activation", activation}};
}

class OutputActivationTest : public ::testing::Test {
 protected:
  absl::StatusOr<std::unique_ptr<Model>> Build(const Layers& layers, const ModelOutputs& outputs) {
    return Model::Build(layers, {.batch = 1, .input = {3}, .classes = 2, .outputs = outputs},
                        *backend_);
  }
  void ExpectLogits(const Layers& layers, const ModelOutputs& outputs) {
    const auto model = Build(layers, outputs);
    ASSERT_TRUE(model.ok()) << model.status();
    const std::vector<OpReport> ops = (*model)->Report();
    ASSERT_EQ(ops.size(), 1u) << "only the dense layer";
    EXPECT_EQ(ops[0].name, "dense");
  }
  void ExpectFault(const Layers& layers, const ModelOutputs& outputs, const std::string& text) {
    const auto model = Build(layers, outputs);
    ASSERT_FALSE(model.ok());
    EXPECT_TRUE(absl::IsInvalidArgument(model.status()));
    EXPECT_THAT(std::string(model.status().message()), HasSubstr(text));
  }

  const std::unique_ptr<Backend> backend_ = MakeBackend({.name = "reference"});
};

TEST_F(OutputActivationTest, TheLossAppliesTheModelsOwn) {
  const ModelOutputs classes{.kind = OutputKind::kClassLogits},
      binary{.kind = OutputKind::kBinaryLogits};
  const nlohmann::json softmax = {{"type", "Softmax"}};
  for (const ModelOutputs& outputs :
       {classes, ModelOutputs{.kind = OutputKind::kClassLogits, .from_logits = false}}) {
    ExpectLogits({Dense("softmax")}, outputs);
    ExpectLogits({Dense("linear"), softmax}, outputs);
    ExpectLogits({Dense("linear"), {{"type", "Activation"}, {"activation", "softmax"}}}, outputs);
  }
  ExpectLogits({Dense("sigmoid")}, binary);
  ExpectLogits({Dense("linear")}, classes);
  ExpectLogits({Dense("linear")}, {.kind = OutputKind::kBinaryLogits, .from_logits = true});
  ExpectLogits({Dense("linear")}, {.kind = OutputKind::kNumbers});
}

TEST_F(OutputActivationTest, AnEndThatDoesNotFitTheLossIsRefused) {
  ExpectFault({Dense("softmax")}, {.kind = OutputKind::kClassLogits, .from_logits = true},
              "layers[0]: the model ends in softmax, but loss.fromLogits is true");
  ExpectFault({Dense("linear")}, {.kind = OutputKind::kClassLogits, .from_logits = false},
              "layers[0]: the model ends without softmax, but loss.fromLogits is false");
  ExpectFault({Dense("relu")}, {.kind = OutputKind::kBinaryLogits, .from_logits = false},
              "the model ends without sigmoid");
  ExpectFault({Dense("sigmoid")}, {.kind = OutputKind::kClassLogits},
              "the model ends in sigmoid, expected softmax for this loss");
  ExpectFault({Dense("softmax")}, {.kind = OutputKind::kBinaryLogits},
              "the model ends in softmax, expected sigmoid for this loss");
  ExpectFault({Dense("softmax")}, {.kind = OutputKind::kNumbers},
              "the model ends in softmax, expected numbers for this loss");
}

TEST_F(OutputActivationTest, OnlyTheEndMayHaveOne) {
  ExpectFault({Dense("softmax"), Dense("linear")}, {.kind = OutputKind::kClassLogits},
              "layers[0]: softmax before another layer");
}

TEST_F(OutputActivationTest, TheNumberOfOutputsIsThatOfTheLabel) {
  const nlohmann::json wide = {{"type", "Dense"}, {"units", 3}};
  ExpectFault(
      {wide}, {.kind = OutputKind::kNumbers},
      "the last layer gives [3] a sample, expected [2], one value for each number of a label");
  ExpectFault({wide}, {.kind = OutputKind::kClassLogits},
              "one value for each class of the data set");
}

}  // namespace
}  // namespace lockstep::train
