// Convolutions of images and weights with their channels last: by cuDNN, or as products of
// matrices.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "trainer/backend/cuda/device/dnn_graph.h"
#include "trainer/backend/cuda/device/matmul.h"
#include "trainer/backend/window.h"

namespace lockstep::train::cuda {

enum class ConvolutionPass { kForward, kBackwardData, kBackwardWeights };

struct ConvolutionShape {
  std::int64_t batch = 0, channels = 0, filters = 0;
  WindowAxis rows, columns;
  DType type = DType::kFloat32;  // of all three tensors; sums are in float32
  // The filters see one pixel each, so that the convolution is the product of an image's pixels and
  // the weights.
  bool IsPointwise() const;
  std::string ToString() const;
};

// The descriptors of a pass's plan, as DnnPlan wants them.
std::vector<DnnDescriptor> ConvolutionParts(const DnnLibrary& library, ConvolutionPass pass,
                                            const ConvolutionShape& shape);

// One pass:
//   kForward          y = x * w     x: N,H,W,C   w: K,R,S,C   y: N,P,Q,K
//   kBackwardData     x = the gradient for x of y's gradient
//   kBackwardWeights  w = the gradient for w of y's gradient
class Convolution {
 public:
  // Throws DeviceError if NVIDIA's library cannot do it.
  Convolution(const Device& device, ConvolutionPass pass, const ConvolutionShape& shape);

  std::size_t WorkspaceBytes() const;
  std::string implementation() const;  // "cudnn:engine 28", "cublaslt"
  // The type that Run writes: the shape's, except that a product writes the weights' gradient in
  // float32.
  DType result_type() const { return result_type_; }
  // Writes the one of x, w and y that the pass computes. workspace: WorkspaceBytes().
  void Run(const void* x, const void* w, const void* y, void* workspace);

 private:
  const ConvolutionPass pass_;
  const DType result_type_;
  std::variant<DnnPlan, Matmul> plan_;
};

}  // namespace lockstep::train::cuda
