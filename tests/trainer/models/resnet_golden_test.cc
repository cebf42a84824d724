// One step of ResNet-18 against PyTorch's: tests/golden/generate_resnet.py.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/trainer/backend/golden_file.h"
#include "tests/trainer/nn/tested_model.h"
#include "trainer/models/models.h"
#include "trainer/optim/optimizer.h"

namespace lockstep::train {
namespace {

using nlohmann::json;

// As numbers() of the generator.
std::vector<float> Numbers(std::uint32_t salt, std::int64_t count) {
  std::vector<float> numbers;
  for (std::int64_t i = 0; i < count; ++i) {
    std::uint32_t x = static_cast<std::uint32_t>(i) * 2654435761u + salt * 0x9E3779B9u;
    for (int round = 0; round < 2; ++round) {
      x ^= x >> 16;
      x *= 0x45D9F3Bu;
    }
    x ^= x >> 16;
    numbers.push_back(static_cast<float>(static_cast<double>(x >> 8) / (1 << 23) - 1));
  }
  return numbers;
}

// As initial() of the generator.
std::vector<float> Initial(const std::string& name, const Shape& shape, std::uint32_t salt) {
  std::vector<float> values = Numbers(salt, shape.elements());
  float scale = 0.125f, shift = 0;
  if (name.ends_with("/gamma")) {
    scale = 0.25f;
    shift = 1;
  } else if (name.ends_with("/weight")) {
    const std::int64_t fan_in = shape.elements() / shape[0];
    scale = static_cast<float>(std::sqrt(6 / static_cast<double>(fan_in)));
  }
  for (float& value : values) {
    value = static_cast<float>(double{shift} + double{scale} * double{value});
  }
  return values;
}

double NormOf(const std::vector<float>& values) {
  double sum = 0;
  for (const float value : values) sum += double{value} * double{value};
  return std::sqrt(sum);
}

class ResNetGoldenTest : public ::testing::TestWithParam<std::string> {
 protected:
  // Compares the elements that the file has; a difference counts relative to the tensor's norm.
  void ExpectClose(const std::string& name, const std::string& what,
                   const std::vector<float>& found, double scale) const {
    const json& golden = golden_.at("parameters").at(name);
    const double size =
        scale * golden.at("norm").get<double>() / std::sqrt(static_cast<double>(found.size()));
    for (std::size_t i = 0; i < golden.at("places").size(); ++i) {
      const auto place = golden.at("places")[i].get<std::size_t>();
      EXPECT_NEAR(found.at(place), golden.at(what)[i].get<double>(), kTolerance * size)
          << name << " " << what << "[" << place << "]";
    }
  }

  // Allows for float32 instead of float64 through 18 layers with batch normalization.
  static constexpr double kTolerance = 2e-3;
  const json golden_ = GoldenFile("resnet18");
};

TEST_P(ResNetGoldenTest, AStepIsThatOfPyTorch) {
  const std::int64_t batch = golden_.at("batch"), size = golden_.at("size"),
                     classes = golden_.at("classes");
  const Shape input = {3, size, size};
  TestedModel tested(*BundledModel("resnet-18", classes),
                     {.batch = batch, .input = input, .classes = classes}, GetParam());
  const json& parameters = golden_.at("parameters");
  ASSERT_EQ(tested.model().parameter_slots().size(), parameters.size());
  std::uint32_t salt = 0;
  std::map<std::string, std::vector<float>> before;
  for (const auto& [name, parameter] : parameters.items()) {  // sorted by name
    const Shape shape(parameter.at("shape").get<std::vector<std::int64_t>>());
    before[name] = Initial(name, shape, ++salt);
    tested.SetParameter(name, before[name]);
  }
  Batch samples{.x = Numbers(golden_.at("salt"), batch * input.elements())};
  for (std::int64_t i = 0; i < batch; ++i) {
    samples.labels.push_back(static_cast<std::int32_t>(i * 3 % classes));
    samples.weights.push_back(1);
  }
  const auto optimizer = Optimizer::Create({.name = "SGD", .learning_rate = golden_.at("rate")},
                                           tested.model(), tested.backend());
  ASSERT_TRUE(optimizer.ok()) << optimizer.status();

  const LossTotals totals =
      tested.Step(samples, {.valid = batch}, 1.0f / static_cast<float>(batch));
  EXPECT_NEAR(totals.loss / static_cast<double>(batch), golden_.at("loss").get<double>(), 1e-4);
  const std::vector<float> logits = Download(
      tested.backend(),
      {const_cast<float*>(tested.model().logits()), static_cast<std::size_t>(batch * classes)});
  for (std::size_t i = 0; i < logits.size(); ++i) {
    EXPECT_NEAR(logits[i], golden_.at("logits")[i].get<double>(), 1e-3) << "logit " << i;
  }
  for (const auto& [name, parameter] : parameters.items()) {
    const std::vector<float> gradient = tested.Gradient(name);
    const double norm = parameter.at("norm");
    EXPECT_NEAR(NormOf(gradient), norm, 1e-3 * norm) << name;
    ExpectClose(name, "gradient", gradient, 1);
  }

  const OptimizerStep update{.learning_rate = golden_.at("rate")};
  tested.backend().Upload(&update, (*optimizer)->step(), sizeof(update));
  (*optimizer)->Step();
  for (const auto& [name, values] : before) {
    std::vector<float> change = tested.Parameter(name);
    for (std::size_t i = 0; i < change.size(); ++i) change[i] -= values[i];
    ExpectClose(name, "change", change, golden_.at("rate"));
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, ResNetGoldenTest, ::testing::Values("reference", "cpu"),
                         [](const auto& backend) { return backend.param; });

}  // namespace
}  // namespace lockstep::train
