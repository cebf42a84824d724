#include "trainer/optim/optimizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/trainer/backend/backends_under_test.h"
#include "tests/trainer/nn/tested_model.h"
#include "trainer/check/device_array.h"

namespace lockstep::train {
namespace {

class OptimizerTest : public ::testing::Test {
 protected:
  std::unique_ptr<Optimizer> Make(const api::OptimizerSpec& spec) {
    return Optimizer::Create(spec, tested_.model(), tested_.backend()).value();
  }
  std::string FaultOf(const api::OptimizerSpec& spec) {
    const auto made = Optimizer::Create(spec, tested_.model(), tested_.backend());
    return made.ok() ? "no fault" : std::string(made.status().message());
  }

  // Requires: the back end is a host's.
  static void Step(Optimizer& optimizer, double rate, std::int64_t step, double scale = 1) {
    *optimizer.step() = {.learning_rate = static_cast<float>(rate),
                         .step = step,
                         .gradient_scale = static_cast<float>(scale)};
    optimizer.Step();
  }

  TestedModel tested_{{LayerJson("Flatten"), LayerJson("Dense", {{"units", 3}})},
                      {.batch = 2, .input = {1, 2, 2}, .classes = 3}};
};

TEST_F(OptimizerTest, SlotsAreNamedAndLieParallelToTheParameters) {
  const auto adam = Make({.name = "Adam"});
  EXPECT_THAT(adam->slot_names(), ::testing::ElementsAre("m", "v"));
  for (int i = 0; i < adam->slots(); ++i) {
    EXPECT_EQ(adam->slot(i).size(), tested_.model().parameters().size());
    for (const float value : adam->slot(i)) EXPECT_EQ(value, 0);
  }
  EXPECT_NE(adam->slot(0).data(), adam->slot(1).data());
  EXPECT_THAT(Make({.name = "SGD", .momentum = 0.9})->slot_names(),
              ::testing::ElementsAre("momentum"));
  EXPECT_EQ(Make({.name = "SGD"})->slots(), 0);
  EXPECT_THAT(Make({.name = "RMSprop"})->slot_names(), ::testing::ElementsAre("square"));
  EXPECT_THAT(Make({.name = "RMSprop", .momentum = 0.9})->slot_names(),
              ::testing::ElementsAre("square", "momentum"));
  EXPECT_THAT(Make({.name = "Adagrad"})->slot_names(), ::testing::ElementsAre("accumulator"));
  EXPECT_THAT(Make({.name = "LARS", .momentum = 0.9})->slot_names(),
              ::testing::ElementsAre("momentum"));
  EXPECT_EQ(Make({.name = "LARS"})->slots(), 0);
  EXPECT_THAT(Make({.name = "LAMB"})->slot_names(), ::testing::ElementsAre("m", "v"));
  EXPECT_THAT(Make({.name = "Muon"})->slot_names(), ::testing::ElementsAre("m", "v"));
}

TEST_F(OptimizerTest, SlotsBeginAsTheRuleSaysAndAreResetToThat) {
  const auto adagrad = Make({.name = "Adagrad", .initial_accumulator_value = 0.25});
  const auto rmsprop = Make({.name = "RMSprop", .momentum = 0.9});
  const auto expect_start = [&] {
    EXPECT_THAT(adagrad->slot(0), ::testing::Each(0.25f));
    EXPECT_THAT(rmsprop->slot(0), ::testing::Each(0.0f));
    EXPECT_THAT(rmsprop->slot(1), ::testing::Each(0.0f));
  };
  expect_start();
  std::fill(tested_.model().gradients().begin(), tested_.model().gradients().end(), 2.0f);
  Step(*adagrad, 0.1, 1);
  Step(*rmsprop, 0.1, 1);
  EXPECT_THAT(adagrad->slot(0), ::testing::Each(4.25f));
  EXPECT_THAT(rmsprop->slot(1), ::testing::Each(::testing::Gt(0.0f)));
  adagrad->ResetSlots();
  rmsprop->ResetSlots();
  expect_start();
}

// More floats than are uploaded at a time, on a device whose memory the host cannot read.
TEST(OptimizerSlotsTest, ALargeSlotOfADeviceBeginsAsTheRuleSays) {
  TestedModel tested({LayerJson("Flatten"), LayerJson("Dense", {{"units", 70}})},
                     {.batch = 2, .input = {1, 40, 50}, .classes = 70}, "async-reference");
  const auto adagrad = Optimizer::Create({.name = "Adagrad", .initial_accumulator_value = 0.25},
                                         tested.model(), tested.backend())
                           .value();
  std::vector<float> found(adagrad->slot(0).size());
  ASSERT_GT(found.size(), 2u * 65'536);
  tested.backend().Download(adagrad->slot(0).data(), found.data(), found.size() * sizeof(float));
  EXPECT_THAT(found, ::testing::Each(0.25f));
}

TEST_F(OptimizerTest, TheAverageIsTheLastSlotAndBeginsAsTheParameters) {
  const auto parameters = tested_.model().parameters(), gradients = tested_.model().gradients();
  std::fill(parameters.begin(), parameters.end(), 1.0f);
  const auto adam = Optimizer::Create({.name = "Adam"}, tested_.model(), tested_.backend(),
                                      OptimizerRole::kUpdates, api::EmaSpec{.decay = 0.75})
                        .value();
  EXPECT_THAT(adam->slot_names(), ::testing::ElementsAre("m", "v", "average"));
  EXPECT_TRUE(adam->has_average());
  EXPECT_EQ(adam->average().data(), adam->slot(2).data());
  EXPECT_THAT(adam->average(), ::testing::Each(1.0f));
  std::fill(gradients.begin(), gradients.end(), 2.0f);
  Step(*adam, 0.5, 1);
  const float moved = parameters[0];
  EXPECT_NEAR(moved, 0.5f, 1e-4f);
  EXPECT_THAT(adam->average(), ::testing::Each(::testing::FloatNear(0.75f + 0.25f * moved, 1e-6f)));
  std::fill(parameters.begin(), parameters.end(), 3.0f);
  adam->ResetSlots();
  EXPECT_THAT(adam->average(), ::testing::Each(3.0f));
  EXPECT_THAT(adam->slot(0), ::testing::Each(0.0f));
  EXPECT_FALSE(Make({.name = "Adam"})->has_average());
  EXPECT_TRUE(Make({.name = "Adam"})->average().empty());
}

TEST_F(OptimizerTest, AnUpdateThatDoesNotApplyDoesNotMoveTheAverage) {
  std::ranges::fill(tested_.model().parameters(), 1.0f);
  const auto sgd = Optimizer::Create({.name = "SGD"}, tested_.model(), tested_.backend(),
                                     OptimizerRole::kUpdates, api::EmaSpec{.decay = 0.75})
                       .value();
  std::ranges::fill(tested_.model().parameters(), 2.0f);
  *sgd->step() = {.applies = false, .learning_rate = 1};
  sgd->Step();
  EXPECT_THAT(sgd->average(), ::testing::Each(1.0f));
  *sgd->step() = {.applies = true, .learning_rate = 0};
  sgd->Step();
  EXPECT_THAT(sgd->average(), ::testing::Each(1.25f));
}

TEST_F(OptimizerTest, ADecayOutOfRangeIsRefused) {
  for (const double decay : {0.0, 1.0, -0.5, 0.999999999}) {
    const auto made = Optimizer::Create({.name = "SGD"}, tested_.model(), tested_.backend(),
                                        OptimizerRole::kUpdates, api::EmaSpec{.decay = decay});
    EXPECT_THAT(std::string(made.status().message()), ::testing::HasSubstr("ema.decay: found "));
  }
}

class AverageOnBackendsTest : public ::testing::TestWithParam<std::string> {};

// A plain loop over what the values were, to the bit; the third update does not apply.
TEST_P(AverageOnBackendsTest, FollowsTheUpdatedValues) {
  constexpr std::int64_t kSize = 1003;
  const auto backend = MakeBackend({.name = GetParam()});
  const OptimizerRuleOp rule =
      MakeOptimizerRule({.name = "Adam"}, api::EmaSpec{.decay = 0.75}, *backend).value();
  std::vector<float> expected(kSize, 1.0f);
  const std::vector<float> zeros(kSize);
  const DeviceArray<float> values(*backend, expected), average(*backend, expected);
  const DeviceArray<float> m(*backend, zeros), v(*backend, zeros);
  DeviceArray<float> gradients(*backend, zeros);
  DeviceArray<OptimizerStep> step(*backend, {OptimizerStep{}});
  rule.op->Bind({.values = values.data(),
                 .gradients = gradients.data(),
                 .slots = {m.data(), v.data(), average.data()},
                 .size = kSize,
                 .segments = {},
                 .step = step.data()});
  for (std::int64_t i = 1; i <= 5; ++i) {
    std::vector<float> gradient(kSize);
    for (std::size_t j = 0; j < gradient.size(); ++j) {
      gradient[j] = static_cast<float>(j) - 200 * static_cast<float>(i);
    }
    gradients.Set(gradient);
    step.Set({{.applies = i != 3, .learning_rate = 0.1f, .step = i}});
    rule.op->Step();
    const std::vector<float> now = values.Values();
    for (std::size_t j = 0; i != 3 && j < now.size(); ++j) {
      const float kept = 0.75f * expected[j], fresh = 0.25f * now[j];
      expected[j] = kept + fresh;
    }
    EXPECT_EQ(average.Values(), expected) << "update " << i;
  }
  EXPECT_NE(values.Values(), expected);
}

INSTANTIATE_TEST_SUITE_P(Backends, AverageOnBackendsTest, ::testing::ValuesIn(kBackendsUnderTest),
                         [](const auto& backend) { return TestName(backend.param); });

// More than is exchanged at a time, on a device whose memory the host cannot read.
TEST(OptimizerSlotsTest, TheAverageTakesTheParametersPlaceAndGivesItBack) {
  TestedModel tested({LayerJson("Flatten"), LayerJson("Dense", {{"units", 300}})},
                     {.batch = 2, .input = {1, 40, 50}, .classes = 300}, "async-reference");
  const std::span<float> parameters = tested.model().parameters();
  ASSERT_GT(parameters.size(), 2u << 18U);
  std::vector<float> trained(parameters.size()), other(parameters.size());
  for (std::size_t i = 0; i < trained.size(); ++i) {
    trained[i] = static_cast<float>(i);
    other[i] = -1 - static_cast<float>(i);
  }
  const auto sgd = Optimizer::Create({.name = "SGD"}, tested.model(), tested.backend(),
                                     OptimizerRole::kUpdates, api::EmaSpec{})
                       .value();
  tested.backend().Upload(trained.data(), parameters.data(), parameters.size_bytes());
  tested.backend().Upload(other.data(), sgd->average().data(), parameters.size_bytes());
  const auto content = [&](std::span<const float> range) {
    std::vector<float> found(range.size());
    tested.backend().Download(range.data(), found.data(), range.size_bytes());
    return found;
  };
  {
    const AverageInPlace in_place(*sgd);
    EXPECT_EQ(sgd->average().data(), parameters.data());
    EXPECT_EQ(content(parameters), other);
    EXPECT_EQ(content(sgd->trained()), trained);
  }
  EXPECT_EQ(sgd->trained().data(), parameters.data());
  EXPECT_EQ(content(parameters), trained);
  EXPECT_EQ(content(sgd->average()), other);
}

TEST_F(OptimizerTest, StepMovesParametersAgainstTheirGradients) {
  const auto sgd = Make({.name = "SGD"});
  std::fill(tested_.model().parameters().begin(), tested_.model().parameters().end(), 1.0f);
  std::fill(tested_.model().gradients().begin(), tested_.model().gradients().end(), 2.0f);
  Step(*sgd, 0.25, 1);
  for (const float value : tested_.model().parameters()) EXPECT_EQ(value, 0.5f);
}

TEST_F(OptimizerTest, RebindFollowsTheGradients) {
  const auto sgd = Make({.name = "SGD"});
  Arena arena;
  arena.Reserve(tested_.model().parameters().size_bytes());
  arena.Allocate();
  tested_.model().BindGradients(arena.At<float>(0));
  sgd->Rebind();
  std::fill(tested_.model().parameters().begin(), tested_.model().parameters().end(), 1.0f);
  std::fill(tested_.model().gradients().begin(), tested_.model().gradients().end(), 4.0f);
  Step(*sgd, 0.25, 1);
  for (const float value : tested_.model().parameters()) EXPECT_EQ(value, 0.0f);
}

TEST_F(OptimizerTest, SlotsRestoredMidwayGiveTheSameBits) {
  const api::OptimizerSpec spec{.name = "Adam"};
  const auto gradients = tested_.model().gradients();
  const auto parameters = tested_.model().parameters();
  const auto run = [&](Optimizer& optimizer, std::int64_t first, std::int64_t last) {
    for (std::int64_t step = first; step <= last; ++step) {
      std::fill(gradients.begin(), gradients.end(), 1.0f / static_cast<float>(step));
      Step(optimizer, 0.1, step);
    }
  };
  const std::vector<float> start(parameters.begin(), parameters.end());
  run(*Make(spec), 1, 6);
  const std::vector<float> expected(parameters.begin(), parameters.end());

  std::copy(start.begin(), start.end(), parameters.begin());
  const auto before = Make(spec), after = Make(spec);
  run(*before, 1, 3);
  for (int i = 0; i < before->slots(); ++i) {
    std::copy(before->slot(i).begin(), before->slot(i).end(), after->slot(i).begin());
  }
  run(*after, 4, 6);
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), parameters.begin()));
}

