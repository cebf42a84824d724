// Every back end, `reference` included, against what PyTorch or Keras computed.
#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <tuple>

#include "tests/trainer/backend/backends_under_test.h"
#include "tests/trainer/backend/golden_file.h"
#include "trainer/backend/activation_names.h"
#include "trainer/check/run_loss.h"
#include "trainer/check/run_op.h"

namespace lockstep::train {
namespace {

using nlohmann::json;

Padding PaddingOf(const json& spec) {
  return spec.at("padding") == "same" ? Padding::kSame : Padding::kValid;
}

std::unique_ptr<Op> MakeOp(Backend& backend, const json& golden) {
  const std::string op = golden.at("op");
  const json& spec = golden.at("spec");
  const TensorDesc x{.shape = GoldenShape(golden.at("x"))};
  if (op == "conv2d") {
    return backend.MakeOp(Conv2dSpec{.x = x,
                                     .filters = spec.at("filters"),
                                     .kernel_h = spec.at("kernel")[0],
                                     .kernel_w = spec.at("kernel")[1],
                                     .stride_h = spec.at("strides")[0],
                                     .stride_w = spec.at("strides")[1],
                                     .padding = PaddingOf(spec),
                                     .relu = spec.at("relu")});
  }
  if (op == "depthwise_conv2d") {
    return backend.MakeOp(DepthwiseConv2dSpec{.x = x,
                                              .depth_multiplier = spec.at("multiplier"),
                                              .kernel_h = spec.at("kernel")[0],
                                              .kernel_w = spec.at("kernel")[1],
                                              .stride_h = spec.at("strides")[0],
                                              .stride_w = spec.at("strides")[1],
                                              .padding = PaddingOf(spec)});
  }
  if (op == "dense") {
    return backend.MakeOp(DenseSpec{.x = x, .units = spec.at("units"), .relu = spec.at("relu")});
  }
  if (op == "pool2d") {
    return backend.MakeOp(
        Pool2dSpec{.x = x,
                   .kind = spec.at("kind") == "max" ? PoolKind::kMax : PoolKind::kAverage,
                   .window_h = spec.at("window")[0],
                   .window_w = spec.at("window")[1],
                   .stride_h = spec.at("strides")[0],
                   .stride_w = spec.at("strides")[1],
                   .padding = PaddingOf(spec)});
  }
  if (op == "global_average_pool2d") return backend.MakeOp(GlobalAveragePool2dSpec{.x = x});
  for (const NamedActivation& entry : kActivations) {
    if (op == entry.name) {
      return backend.MakeOp(ActivationSpec{.x = x, .activation = entry.activation});
    }
  }
  if (op == "layer_norm") {
    return backend.MakeOp(LayerNormSpec{.x = x, .epsilon = spec.at("epsilon")});
  }
  LOCKSTEP_CHECK(op == "batch_norm", "golden file: unknown op {}", op);
  return backend.MakeOp(
      BatchNormSpec{.x = x, .momentum = spec.at("momentum"), .epsilon = spec.at("epsilon")});
}

void ExpectClose(const std::vector<float>& found, const std::vector<float>& expected,
                 const std::string& what) {
  ASSERT_EQ(found.size(), expected.size()) << what;
  for (std::size_t i = 0; i < found.size(); ++i) {
    ASSERT_NEAR(found[i], expected[i], 1e-5) << what << "[" << i << "]";
  }
}

void ExpectClose(const std::vector<std::vector<float>>& found, const json& expected,
                 const std::string& what) {
  ASSERT_EQ(found.size(), expected.size()) << what;
  for (std::size_t i = 0; i < found.size(); ++i) {
    ExpectClose(found[i], GoldenValues(expected[i]), what + " " + std::to_string(i));
  }
}

class GoldenOpTest : public ::testing::TestWithParam<std::tuple<std::string, std::string>> {};

TEST_P(GoldenOpTest, ForwardAndGradientsAreTheirs) {
  const auto& [name, file] = GetParam();
  const json golden = GoldenFile(file);
  const auto backend = MakeBackend({.name = name});
  const auto op = MakeOp(*backend, golden);
  ASSERT_EQ(op->output().shape, GoldenShape(golden.at("y")));
  const OpOutputs outputs = RunOp(*backend, *op,
                                  {.x = GoldenValues(golden.at("x")),
                                   .dy = GoldenValues(golden.at("dy")),
                                   .parameters = GoldenTensors(golden.at("parameters")),
                                   .states = GoldenTensors(golden.at("states"))},
                                  {.training = true, .valid = op->input().shape[0]});
  ExpectClose(outputs.y, GoldenValues(golden.at("y")), "y");
  ExpectClose(outputs.dx, GoldenValues(golden.at("dx")), "dx");
  ExpectClose(outputs.gradients, golden.at("gradients"), "gradient");
  ExpectClose(outputs.states, golden.at("states_after"), "state");
}

class GoldenLossTest : public ::testing::TestWithParam<std::string> {
 protected:
  void Compare(const std::string& name, LossInputs inputs) {
    inputs.logits = GoldenValues(golden_.at("logits"));
    inputs.weights = golden_.at("weights").get<std::vector<float>>();
    const auto backend = MakeBackend({.name = GetParam()});
    const LossOutputs found = RunLoss(*backend, inputs, golden_.at("scale"));
    const json& expected = golden_.at(name);
    EXPECT_NEAR(found.totals.loss, expected.at("loss"), 2e-5);
    EXPECT_NEAR(found.totals.correct, expected.at("correct"), 1e-6);
    ExpectClose(found.dlogits, GoldenValues(expected.at("dlogits")), "dlogits");
  }

