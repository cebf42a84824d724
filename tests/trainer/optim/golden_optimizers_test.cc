// The updates are those of Keras, or of the papers' formulas in double, on every back end.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "tests/trainer/backend/backends_under_test.h"
#include "tests/trainer/backend/golden_file.h"
#include "tests/trainer/nn/tested_model.h"
#include "trainer/optim/optimizer.h"

namespace lockstep::train {
namespace {

using nlohmann::json;

api::OptimizerSpec RuleOf(const json& spec) {
  const api::OptimizerSpec defaults;
  return {.name = spec.at("name"),
          .learning_rate = spec.at("learningRate"),
          .momentum = spec.value("momentum", defaults.momentum),
          .nesterov = spec.value("nesterov", defaults.nesterov),
          .beta1 = spec.value("beta1", defaults.beta1),
          .beta2 = spec.value("beta2", defaults.beta2),
          .rho = spec.value("rho", defaults.rho),
          .epsilon = spec.value("epsilon", defaults.epsilon),
          .initial_accumulator_value =
              spec.value("initialAccumulatorValue", defaults.initial_accumulator_value),
          .trust_coefficient = spec.value("trustCoefficient", defaults.trust_coefficient),
          .muon_momentum = spec.value("muonMomentum", defaults.muon_momentum),
          .muon_nesterov = spec.value("muonNesterov", defaults.muon_nesterov),
          .adam_lr_ratio = spec.value("adamLrRatio", defaults.adam_lr_ratio),
          .exclude_layers = spec.value("excludeLayers", defaults.exclude_layers),
          .weight_decay = spec.value("weightDecay", defaults.weight_decay)};
}

class GoldenOptimizersTest : public ::testing::TestWithParam<std::tuple<std::string, std::string>> {
};

TEST_P(GoldenOptimizersTest, ValuesAreThoseOfTheGoldenFile) {
  const auto& [name, run_name] = GetParam();
  const json golden = GoldenFile("optimizers");
  const json& run = golden.at("runs").at(run_name);
  // A model for its memory, of which the golden values take the first floats.
  TestedModel tested({LayerJson("Flatten"), LayerJson("Dense", {{"units", 2}})},
                     {.batch = 1, .input = {1, 1, 3}, .classes = 2}, name);
  Backend& backend = tested.backend();
  const std::span<float> parameters = tested.model().parameters();
  std::vector<float> values = golden.at("start");
  ASSERT_LE(values.size(), parameters.size());
  values.resize(parameters.size());
  backend.Upload(values.data(), parameters.data(), parameters.size_bytes());
  const api::OptimizerSpec spec = RuleOf(run.at("optimizer"));
  const auto optimizer = Optimizer::Create(spec, tested.model(), backend).value();
  for (std::size_t i = 0; i < golden.at("gradients").size(); ++i) {
    std::vector<float> gradients = golden.at("gradients")[i];
    gradients.resize(parameters.size());
    const OptimizerStep settings{.learning_rate = static_cast<float>(spec.learning_rate),
                                 .step = static_cast<std::int64_t>(i) + 1};
    backend.Upload(gradients.data(), tested.model().gradients().data(), parameters.size_bytes());
    backend.Upload(&settings, optimizer->step(), sizeof(settings));
    optimizer->Step();
    backend.Download(parameters.data(), values.data(), parameters.size_bytes());
    const std::vector<float> expected = run.at("values")[i];
    for (std::size_t k = 0; k < expected.size(); ++k) {
      ASSERT_NEAR(values[k], expected[k], 1e-6) << "update " << i << ", value " << k;
    }
  }
}

std::vector<std::string> EachBackend() {
  std::set<std::string> names(kBackendsUnderTest.begin(), kBackendsUnderTest.end());
  names.insert("reference");
  return {names.begin(), names.end()};
}

INSTANTIATE_TEST_SUITE_P(Runs, GoldenOptimizersTest,
                         ::testing::Combine(::testing::ValuesIn(EachBackend()),
                                            ::testing::Values("rmsprop", "rmsprop_momentum",
                                                              "adagrad", "adagrad_decay", "lars",
                                                              "lars_momentum", "lars_nesterov",
                                                              "lamb", "lamb_decay")),
                         [](const auto& run) {
                           return TestName(std::get<0>(run.param)) + "_" + std::get<1>(run.param);
                         });

// A model with kernels of four axes, biases, and matrices that are wide, tall and of one row.
class GoldenMuonTest : public ::testing::TestWithParam<std::tuple<std::string, std::string>> {
 protected:
  // Tensors by name, where a model has them.
  std::vector<float> Flat(const json& tensors) {
    std::vector<float> flat(tested_.model().parameters().size());
    for (const TensorSlot& slot : tested_.model().parameter_slots()) {
      const std::vector<float> values = tensors.at(slot.name);
      EXPECT_EQ(std::ssize(values), slot.size) << slot.name;
      std::ranges::copy(values, flat.begin() + slot.offset);
    }
    return flat;
  }

  TestedModel tested_{{LayerJson("Conv2D", {{"filters", 2}, {"kernelSize", 2}}),
                       LayerJson("Flatten"), LayerJson("Dense", {{"units", 4}}),
                       LayerJson("Dense", {{"units", 6}}), LayerJson("Dense", {{"units", 1}})},
                      {.batch = 1, .input = {1, 3, 3}, .classes = 1},
                      std::get<0>(GetParam())};
};

TEST_P(GoldenMuonTest, ValuesAreThoseOfKeras) {
  const json golden = GoldenFile("muon");
  const json& run = golden.at("runs").at(std::get<1>(GetParam()));
  Backend& backend = tested_.backend();
  const std::span<float> parameters = tested_.model().parameters();
  std::vector<float> values = Flat(golden.at("start"));
  ASSERT_EQ(tested_.model().parameter_slots().size(), golden.at("start").size());
  backend.Upload(values.data(), parameters.data(), parameters.size_bytes());
  const api::OptimizerSpec spec = RuleOf(run.at("optimizer"));
  const auto optimizer = Optimizer::Create(spec, tested_.model(), backend).value();
  for (std::size_t i = 0; i < golden.at("gradients").size(); ++i) {
    const std::vector<float> gradients = Flat(golden.at("gradients")[i]);
    const OptimizerStep settings{.learning_rate = static_cast<float>(spec.learning_rate),
                                 .step = static_cast<std::int64_t>(i) + 1};
    backend.Upload(gradients.data(), tested_.model().gradients().data(), parameters.size_bytes());
    backend.Upload(&settings, optimizer->step(), sizeof(settings));
    optimizer->Step();
    backend.Download(parameters.data(), values.data(), parameters.size_bytes());
    const std::vector<float> expected = Flat(run.at("values")[i]);
    for (std::size_t k = 0; k < expected.size(); ++k) {
      ASSERT_NEAR(values[k], expected[k], 2e-6) << "update " << i << ", value " << k;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Runs, GoldenMuonTest,
                         ::testing::Combine(::testing::ValuesIn(EachBackend()),
                                            ::testing::Values("keras_defaults", "every_setting")),
                         [](const auto& run) {
                           return TestName(std::get<0>(run.param)) + "_" + std::get<1>(run.param);
                         });

}  // namespace
}  // namespace lockstep::train