TEST_F(OptimizerTest, TheGradientIsScaledFirst) {
  const auto parameters = tested_.model().parameters(), gradients = tested_.model().gradients();
  for (const char* name : {"SGD", "Adam", "RMSprop", "Adagrad", "LARS", "LAMB", "Muon"}) {
    const auto scaled = Make({.name = name}), plain = Make({.name = name});
    std::fill(parameters.begin(), parameters.end(), 1.0f);
    std::fill(gradients.begin(), gradients.end(), 2.0f);
    Step(*scaled, 0.25, 1, 0.5);
    const std::vector<float> found(parameters.begin(), parameters.end());
    std::fill(parameters.begin(), parameters.end(), 1.0f);
    std::fill(gradients.begin(), gradients.end(), 1.0f);
    Step(*plain, 0.25, 1);
    EXPECT_TRUE(std::equal(found.begin(), found.end(), parameters.begin())) << name;
  }
}

TEST_F(OptimizerTest, AnExcludedParameterDoesNotDecay) {
  const Model& model = tested_.model();
  const auto parameters = tested_.model().parameters(), gradients = tested_.model().gradients();
  for (const char* name : {"SGD", "Adam", "RMSprop", "Adagrad", "Muon"}) {
    const auto optimizer =
        Make({.name = name, .weight_decay = 0.5, .weight_decay_exclude = {"bias"}});
    std::fill(parameters.begin(), parameters.end(), 1.0f);
    std::fill(gradients.begin(), gradients.end(), 0.0f);
    Step(*optimizer, 0.5, 1);
    for (const TensorSlot& slot : model.parameter_slots()) {
      const bool is_bias = slot.name == "dense/bias";
      EXPECT_EQ(parameters[static_cast<std::size_t>(slot.offset)], is_bias ? 1.0f : 0.75f)
          << name << ", " << slot.name;
    }
  }
}

