// Writes a trained model in the ONNX format, in which other runtimes load it for inference.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "trainer/checkpoint/safetensors.h"
#include "trainer/nn/model_description.h"

namespace lockstep::train {

// What a protocol buffer may have.
inline constexpr std::size_t kMostOnnxBytes = std::numeric_limits<std::int32_t>::max();

// Returns the file's bytes. The graph's input is called "input" and is float32, N,C,H,W or N,F; its
// output is that of the last layer, N,outputs: logits, unless the layers end in softmax or sigmoid.
// It computes what evaluation does: dropout does nothing, batch normalization uses the moving
// averages. `doc` is for people. InvalidArgument: the description is that of no model, or `tensors`
// are not those of this one; names the layer or the tensor. ResourceExhausted: the file would have
// 2 GiB.
absl::StatusOr<std::string> EncodeOnnx(const ModelDescription& model,
                                       const std::vector<NamedTensor>& tensors,
                                       const std::string& doc);

}  // namespace lockstep::train
