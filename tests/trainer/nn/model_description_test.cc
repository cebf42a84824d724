#include "trainer/nn/model_description.h"

#include <gtest/gtest.h>

namespace lockstep::train {
namespace {

using Json = nlohmann::json;

TEST(ModelDescriptionTest, SurvivesJson) {
  const ModelDescription model{.layers = {{{"type", "Flatten"}}, {{"type", "Dense"}, {"units", 4}}},
                               .input = {1, 2, 3},
                               .element = DType::kFloat32,
                               .outputs = 4};
  Json json = Json::parse(DescriptionToJson(model).dump());
  const auto decoded = DescriptionFromJson(json);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(*decoded, model);
  json.erase("element");
  const auto of_earlier_version = DescriptionFromJson(json);
  ASSERT_TRUE(of_earlier_version.ok()) << of_earlier_version.status();
  EXPECT_EQ(of_earlier_version->element, std::nullopt);
}

TEST(ModelDescriptionTest, FaultsAreNamed) {
  const Json good = {{"layers", Json::array()}, {"input", {3}}, {"outputs", 1}};
  ASSERT_TRUE(DescriptionFromJson(good).ok());
  const auto message = [&](const char* field, const Json& value) {
    Json bad = good;
    bad[field] = value;
    return std::string(DescriptionFromJson(bad).status().message());
  };
  EXPECT_EQ(message("layers", nullptr), "model.layers: found null, expected a list");
  for (const Json& input :
       {Json(3), Json({1, 2}), Json({1, 0, 3}), Json({1.5}), Json({"1"}),
        Json({std::uint64_t{1} << 63}), Json({50000, 50000, 1}), Json::array()}) {
    EXPECT_EQ(message("input", input),
              "model.input: found " + input.dump() + ", expected [C,H,W] or [F], positive numbers");
  }
  for (const Json& element : {Json("int32"), Json(), Json(1)}) {
    EXPECT_EQ(message("element", element),
              "model.element: found " + element.dump() + ", expected \"uint8\" or \"float32\"");
  }
  EXPECT_EQ(message("outputs", 0), "model.outputs: found 0, expected a positive number");
  EXPECT_EQ(DescriptionFromJson(Json(5)).status().message(), "model: found 5, expected an object");
}

}  // namespace
}  // namespace lockstep::train