// Weights of 2 with gradients of 3, biases of 4 with gradients of 50. Adam's first step is 1.
TEST_F(OptimizerTest, LarsAndLambScaleTheStepOfEachTensorByItsOwnNorm) {
  const Model& model = tested_.model();
  const auto parameters = tested_.model().parameters(), gradients = tested_.model().gradients();
  const auto expect_steps = [&](const api::OptimizerSpec& spec, float of_weight, float of_bias) {
    std::ranges::fill(parameters, 0.0f);
    std::ranges::fill(gradients, 0.0f);
    for (const TensorSlot& slot : model.parameter_slots()) {
      const bool is_bias = slot.name == "dense/bias";
      const auto begin = static_cast<std::size_t>(slot.offset);
      const auto size = static_cast<std::size_t>(slot.desc.shape.elements());
      std::ranges::fill(parameters.subspan(begin, size), is_bias ? 4.0f : 2.0f);
      std::ranges::fill(gradients.subspan(begin, size), is_bias ? 50.0f : 3.0f);
    }
    Step(*Make(spec), 0.5, 1);
    for (const TensorSlot& slot : model.parameter_slots()) {
      const bool is_bias = slot.name == "dense/bias";
      const float value = parameters[static_cast<std::size_t>(slot.offset)];
      EXPECT_NEAR((is_bias ? 4 : 2) - value, is_bias ? of_bias : of_weight, 1e-5)
          << spec.name << ", " << slot.name;
    }
  };
  expect_steps({.name = "LARS", .trust_coefficient = 0.1}, 0.5f * 0.1f * 2, 0.5f * 0.1f * 4);
  expect_steps({.name = "LARS", .trust_coefficient = 0.1, .weight_decay_exclude = {"bias"}},
               0.5f * 0.1f * 2, 0.5f * 50);
  expect_steps({.name = "LAMB"}, 0.5f * 2, 0.5f * 4);
  expect_steps({.name = "LAMB", .weight_decay = 3, .weight_decay_exclude = {"bias"}}, 0.5f * 2,
               0.5f * 1);
}

