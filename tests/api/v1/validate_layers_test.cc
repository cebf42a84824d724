#include "api/v1/validate_layers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "tests/support/builders.h"

namespace lockstep::api {
namespace {

using lockstep::testing::MnistTraining;

// All faults of `layers`, "path: message" a line.
std::string LayerFaults(const Json& layers) {
  TrainingSpec training = MnistTraining();
  training.model = {.name = "", .layers = layers};
  return std::string(ToStatus(ValidateLayers(training, "t")).message());
}

Json With(const char* type, const char* field, const Json& value) {
  return Json::array({{{"type", type}, {field, value}}});
}

TEST(ValidateLayersTest, LayersOfTheTrainerAreValid) {
  EXPECT_EQ(LayerFaults(Json::array()), "");
  EXPECT_EQ(LayerFaults(Json::array(
                {{{"type", "Conv2D"}, {"name", "a"}, {"filters", 8}, {"kernelSize", {3, 5}}},
                 {{"type", "MaxPool2D"}, {"poolSize", 2}, {"strides", nullptr}},
                 {{"type", "ZeroPadding2D"}, {"padding", 0}},
                 {{"type", "Conv2D"}, {"filters", 8}, {"kernelSize", 1}, {"padding", "same"}},
                 {{"type", "Add"}, {"inputs", {"a", "input"}}},
                 {{"type", "BatchNormalization"}, {"momentum", 0}, {"epsilon", 1e-12}},
                 {{"type", "Dropout"}, {"rate", 0.5}},
                 {{"type", "Dense"}, {"units", 1048576}, {"useBias", false}}})),
            "");
}

TEST(ValidateLayersTest, AFaultNamesTheFieldAndWhatIsExpected) {
  struct Case {
    Json layers;
    const char* message;
  };
  const std::string long_name(254, 'x');
  const Case cases[] = {
      {Json::array({{{"type", "Flatten"}}, {{"units", 10}}}),
       "t.model.layers[1].type: found nothing, expected a layer type, such as \"Dense\""},
      {Json::array({{{"type", "Desne"}}}),
       "t.model.layers[0].type: found \"Desne\"; did you mean \"Dense\"?"},
      {Json::array({{{"type", 7}}}), "t.model.layers[0].type: found 7, expected a string"},
      {With("Dense", "unit", 1), "t.model.layers[0].unit: unknown field; did you mean \"units\"?"},
      {With("Dense", "units", "ten"),
       "t.model.layers[0].units: found \"ten\", expected an integer from 1 to 1048576"},
      {With("Dense", "units", 1048577),
       "t.model.layers[0].units: found 1048577, expected an integer from 1 to 1048576"},
      {With("Dense", "useBias", "no"),
       "t.model.layers[0].useBias: found \"no\", expected true or false"},
      {With("Dense", "activation", "rleu"),
       "t.model.layers[0].activation: found \"rleu\"; did you mean \"relu\"?"},
      {With("Dropout", "rate", 1),
       "t.model.layers[0].rate: found 1, expected a number of at least 0 and below 1"},
      {With("Conv2D", "padding", "full"),
       "t.model.layers[0].padding: found \"full\", expected an integer from 0 to 1048576, or a "
       "string that matches ^(valid|same)$"},
      {With("Conv2D", "padding", -1),
       "t.model.layers[0].padding: found -1, expected an integer from 0 to 1048576, or a string "
       "that matches ^(valid|same)$"},
      {With("ReLU", "inputs", "input"),
       "t.model.layers[0].inputs: found \"input\", expected a list"},
      {With("ReLU", "inputs", Json::array()),
       "t.model.layers[0].inputs: found 0 values, expected 1 to 64"},
      {With("ReLU", "inputs", {"input", 3}),
       "t.model.layers[0].inputs[1]: found 3, expected a string"},
      {With("ReLU", "inputs", {""}),
       "t.model.layers[0].inputs[0]: found \"\", expected a string of 1 to 253 characters"},
      {With("ReLU", "name", long_name), "t.model.layers[0].name: found \"xxx"},
  };
  for (const Case& fault : cases) {
    EXPECT_THAT(LayerFaults(fault.layers), ::testing::StartsWith(fault.message)) << fault.layers;
    EXPECT_THAT(LayerFaults(fault.layers), ::testing::Not(::testing::HasSubstr("\n")));
  }
}

TEST(ValidateLayersTest, AnExtentIsOneNumberOrTwo) {
  for (const Json& good : {Json(3), Json({3, 5}), Json()}) {
    EXPECT_EQ(LayerFaults(With("Conv2D", "kernelSize", good)), "") << good;
  }
  for (const Json& bad : {Json(0), Json("3"), Json({3}), Json({3, "3"}), Json(3.5),
                          Json({{"a", 1}}), Json::parse("[[3,3],[3,3]]")}) {
    EXPECT_THAT(LayerFaults(With("Conv2D", "kernelSize", bad)),
                ::testing::StartsWith("t.model.layers[0].kernelSize"))
        << bad;
  }
}

TEST(ValidateLayersTest, ALengthIsCountedInCharacters) {
  std::string name;
  for (int i = 0; i < 253; ++i) name += "\u00e9";
  EXPECT_EQ(LayerFaults(With("ReLU", "name", name)), "");
  EXPECT_NE(LayerFaults(With("ReLU", "name", name + "e")), "");
}

TEST(ValidateLayersTest, AVariantsLayersAreCheckedToo) {
  TrainingSpec training = MnistTraining();
  training.variants =
      Json::array({Json::object(),
                   {{"model", {{"name", nullptr}, {"layers", With("Dense", "units", "ten")}}}}});
  EXPECT_EQ(ToStatus(ValidateLayers(training, "t")).message(),
            "t.variants[1].model.layers[0].units: found \"ten\", expected an integer from 1 to "
            "1048576");
}

}  // namespace
}  // namespace lockstep::api
