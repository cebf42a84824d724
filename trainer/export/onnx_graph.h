// Builds an ONNX file node by node. See onnx.proto.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "trainer/checkpoint/safetensors.h"
#include "trainer/core/shape.h"
#include "trainer/export/onnx.pb.h"

namespace lockstep::train {

// Not thread-safe.
class OnnxGraph {
 public:
  using Names = std::vector<std::string>;
  using Attribute = onnx::AttributeProto;

  static Attribute Integer(const char* name, std::int64_t value);
  static Attribute Integers(const char* name, std::vector<std::int64_t> values);
  static Attribute Float(const char* name, float value);

  // `input`: the name of the samples.
  explicit OnnxGraph(std::string input);

  // Adds a node with one output of the same name, and returns the name. Requires: no other value
  // has it, and names in `inputs` are those of values that were added before.
  std::string AddNode(const char* op, const std::string& name, const Names& inputs,
                      const std::vector<Attribute>& attributes = {});
  // Add a constant and return its name. Require: no other value has it.
  std::string AddFloats(const NamedTensor& tensor);
  std::string AddScalar(const std::string& name, float value);
  std::string AddIntegers(const std::string& name, const std::vector<std::int64_t>& values);

  // Returns the file. The samples are N,`sample`, and the last node's output is N,`outputs`; N may
  // be any number. ResourceExhausted: it would have 2 GiB, which no ONNX file has.
  absl::StatusOr<std::string> Finish(const Shape& sample, std::int64_t outputs,
                                     const std::string& doc) &&;

 private:
  onnx::TensorProto& AddConstant(const std::string& name, std::vector<std::int64_t> dims,
                                 onnx::TensorProto::DataType type);

  std::string input_;
  onnx::ModelProto model_;
};

}  // namespace lockstep::train