// A tensor whose values are all 0 would never move otherwise.
TEST_F(OptimizerTest, ATensorOfZerosHasATrustOfOne) {
  const auto parameters = tested_.model().parameters(), gradients = tested_.model().gradients();
  std::ranges::fill(parameters, 0.0f);
  std::ranges::fill(gradients, 3.0f);
  Step(*Make({.name = "LARS"}), 0.5, 1);
  EXPECT_EQ(parameters[0], -1.5f);
  std::ranges::fill(gradients, 0.0f);
  Step(*Make({.name = "LARS"}), 0.5, 1);
  EXPECT_EQ(parameters[0], -1.5f) << "no gradient, no step";
}

TEST(OptimizerSegmentsTest, AModelWithoutParametersHasNone) {
  for (const char* backend : {"cpu", "reference"}) {
    TestedModel tested({LayerJson("GlobalAveragePooling2D")},
                       {.batch = 2, .input = {3, 2, 2}, .classes = 3}, backend);
    for (const char* name : {"SGD", "LARS", "LAMB", "Muon"}) {
      const auto optimizer =
          Optimizer::Create({.name = name}, tested.model(), tested.backend()).value();
      *optimizer->step() = {.learning_rate = 0.5f, .step = 1};
      optimizer->Step();
    }
  }
}

