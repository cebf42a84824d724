// The first losses of small models are those of PyTorch, on every back end and optimizer.
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <tuple>

#include "tests/trainer/backend/backends_under_test.h"
#include "tests/trainer/backend/golden_file.h"
#include "tests/trainer/nn/tested_model.h"
#include "trainer/optim/optimizer.h"

namespace lockstep::train {
namespace {

using nlohmann::json;

api::OptimizerSpec SpecOf(const json& spec) {
  const api::OptimizerSpec defaults;
  return {.name = spec.at("name"),
          .learning_rate = spec.at("learningRate"),
          .momentum = spec.value("momentum", 0.0),
          .nesterov = spec.value("nesterov", false),
          .beta1 = spec.value("beta1", defaults.beta1),
          .beta2 = spec.value("beta2", defaults.beta2),
          .epsilon = spec.value("epsilon", defaults.epsilon),
          .weight_decay = spec.at("weightDecay")};
}

class GoldenLossesTest
    : public ::testing::TestWithParam<std::tuple<std::string, std::string, std::string>> {};

TEST_P(GoldenLossesTest, AreThoseOfPyTorch) {
  const auto& [backend, file, run_name] = GetParam();
  const json golden = GoldenFile(file);
  const json& run = golden.at("runs").at(run_name);
  const Shape x = GoldenShape(golden.at("x"));
  TestedModel tested(golden.at("layers"),
                     {.batch = x[0], .input = {x[1], x[2], x[3]}, .classes = golden.at("classes")},
                     backend);
  for (const auto& parameter : golden.at("parameters").items()) {
    tested.SetParameter(parameter.key(), GoldenValues(parameter.value()));
  }
  const Batch batch{.x = GoldenValues(golden.at("x")),
                    .labels = golden.at("labels"),
                    .weights = std::vector<float>(static_cast<std::size_t>(x[0]), 1.0f)};
  const api::OptimizerSpec spec = SpecOf(run.at("optimizer"));
  const auto optimizer = Optimizer::Create(spec, tested.model(), tested.backend()).value();
  const std::vector<double> losses = run.at("losses");
  ASSERT_GE(losses.size(), 10u);
  ASSERT_LT(losses.back(), 0.9 * losses[0]) << "the run is one that learns";
  const double rows = static_cast<double>(x[0]);
  for (std::size_t i = 0; i < losses.size(); ++i) {
    const double loss =
        tested.Step(batch, {.valid = x[0]}, static_cast<float>(1 / rows)).loss / rows;
    ASSERT_NEAR(loss, losses[i], 2e-5 * losses[i]) << "step " << i;
    const OptimizerStep settings{.learning_rate = static_cast<float>(spec.learning_rate),
                                 .step = static_cast<std::int64_t>(i) + 1};
    tested.backend().Upload(&settings, optimizer->step(), sizeof(settings));
    optimizer->Step();
  }
}

std::vector<std::string> AllBackends() {
  std::set<std::string> names(kBackendsUnderTest.begin(), kBackendsUnderTest.end());
  names.insert("reference");
  return {names.begin(), names.end()};
}

INSTANTIATE_TEST_SUITE_P(
    Runs, GoldenLossesTest,
    ::testing::Combine(::testing::ValuesIn(AllBackends()),
                       ::testing::Values("training_mlp", "training_cnn", "training_residual",
                                         "training_inception"),
                       ::testing::Values("sgd", "momentum", "nesterov", "adam", "adamw")),
    [](const auto& run) {
      return TestName(std::get<0>(run.param)) + "_" + std::get<1>(run.param) + "_" +
             std::get<2>(run.param);
    });

}  // namespace
}  // namespace lockstep::train
