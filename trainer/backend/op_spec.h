// What an op or an optimizer computes, as plain values. OpSpec lists the ops: each backend has a
// file of the same name for each.
//
// Each op says what no default could: kName, that of its layer in Keras, and kDiffersInEvaluation,
// whether it computes another y in evaluation than in training. A field `relu` means that the op
// can end with a relu at no extra cost, and a field `zeros` that it can read zeros around its
// image. FuseLayers fuses these into every op that has the field, except into a pool that cannot
// have them: an average, and, of zeros, a maximum without relu.
#pragma once

#include <cstdint>
#include <string_view>
#include <variant>
#include <vector>

#include "trainer/backend/activation.h"
#include "trainer/core/tensor.h"

namespace lockstep::train {

enum class Padding { kValid, kSame };  // as in Keras: same = ceil(in / stride), extra at the end

// Rows and columns at the edges of an image.
struct Edges {
  std::int64_t top = 0, bottom = 0, left = 0, right = 0;
  bool operator==(const Edges&) const = default;
};

struct Conv2dSpec {
  static constexpr std::string_view kName = "Conv2D";
  static constexpr bool kDiffersInEvaluation = false;
  TensorDesc x = {};  // N,C,H,W
  std::int64_t filters = 0, kernel_h = 0, kernel_w = 0, stride_h = 1, stride_w = 1;
  Padding padding = Padding::kValid;
  bool bias = true;
  bool relu = false;           // fused: y = max(y, 0)
  bool input_gradient = true;  // if false, dx is not computed, as in the first layer
  // Zeros around x, fused: a ZeroPadding2d before. Only with kValid; each less than the kernel's
  // extent.
  Edges zeros = {};
};
// Each channel of x has `depth_multiplier` kernels of its own: as Keras' DepthwiseConv2D, but with
// the kernels in the order C*M,1,R,S, which is that of PyTorch's Conv2d with C groups.
struct DepthwiseConv2dSpec {
  static constexpr std::string_view kName = "DepthwiseConv2D";
  static constexpr bool kDiffersInEvaluation = false;
  TensorDesc x = {};  // N,C,H,W -> N,C*M,P,Q
  std::int64_t depth_multiplier = 1, kernel_h = 0, kernel_w = 0, stride_h = 1, stride_w = 1;
  Padding padding = Padding::kValid;
  bool bias = true;
  bool relu = false;  // this and the rest as in Conv2dSpec
  bool input_gradient = true;
  Edges zeros = {};
};
struct DenseSpec {
  static constexpr std::string_view kName = "Dense";
  static constexpr bool kDiffersInEvaluation = false;
  TensorDesc x = {};  // N,…: all axes but N are flattened in logical (C,H,W) order
  std::int64_t units = 0;
  bool bias = true;
  bool relu = false;  // as in Conv2dSpec
  bool input_gradient = true;
};
enum class PoolKind { kMax, kAverage };
struct Pool2dSpec {  // the average does not count padding, as in Keras
  static constexpr std::string_view kName = "MaxPooling2D", kAverageName = "AveragePooling2D";
  static constexpr bool kDiffersInEvaluation = false;
  TensorDesc x = {};  // N,C,H,W
  PoolKind kind = PoolKind::kMax;
  std::int64_t window_h = 2, window_w = 2, stride_h = 2, stride_w = 2;
  Padding padding = Padding::kValid;
  bool relu = false;  // max pool only: relu before (= after) the pool
  Edges zeros = {};   // as in Conv2dSpec; only with relu: then zeros do not change the maximum
};
struct GlobalAveragePool2dSpec {
  static constexpr std::string_view kName = "GlobalAveragePooling2D";
  static constexpr bool kDiffersInEvaluation = false;
  TensorDesc x = {};  // N,C,H,W -> N,C
};
// Normalizes over N,H,W (or N) of the valid rows. As in Keras, the variance is biased, in the step
// and in the moving averages (moving = momentum * moving + (1 - momentum) * step's). Padding rows
// of y and of dx are 0: one valid row has a variance of 0, and another row divided by its deviation
// would grow from layer to layer until it overflows. Without valid rows, or in evaluation, uses the
// moving averages unchanged. Parameters: gamma, beta (C); states: mean, variance (C).
struct BatchNormSpec {
  static constexpr std::string_view kName = "BatchNormalization";
  static constexpr bool kDiffersInEvaluation = true;
  TensorDesc x = {};  // N,C,H,W or N,C
  float momentum = 0.99f, epsilon = 1e-3f;
  bool zero_gamma = false;  // gamma is 0 initially, not 1
  bool relu = false;        // as in Conv2dSpec
};
// Normalizes each pixel over C, or each row of a matrix, as in Keras with axis -1; the variance is
// biased. Parameters: gamma (C) if `scale`, beta (C) if `center`.
struct LayerNormSpec {
  static constexpr std::string_view kName = "LayerNormalization";
  static constexpr bool kDiffersInEvaluation = false;
  TensorDesc x = {};  // N,C,H,W or N,C
  float epsilon = 1e-3f;
  bool center = true, scale = true;
};
// Inverted dropout: kept elements are divided by 1 - rate. Element e (in logical C,H,W order) of
// the row at global position p = first_position + row is kept if UniformFloat(word) >= rate, where
//   word = Philox(DeriveKey(seed, layer), p, step << 32 | e / 4)[e % 4].
struct DropoutSpec {
  static constexpr std::string_view kName = "Dropout";
  static constexpr bool kDiffersInEvaluation = true;
  TensorDesc x = {};  // N,…
  float rate = 0.5f;
  std::uint64_t layer = 0;
};
// y = activation(x), elementwise.
struct ActivationSpec {
  static constexpr std::string_view kName = "Activation";
  static constexpr bool kDiffersInEvaluation = false;
  TensorDesc x = {};
  Activation activation = Activation::kRelu;
  float slope = kLeakyReluSlope;  // only of kLeakyRelu; at least 0
};
// y = the sum of the inputs, in the order of the first.
struct AddSpec {
  static constexpr std::string_view kName = "Add";
  static constexpr bool kDiffersInEvaluation = false;
  std::vector<TensorDesc> x = {};  // at least two, of equal shapes
  bool relu = false;               // as in Conv2dSpec
};
// y = the inputs' channels, one input after the other, in the order of the first.
struct ConcatenateSpec {
  static constexpr std::string_view kName = "Concatenate";
  static constexpr bool kDiffersInEvaluation = false;
  std::vector<TensorDesc> x = {};  // at least two N,C,H,W or N,C that differ only in C
};
// y = x with zeros around each channel's image.
struct ZeroPadding2dSpec {
  static constexpr std::string_view kName = "ZeroPadding2D";
  static constexpr bool kDiffersInEvaluation = false;
  TensorDesc x = {};  // N,C,H,W
  Edges edges = {};
};
// y = x in dense row-major order, as N,F.
struct FlattenSpec {
  static constexpr std::string_view kName = "Flatten";
  static constexpr bool kDiffersInEvaluation = false;
  TensorDesc x = {};  // N,… in any layout
};

using OpSpec = std::variant<ActivationSpec, AddSpec, BatchNormSpec, ConcatenateSpec, Conv2dSpec,
                            DenseSpec, DepthwiseConv2dSpec, DropoutSpec, FlattenSpec,
                            GlobalAveragePool2dSpec, LayerNormSpec, Pool2dSpec, ZeroPadding2dSpec>;

// What reports call an op: "Conv2D", "MaxPooling2D".
std::string_view OpName(const auto& spec) {
  return spec.kName;
}
inline std::string_view OpName(const Pool2dSpec& spec) {
  return spec.kind == PoolKind::kMax ? spec.kName : spec.kAverageName;
}
inline std::string_view OpName(const OpSpec& spec) {
  return std::visit([](const auto& op) { return OpName(op); }, spec);
}

// Softmax cross-entropy of `rows` samples. Targets are smoothed (Szegedy et al., "Rethinking the
// Inception architecture", 2016, section 7), as in Keras' CategoricalCrossentropy:
//   target = (1 - label_smoothing) * onehot + label_smoothing / classes
// Correct: 1 for a row whose largest logit is that of its label, or of its largest target.
struct SoftmaxCrossEntropySpec {
  std::int64_t rows = 0, classes = 0;
  double label_smoothing = 0;  // in [0, 1)
};

// A loss of each of a row's outputs y and targets t, of which the row's is the mean, as in Keras:
//   kBinaryCrossEntropy  max(y, 0) - y * s + log(1 + exp(-|y|)), of the logit y and the smoothed
//                        target s = (1 - label_smoothing) * t + label_smoothing / 2
//   kSquaredError        (y - t)^2
//   kAbsoluteError       |y - t|, whose slope at 0 is 0
//   kHuber               |y - t| <= delta: (y - t)^2 / 2, else delta * (|y - t| - delta / 2)
//                        (Huber, "Robust estimation of a location parameter", 1964)
// Correct: the mean over a row's outputs of, for kBinaryCrossEntropy, (y > 0) == (t > 1/2), and
// for the others |y - t|.
enum class ElementwiseLoss { kBinaryCrossEntropy, kSquaredError, kAbsoluteError, kHuber };
struct ElementwiseLossSpec {
  ElementwiseLoss loss = ElementwiseLoss::kSquaredError;
  std::int64_t rows = 0, outputs = 0;
  double delta = 1;            // kHuber: above 0
  double label_smoothing = 0;  // kBinaryCrossEntropy: in [0, 1)
};

// As in Keras: v = momentum * v - lr * g; w += v (nesterov: w += momentum * v - lr * g).
struct SgdSpec {
  float momentum = 0;  // 0: no slot
  bool nesterov = false;
  float weight_decay = 0;  // decoupled, before the update: w -= lr * decay * w
};
// Kingma & Ba 2015, as in Keras: lr_t = lr * sqrt(1 - b2^t) / (1 - b1^t); epsilon is added to
// sqrt(v) without bias correction.
struct AdamSpec {
  float beta1 = 0.9f, beta2 = 0.999f, epsilon = 1e-7f;
  float weight_decay = 0;  // decoupled (AdamW), before the update, as in SGD
  float rate_ratio = 1;    // what lr is multiplied by, but not for the decay
};
// Hinton, "Neural networks for machine learning", lecture 6e, 2012, as in Keras (not centered):
//   s = rho * s + (1 - rho) * g^2;  v = momentum * v + lr * g / sqrt(s + epsilon);  w -= v
struct RmspropSpec {
  float rho = 0.9f, epsilon = 1e-7f;
  float momentum = 0;      // 0: no slot v
  float weight_decay = 0;  // as in SGD
};
// Duchi, Hazan and Singer, "Adaptive subgradient methods for online learning and stochastic
// optimization", 2011, as in Keras: a += g^2; w -= lr * g / sqrt(a + epsilon). The owner of the
// slot sets a's initial value.
struct AdagradSpec {
  float epsilon = 1e-7f;
  float weight_decay = 0;  // as in SGD
};
// The next two scale each tensor's step by a trust of its own. A tensor is a segment of the
// optimizer's memory; one that does not decay has a trust of 1, as the tensors that TensorFlow's
// Model Garden excludes. So does one whose |w| or other norm is 0.
//
// You, Gitman and Ginsburg, "Large batch training of convolutional networks", 2017, algorithm 1,
// with the decay of the weights in the gradient, as in MLPerf's reference:
//   trust = trust_coefficient * |w| / (|g| + decay * |w|)
//   v = momentum * v - lr * trust * (g + decay * w); w += v (nesterov: as in SGD)
struct LarsSpec {
  float momentum = 0;  // 0: no slot
  bool nesterov = false;
  float trust_coefficient = 1e-3f;
  float weight_decay = 0;
};
// You et al., "Large batch optimization for deep learning: training BERT in 76 minutes", 2020,
// algorithm 2, without bounds of |w|. Without decay as in Keras, whose own decay is not part of u.
//   m = b1 * m + (1 - b1) * g; v = b2 * v + (1 - b2) * g^2
//   u = (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + epsilon) + decay * w
//   w -= lr * |w| / |u| * u
struct LambSpec {
  float beta1 = 0.9f, beta2 = 0.999f, epsilon = 1e-7f;
  float weight_decay = 0;
};
// A row-major matrix among the values of an optimizer: those from `begin` on.
struct MatrixRange {
  std::int64_t begin = 0, rows = 0, columns = 0;
  std::int64_t size() const { return rows * columns; }
  std::int64_t end() const { return begin + size(); }
};
// Jordan et al., "Muon: an optimizer for hidden layers in neural networks", 2024, as in Keras:
//   m = momentum * m + g; u = m (nesterov: g + momentum * m)
//   x = u / (|u| + 1e-7); `steps` times: a = x x^T, x = 3.4445 x + (-4.775 a + 2.0315 a a) x
//   w -= lr * rms_rate * sqrt(max(rows, columns)) * x
// A matrix with more rows than columns is transposed for that. The values in no matrix are
// updated by `adam`, whose decay is that of all values.
struct MuonSpec {
  std::vector<MatrixRange> matrices = {};  // in ascending order; they do not overlap
  float momentum = 0.95f;
  bool nesterov = true;
  int steps = 5;
  float rms_rate = 0.2f;  // 0: w -= lr * x
  AdamSpec adam = {};
};
using OptimizerRule =
    std::variant<SgdSpec, AdamSpec, RmspropSpec, AdagradSpec, LarsSpec, LambSpec, MuonSpec>;

}  // namespace lockstep::train