TEST_F(OptimizerTest, FaultsNameTheField) {
  EXPECT_EQ(FaultOf({.name = "Lion"}),
            "optimizer.name: found \"Lion\", expected \"Adam\", \"SGD\", \"RMSprop\", \"Adagrad\", "
            "\"LARS\", \"LAMB\" or \"Muon\"");
  EXPECT_EQ(FaultOf({.name = "LARS", .trust_coefficient = 0}),
            "optimizer.trustCoefficient: found 0, expected above 0 and finite as a 32-bit float");
  EXPECT_EQ(FaultOf({.name = "SGD", .momentum = 1.0}),
            "optimizer.momentum: found 1, expected [0, 1) as a 32-bit float");
  EXPECT_EQ(FaultOf({.name = "Adam", .beta2 = -0.5}),
            "optimizer.beta2: found -0.5, expected [0, 1) as a 32-bit float");
  EXPECT_EQ(FaultOf({.name = "Adam", .epsilon = 0}),
            "optimizer.epsilon: found 0, expected above 0 and finite as a 32-bit float");
  EXPECT_EQ(FaultOf({.name = "RMSprop", .rho = 1}),
            "optimizer.rho: found 1, expected [0, 1) as a 32-bit float");
  EXPECT_EQ(FaultOf({.name = "RMSprop", .epsilon = 0}),
            "optimizer.epsilon: found 0, expected above 0 and finite as a 32-bit float");
  EXPECT_EQ(FaultOf({.name = "Adagrad", .initial_accumulator_value = -1}),
            "optimizer.initialAccumulatorValue: found -1, expected at least 0 and finite as a "
            "32-bit float");
  EXPECT_EQ(FaultOf({.name = "SGD", .weight_decay = -1}),
            "optimizer.weightDecay: found -1, expected at least 0 and finite as a 32-bit float");
  EXPECT_EQ(FaultOf({.weight_decay = 0.1, .weight_decay_exclude = {"bias", "gamma"}}),
            "optimizer.weightDecayExclude[1]: found \"gamma\", expected a part of a parameter's "
            "name, such as \"dense/bias\"");
  EXPECT_EQ(FaultOf({.name = "Muon", .exclude_layers = {"weight", "dense_1"}}),
            "optimizer.excludeLayers[1]: found \"dense_1\", expected a part of a matrix's name, "
            "such as \"dense/weight\"");
  EXPECT_EQ(FaultOf({.name = "Muon", .exclude_layers = {"bias"}}),
            "optimizer.excludeLayers[0]: found \"bias\", expected a part of a matrix's name, such "
            "as \"dense/weight\"")
      << "AdamW updates it anyway";
  EXPECT_EQ(FaultOf({.name = "Muon", .adam_lr_ratio = 0}),
            "optimizer.adamLrRatio: found 0, expected above 0 and finite as a 32-bit float");
}

