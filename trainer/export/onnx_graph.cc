#include "trainer/export/onnx_graph.h"

#include <fmt/format.h>

#include <bit>

#include "base/check.h"
#include "trainer/export/onnx_model.h"

namespace lockstep::train {
namespace {

// These are from 2020: every runtime of today reads them.
constexpr std::int64_t kIrVersion = 7, kOperatorSet = 13;
constexpr char kBatch[] = "N";

static_assert(std::endian::native == std::endian::little);  // as raw_data is

template <typename Value>
std::string Raw(const std::vector<Value>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(Value)};
}

void SetType(onnx::ValueInfoProto& value, const std::vector<std::int64_t>& dims) {
  auto* tensor = value.mutable_type()->mutable_tensor_type();
  tensor->set_elem_type(onnx::TensorProto::FLOAT);
  tensor->mutable_shape()->add_dim()->set_dim_param(kBatch);
  for (const std::int64_t dim : dims) tensor->mutable_shape()->add_dim()->set_dim_value(dim);
}

}  // namespace

OnnxGraph::Attribute OnnxGraph::Integer(const char* name, std::int64_t value) {
  Attribute attribute;
  attribute.set_name(name);
  attribute.set_type(Attribute::INT);
  attribute.set_i(value);
  return attribute;
}

OnnxGraph::Attribute OnnxGraph::Integers(const char* name, std::vector<std::int64_t> values) {
  Attribute attribute;
  attribute.set_name(name);
  attribute.set_type(Attribute::INTS);
  attribute.mutable_ints()->Assign(values.begin(), values.end());
  return attribute;
}

OnnxGraph::Attribute OnnxGraph::Float(const char* name, float value) {
  Attribute attribute;
  attribute.set_name(name);
  attribute.set_type(Attribute::FLOAT);
  attribute.set_f(value);
  return attribute;
}

OnnxGraph::OnnxGraph(std::string input) : input_(std::move(input)) {}

std::string OnnxGraph::AddNode(const char* op, const std::string& name, const Names& inputs,
                               const std::vector<Attribute>& attributes) {
  onnx::NodeProto& node = *model_.mutable_graph()->add_node();
  node.set_op_type(op);
  node.set_name(name);
  node.mutable_input()->Assign(inputs.begin(), inputs.end());
  node.add_output(name);
  node.mutable_attribute()->Assign(attributes.begin(), attributes.end());
  return name;
}

onnx::TensorProto& OnnxGraph::AddConstant(const std::string& name, std::vector<std::int64_t> dims,
                                          onnx::TensorProto::DataType type) {
  onnx::TensorProto& tensor = *model_.mutable_graph()->add_initializer();
  tensor.set_name(name);
  tensor.mutable_dims()->Assign(dims.begin(), dims.end());
  tensor.set_data_type(type);
  return tensor;
}

std::string OnnxGraph::AddFloats(const NamedTensor& tensor) {
  onnx::TensorProto& constant =
      AddConstant(tensor.name, tensor.shape.dims(), onnx::TensorProto::FLOAT);
  constant.set_raw_data(Raw(tensor.data));
  return constant.name();
}

std::string OnnxGraph::AddScalar(const std::string& name, float value) {
  onnx::TensorProto& constant = AddConstant(name, {}, onnx::TensorProto::FLOAT);
  constant.set_raw_data(Raw(std::vector<float>{value}));
  return constant.name();
}

std::string OnnxGraph::AddIntegers(const std::string& name,
                                   const std::vector<std::int64_t>& values) {
  onnx::TensorProto& constant =
      AddConstant(name, {static_cast<std::int64_t>(values.size())}, onnx::TensorProto::INT64);
  constant.set_raw_data(Raw(values));
  return constant.name();
}

absl::StatusOr<std::string> OnnxGraph::Finish(const Shape& sample, std::int64_t outputs,
                                              const std::string& doc) && {
  onnx::GraphProto& graph = *model_.mutable_graph();
  LOCKSTEP_CHECK(graph.node_size() > 0, "export: found a graph without nodes, expected one");
  graph.set_name("model");
  onnx::ValueInfoProto& input = *graph.add_input();
  input.set_name(input_);
  SetType(input, sample.dims());
  onnx::ValueInfoProto& output = *graph.add_output();
  output.set_name(graph.node(graph.node_size() - 1).output(0));
  SetType(output, {outputs});
  model_.set_ir_version(kIrVersion);
  model_.set_producer_name("Lockstep");
  model_.set_doc_string(doc);
  model_.add_opset_import()->set_version(kOperatorSet);
  if (const std::size_t bytes = model_.ByteSizeLong(); bytes > kMostOnnxBytes) {
    return absl::ResourceExhaustedError(fmt::format(
        "the model takes {} bytes, expected at most {} for an ONNX file", bytes, kMostOnnxBytes));
  }
  return model_.SerializeAsString();
}

}  // namespace lockstep::train
