// What the graph contains. tests/peer/onnx_test.py runs such graphs in ONNX Runtime.
#include "trainer/export/onnx_model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>

#include <cstring>

#include "tests/trainer/export/exported.h"
#include "trainer/export/onnx.pb.h"

namespace lockstep::train {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Json = nlohmann::json;

ModelDescription Describe(const Json& layers, Shape input, std::int64_t outputs) {
  return {.layers = layers.get<std::vector<Json>>(), .input = std::move(input), .outputs = outputs};
}

onnx::ModelProto Export(const ModelDescription& model, OutputKind kind = OutputKind::kClassLogits) {
  const auto encoded = EncodeOnnx(model, TensorsOf(model, kind), "doc");
  EXPECT_TRUE(encoded.ok()) << encoded.status();
  onnx::ModelProto decoded;
  EXPECT_TRUE(decoded.ParseFromString(encoded.value_or("")));
  return decoded;
}

std::string TextOf(const onnx::AttributeProto& attribute) {
  switch (attribute.type()) {
    case onnx::AttributeProto::FLOAT:
      return fmt::format("{}={}", attribute.name(), attribute.f());
    case onnx::AttributeProto::INT:
      return fmt::format("{}={}", attribute.name(), attribute.i());
    default:
      return fmt::format("{}={}", attribute.name(), attribute.ints());
  }
}

// "y = Op(a, b) name=value": one line for each node.
std::vector<std::string> NodesOf(const onnx::ModelProto& model) {
  std::vector<std::string> lines;
  for (const onnx::NodeProto& node : model.graph().node()) {
    std::string line =
        fmt::format("{} = {}({})", node.output(0), node.op_type(), fmt::join(node.input(), ", "));
    for (const auto& attribute : node.attribute()) line += " " + TextOf(attribute);
    lines.push_back(line);
  }
  return lines;
}

std::vector<std::string> NodesOf(const Json& layers, const Shape& input, std::int64_t outputs) {
  return NodesOf(Export(Describe(layers, input, outputs)));
}

// "input: N,1,28,28"
std::string TypeOf(const onnx::ValueInfoProto& value) {
  std::vector<std::string> dims;
  for (const auto& dim : value.type().tensor_type().shape().dim()) {
    dims.push_back(dim.dim_param().empty() ? fmt::format("{}", dim.dim_value()) : dim.dim_param());
  }
  return fmt::format("{}: {}", value.name(), fmt::join(dims, ","));
}

TEST(OnnxModelTest, AConvolutionalNetworkThatEndsInSoftmax) {
  const onnx::ModelProto model = Export(
      Describe({{{"type", "Conv2D"}, {"filters", 4}, {"kernelSize", 3}, {"activation", "relu"}},
                {{"type", "MaxPooling2D"}},
                {{"type", "Flatten"}},
                {{"type", "Dropout"}, {"rate", 0.5}},
                {{"type", "Dense"}, {"units", 10}, {"activation", "softmax"}}},
               {1, 28, 28}, 10));
  EXPECT_THAT(
      NodesOf(model),
      ElementsAre(
          "conv2d = Conv(input, conv2d/weight, conv2d/bias) kernel_shape=[3, 3] strides=[1, 1] "
          "pads=[0, 0, 0, 0]",
          "conv2d/activation = Relu(conv2d)",
          "max_pooling2d = MaxPool(conv2d/activation) kernel_shape=[2, 2] strides=[2, 2] "
          "pads=[0, 0, 0, 0]",
          "flatten = Flatten(max_pooling2d)", "dropout = Identity(flatten)",
          "dense = Gemm(dropout, dense/weight, dense/bias) transB=1",
          "dense/activation = Softmax(dense) axis=1"));
  ASSERT_EQ(model.graph().input_size(), 1);
  ASSERT_EQ(model.graph().output_size(), 1);
  EXPECT_EQ(TypeOf(model.graph().input(0)), "input: N,1,28,28");
  EXPECT_EQ(TypeOf(model.graph().output(0)), "dense/activation: N,10");
  EXPECT_EQ(model.ir_version(), 7);
  ASSERT_EQ(model.opset_import_size(), 1);
  EXPECT_EQ(model.opset_import(0).version(), 13);
  EXPECT_EQ(model.doc_string(), "doc");
}

TEST(OnnxModelTest, TensorsKeepTheirNamesShapesAndValues) {
  const ModelDescription model =
      Describe({{{"type", "Dense"}, {"units", 2}, {"name", "out"}}}, {3}, 2);
  const onnx::ModelProto exported = Export(model);
  std::vector<NamedTensor> found;
  for (const onnx::TensorProto& tensor : exported.graph().initializer()) {
    EXPECT_EQ(tensor.data_type(), onnx::TensorProto::FLOAT);
    NamedTensor one{.name = tensor.name(),
                    .shape = Shape({tensor.dims().begin(), tensor.dims().end()}),
                    .data = {}};
    one.data.resize(tensor.raw_data().size() / sizeof(float));
    std::memcpy(one.data.data(), tensor.raw_data().data(), tensor.raw_data().size());
    found.push_back(std::move(one));
  }
  EXPECT_EQ(found, TensorsOf(model));
}

// As Keras places the window: what is odd goes to the end.
TEST(OnnxModelTest, PaddingIsExplicit) {
  EXPECT_THAT(NodesOf({{{"type", "Conv2D"},
                        {"filters", 2},
                        {"kernelSize", {3, 2}},
                        {"strides", 2},
                        {"padding", "same"},
                        {"useBias", false}},
                       {{"type", "ZeroPadding2D"}, {"padding", 2}},
                       {{"type", "AveragePooling2D"}, {"poolSize", 2}, {"padding", "same"}},
                       {{"type", "GlobalAveragePooling2D"}}},
                      {1, 8, 7}, 2),
              ElementsAre("conv2d = Conv(input, conv2d/weight) kernel_shape=[3, 2] strides=[2, 2] "
                          "pads=[0, 0, 1, 1]",
                          "zero_padding2d = Pad(conv2d, zero_padding2d/pads)",
                          "average_pooling2d = AveragePool(zero_padding2d) kernel_shape=[2, 2] "
                          "strides=[2, 2] pads=[0, 0, 0, 0]",
                          "global_average_pooling2d/mean = GlobalAveragePool(average_pooling2d)",
                          "global_average_pooling2d = Flatten(global_average_pooling2d/mean)"));
}

TEST(OnnxModelTest, LayersMayReadAnyEarlierOnes) {
  EXPECT_THAT(
      NodesOf({{{"type", "BatchNormalization"}, {"name", "a"}, {"epsilon", 0.5}},
               {{"type", "LeakyReLU"}, {"name", "b"}, {"inputs", {"input"}}},
               {{"type", "Add"}, {"name", "sum"}, {"inputs", {"a", "b", "input"}}},
               {{"type", "Concatenate"}, {"name", "both"}, {"inputs", {"sum", "a"}}}},
              {3}, 6),
      ElementsAre("a = BatchNormalization(input, a/gamma, a/beta, a/mean, a/variance) epsilon=0.5",
                  "b = LeakyRelu(input) alpha=0.3", "sum = Sum(a, b, input)",
                  "both = Concat(sum, a) axis=1"));
}

TEST(OnnxModelTest, ALayerNormalizationIsMadeOfOldOperators) {
  const onnx::ModelProto model = Export(Describe(
      {{{"type", "LayerNormalization"}, {"name", "a"}}, {{"type", "GlobalAveragePooling2D"}}},
      {3, 2, 2}, 3));
  EXPECT_THAT(NodesOf(model),
              ElementsAre("a/mean = ReduceMean(input) axes=[1]", "a/centered = Sub(input, a/mean)",
                          "a/squares = Mul(a/centered, a/centered)",
                          "a/variance = ReduceMean(a/squares) axes=[1]",
                          "a/sum = Add(a/variance, a/epsilon)", "a/deviation = Sqrt(a/sum)",
                          "a/normalized = Div(a/centered, a/deviation)",
                          "a/scaled = Mul(a/normalized, a/gamma)", "a = Add(a/scaled, a/beta)",
                          "global_average_pooling2d/mean = GlobalAveragePool(a)",
                          "global_average_pooling2d = Flatten(global_average_pooling2d/mean)"));
  for (const onnx::TensorProto& tensor : model.graph().initializer()) {
    if (tensor.name() != "a/gamma" && tensor.name() != "a/beta") continue;
    EXPECT_THAT(tensor.dims(), ElementsAre(3, 1, 1)) << tensor.name();
  }
  EXPECT_THAT(
      NodesOf({{{"type", "LayerNormalization"}, {"name", "a"}, {"center", false}, {"scale", false}},
               {{"type", "LayerNormalization"}, {"name", "b"}, {"center", false}}},
              {3}, 3),
      ::testing::AllOf(::testing::Contains("a = Div(a/centered, a/deviation)"),
                       ::testing::Contains("b = Mul(b/normalized, b/gamma)")));
}

// The next layer's window must know the channels of a concatenation and the size of padded images.
TEST(OnnxModelTest, ShapesAreFollowedThroughTheGraph) {
  EXPECT_THAT(
      NodesOf({{{"type", "ZeroPadding2D"}, {"name", "padded"}},
               {{"type", "Concatenate"}, {"name", "both"}, {"inputs", {"padded", "padded"}}},
               {{"type", "Conv2D"},
                {"name", "conv"},
                {"filters", 1},
                {"kernelSize", 5},
                {"strides", 3},
                {"padding", "same"}},
               {{"type", "Flatten"}}},
              {2, 5, 6}, 9),
      ElementsAre("padded = Pad(input, padded/pads)", "both = Concat(padded, padded) axis=1",
                  "conv = Conv(both, conv/weight, conv/bias) kernel_shape=[5, 5] "
                  "strides=[3, 3] pads=[2, 1, 2, 2]",
                  "flatten = Flatten(conv)"));
}

TEST(OnnxModelTest, EveryActivationIsMadeOfOldOperators) {
  EXPECT_THAT(NodesOf({{{"type", "Activation"}, {"name", "a"}, {"activation", "tanh"}},
                       {{"type", "Activation"}, {"name", "b"}, {"activation", "silu"}},
                       {{"type", "Activation"}, {"name", "c"}, {"activation", "gelu"}},
                       {{"type", "Activation"}, {"name", "d"}, {"activation", "leaky_relu"}},
                       {{"type", "ReLU"}, {"name", "e"}}},
                      {4}, 4),
              ElementsAre("a = Tanh(input)", "b/sigmoid = Sigmoid(a)", "b = Mul(a, b/sigmoid)",
                          "c/scaled = Mul(b, c/inverse_root)", "c/erf = Erf(c/scaled)",
                          "c/halved = Mul(c/erf, c/half)", "c/phi = Add(c/halved, c/half)",
                          "c = Mul(b, c/phi)", "d = LeakyRelu(c) alpha=0.2", "e = Relu(d)"));
}

TEST(OnnxModelTest, ABinaryModelMayEndInSigmoid) {
  const onnx::ModelProto model =
      Export(Describe({{{"type", "Dense"}, {"units", 1}, {"activation", "sigmoid"}}}, {3}, 1),
             OutputKind::kBinaryLogits);
  EXPECT_THAT(NodesOf(model), ElementsAre("dense = Gemm(input, dense/weight, dense/bias) transB=1",
                                          "dense/activation = Sigmoid(dense)"));
}

TEST(OnnxModelTest, ALayerMayBeCalledInput) {
  EXPECT_THAT(NodesOf({{{"type", "Dense"}, {"units", 3}, {"name", "input"}},
                       {{"type", "ReLU"}, {"name", "last"}}},
                      {3}, 3),
              ElementsAre("input/output = Gemm(input, input/weight, input/bias) transB=1",
                          "last = Relu(input/output)"));
}

TEST(OnnxModelTest, TensorsThatDoNotFitAreNamed) {
  const ModelDescription model = Describe({{{"type", "Dense"}, {"units", 2}}}, {3}, 2);
  std::vector<NamedTensor> tensors = TensorsOf(model);
  tensors[0].shape = {3, 2};
  const auto reshaped = EncodeOnnx(model, tensors, "");
  EXPECT_EQ(reshaped.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(reshaped.status().message(), "found tensor dense/weight of [3,2], expected [2,3]");
  tensors.erase(tensors.begin());
  EXPECT_EQ(EncodeOnnx(model, tensors, "").status().message(),
            "found no tensor dense/weight, expected one of [2,3]");
}

TEST(OnnxModelTest, LayersThatMakeNoModelAreRefused) {
  for (const auto& [layers, message] : std::vector<std::pair<Json, std::string>>{
           {Json::array(), "layers: found an empty list"},
           {{{{"type", "Conv2D"}, {"filters", 2}, {"kernelSize", 3}}},
            "layers[0]: Conv2D on an input of [3]"},
           {{{{"type", "Dense"}, {"units", 7}}}, "layers[0]: the last layer gives [7] a sample"},
           {{5}, "layers[0]: found 5, expected an object"}}) {
    const auto encoded = EncodeOnnx(Describe(layers, {3}, 2), {}, "");
    EXPECT_EQ(encoded.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(encoded.status().message()), HasSubstr(message));
  }
}

}  // namespace
}  // namespace lockstep::train