TEST_F(OptimizerTest, AnExcludedMatrixOfMuonDoesNotDecay) {
  const auto parameters = tested_.model().parameters();
  const auto optimizer =
      Make({.name = "Muon", .weight_decay = 0.5, .weight_decay_exclude = {"weight"}});
  std::ranges::fill(parameters, 1.0f);
  std::ranges::fill(tested_.model().gradients(), 0.0f);
  Step(*optimizer, 0.5, 1);
  for (const TensorSlot& slot : tested_.model().parameter_slots()) {
    EXPECT_EQ(parameters[static_cast<std::size_t>(slot.offset)],
              slot.name == "dense/weight" ? 1.0f : 0.75f)
        << slot.name;
  }
}

TEST_F(OptimizerTest, MuonIsAdamWhereThereIsNoMatrix) {
  const auto parameters = tested_.model().parameters(), gradients = tested_.model().gradients();
  const auto after_a_step = [&](const api::OptimizerSpec& spec) {
    std::ranges::fill(parameters, 1.0f);
    std::ranges::fill(gradients, 2.0f);
    Step(*Make(spec), 0.25, 1);
    return std::vector<float>(parameters.begin(), parameters.end());
  };
  const std::vector<float> adam = after_a_step({.name = "Adam"});
  EXPECT_EQ(after_a_step({.name = "Muon", .exclude_layers = {"dense/weight"}}), adam);
  const std::vector<float> muon = after_a_step({.name = "Muon"});
  for (const TensorSlot& slot : tested_.model().parameter_slots()) {
    const auto first = static_cast<std::size_t>(slot.offset);
    EXPECT_EQ(muon[first] == adam[first], slot.name == "dense/bias") << slot.name;
  }
}

// The updates are of floats, in which these are 1, 0 and infinity.
TEST_F(OptimizerTest, RangesAreThoseOfFloats) {
  EXPECT_EQ(FaultOf({.name = "Adam", .beta1 = 0.99999999}),
            "optimizer.beta1: found 0.99999999, expected [0, 1) as a 32-bit float");
  EXPECT_EQ(FaultOf({.name = "Adam", .epsilon = 1e-46}),
            "optimizer.epsilon: found 1e-46, expected above 0 and finite as a 32-bit float");
  EXPECT_EQ(FaultOf({.name = "Adam", .epsilon = 1e39}),
            "optimizer.epsilon: found 1e+39, expected above 0 and finite as a 32-bit float");
  EXPECT_EQ(FaultOf({.name = "SGD", .weight_decay = 1e39}),
            "optimizer.weightDecay: found 1e+39, expected at least 0 and finite as a 32-bit float");
  EXPECT_EQ(FaultOf({.name = "SGD", .momentum = 0.99999999}),
            "optimizer.momentum: found 0.99999999, expected [0, 1) as a 32-bit float");
  EXPECT_EQ(Make({.name = "SGD", .momentum = 1e-46})->slots(), 0) << "as without momentum";
}

}  // namespace
}  // namespace lockstep::train