  json golden_ = GoldenFile("softmax_cross_entropy");
};

TEST_P(GoldenLossTest, OfLabels) {
  Compare("with_labels", {.logits = {},
                          .labels = golden_.at("labels").get<std::vector<std::int32_t>>(),
                          .weights = {}});
}

TEST_P(GoldenLossTest, OfSoftTargets) {
  Compare("with_soft", {.logits = {}, .targets = GoldenValues(golden_.at("soft")), .weights = {}});
}

// What Keras computed: tests/golden/generate_keras.py.
class SmoothedGoldenLossTest : public GoldenLossTest {
 protected:
  SmoothedGoldenLossTest() { golden_ = GoldenFile("label_smoothing"); }
};

TEST_P(SmoothedGoldenLossTest, OfLabels) {
  Compare("with_labels", {.logits = {},
                          .labels = golden_.at("labels").get<std::vector<std::int32_t>>(),
                          .weights = {},
                          .label_smoothing = golden_.at("smoothing")});
}

TEST_P(SmoothedGoldenLossTest, OfSoftTargets) {
  Compare("with_soft", {.logits = {},
                        .targets = GoldenValues(golden_.at("soft")),
                        .weights = {},
                        .label_smoothing = golden_.at("smoothing")});
}

class GoldenElementwiseLossTest : public ::testing::TestWithParam<std::string> {
 protected:
  void Compare(const std::string& name, const ElementwiseLossSpec& spec) const {
    const LossInputs inputs{.logits = GoldenValues(golden_.at("logits")),
                            .targets = GoldenValues(golden_.at("targets")),
                            .weights = golden_.at("weights").get<std::vector<float>>()};
    const auto backend = MakeBackend({.name = GetParam()});
    const LossOutputs found = RunElementwiseLoss(*backend, spec, inputs, golden_.at("scale"));
    const json& expected = golden_.at(name);
    EXPECT_NEAR(found.totals.loss, expected.at("loss"), 2e-5) << name;
    EXPECT_NEAR(found.totals.correct, expected.at("correct"), 2e-6) << name;
    ExpectClose(found.dlogits, GoldenValues(expected.at("dlogits")), name);
  }

  const json golden_ = GoldenFile("losses_of_numbers");
};

TEST_P(GoldenElementwiseLossTest, IsThatOfPyTorch) {
  Compare("binary", {.loss = ElementwiseLoss::kBinaryCrossEntropy});
  Compare("smoothed", {.loss = ElementwiseLoss::kBinaryCrossEntropy,
                       .label_smoothing = golden_.at("smoothing")});
  Compare("squared", {.loss = ElementwiseLoss::kSquaredError});
  Compare("absolute", {.loss = ElementwiseLoss::kAbsoluteError});
  Compare("huber", {.loss = ElementwiseLoss::kHuber, .delta = golden_.at("delta")});
}

std::vector<std::string> AllBackends() {
  std::set<std::string> names(kBackendsUnderTest.begin(), kBackendsUnderTest.end());
  names.insert("reference");
  return {names.begin(), names.end()};
}

INSTANTIATE_TEST_SUITE_P(
    Files, GoldenOpTest,
    ::testing::Combine(::testing::ValuesIn(AllBackends()),
                       ::testing::Values("conv2d_valid", "conv2d_same_relu", "conv2d_same_strided",
                                         "dense", "dense_relu", "pool2d_max_valid",
                                         "pool2d_max_same", "pool2d_average_valid",
                                         "pool2d_average_same", "global_average_pool2d",
                                         "batch_norm_image", "batch_norm_matrix",
                                         "layer_norm_image", "layer_norm_matrix",
                                         "depthwise_conv2d_valid", "depthwise_conv2d_same_strided",
                                         "depthwise_conv2d_multiplied")),
    [](const auto& golden) {
      return TestName(std::get<0>(golden.param)) + "_" + std::get<1>(golden.param);
    });
std::vector<std::string> ActivationFiles() {
  std::vector<std::string> files;
  for (const NamedActivation& entry : kActivations) files.emplace_back(entry.name);
  return files;
}
INSTANTIATE_TEST_SUITE_P(Activations, GoldenOpTest,
                         ::testing::Combine(::testing::ValuesIn(AllBackends()),
                                            ::testing::ValuesIn(ActivationFiles())),
                         [](const auto& golden) {
                           return TestName(std::get<0>(golden.param)) + "_" +
                                  std::get<1>(golden.param);
                         });
INSTANTIATE_TEST_SUITE_P(Backends, GoldenLossTest, ::testing::ValuesIn(AllBackends()),
                         [](const auto& backend) { return TestName(backend.param); });
INSTANTIATE_TEST_SUITE_P(Backends, GoldenElementwiseLossTest, ::testing::ValuesIn(AllBackends()),
                         [](const auto& backend) { return TestName(backend.param); });
INSTANTIATE_TEST_SUITE_P(Backends, SmoothedGoldenLossTest, ::testing::ValuesIn(AllBackends()),
                         [](const auto& backend) { return TestName(backend.param); });

}  // namespace
}  // namespace lockstep::train
