#include <algorithm>

#include "trainer/backend/cpu/bound_op.h"
#include "trainer/backend/cpu/device/channels.h"
#include "trainer/backend/cpu/ops.h"
#include "trainer/backend/cpu/window_shape.h"
#include "trainer/backend/parameters.h"
#include "trainer/backend/scratch_plan.h"
#include "trainer/backend/window.h"

namespace lockstep::train::cpu {
namespace {

// With a stride of 1, dx is the convolution of dy with the kernel turned by half a turn.
WindowShape TurnedShape(const WindowShape& s) {
  return {.in_h = s.out_h,
          .in_w = s.out_w,
          .out_h = s.in_h,
          .out_w = s.in_w,
          .inner = s.inner,
          .window_h = s.window_h,
          .window_w = s.window_w,
          .stride_h = 1,
          .stride_w = 1,
          .pad_h = s.window_h - 1 - s.pad_h,
          .pad_w = s.window_w - 1 - s.pad_w,
          .relu = false};
}

class DepthwiseConv2d : public BoundOp {
 public:
  DepthwiseConv2d(const Device& device, const DepthwiseConv2dSpec& spec)
      : BoundOp(device, spec.x, WithExtents(spec.x, train::ShapeOf(spec))),
        spec_(spec),
        x_(ViewOf(input())),
        y_(ViewOf(output())),
        shape_(ShapeOf(WindowsOf(spec), x_.inner, spec.relu)) {}
  std::vector<ParameterDesc> Parameters() const override { return ParametersOf(spec_); }

 protected:
  std::int64_t taps() const { return shape_.window_h * shape_.window_w; }
  const float* weight() const { return memory().parameters[0]; }
  const float* bias() const { return spec_.bias ? memory().parameters[1] : nullptr; }
  float* weight_gradient() const { return memory().gradients[0]; }
  float* bias_gradient() const { return spec_.bias ? memory().gradients[1] : nullptr; }
  bool WantsInputGradient() const { return spec_.input_gradient && dx() != nullptr; }

  const DepthwiseConv2dSpec spec_;
  const ImageView x_, y_;
  const WindowShape shape_;
};

// One output channel for each channel of x, several of which are neighbors in memory: the kernels
// work on vectors of them. Scratch has the weights in x's order of channels, tap by tap, and each
// thread's sums of their gradients in the same order, followed by those of the bias.
class DepthwiseOfVectors final : public DepthwiseConv2d {
 public:
  DepthwiseOfVectors(const Device& device, const DepthwiseConv2dSpec& spec)
      : DepthwiseConv2d(device, spec), padded_(x_.outer * x_.inner) {
    weight_at_ = scratch_.Reserve(FloatBytes(padded_ * taps()));
    bias_at_ = scratch_.Reserve(FloatBytes(padded_));
    sums_at_ = scratch_.Reserve(FloatBytes(device.threads * SumFloats()));
  }
  // Channels are moved four at a time or more.
  static bool Supports(const DepthwiseConv2dSpec& spec) {
    return spec.depth_multiplier == 1 && ViewOf(spec.x).inner % 4 == 0;
  }
  std::size_t ScratchBytes() const override { return scratch_.bytes(); }

  BackwardReads Reads() const override { return {.x = true, .y = spec_.relu}; }
  void Forward(Mode, const StepContext&) override {
    OrderWeight(/*turned=*/false);
    if (bias() != nullptr) {
      std::copy_n(bias(), x_.channels, Scratch(bias_at_));
      std::fill_n(Scratch(bias_at_) + x_.channels, padded_ - x_.channels, 0.0f);
    }
    ForRows(shape_.out_h, [this](std::int64_t plane, std::int64_t first, std::int64_t last) {
      device().kernels.depthwise(shape_, x() + plane * PlaneOfX(), WeightOf(plane), BiasOf(plane),
                                 y() + plane * PlaneOfY(), {first, last});
    });
  }

  void Backward(const StepContext&) override {
    if (spec_.relu) MaskByRelu();
    WeightGradient();
    if (WantsInputGradient()) InputGradient();
  }

 private:
  static std::size_t FloatBytes(std::int64_t floats) {
    return static_cast<std::size_t>(floats) * sizeof(float);
  }
  float* Scratch(std::size_t at) const {
    return reinterpret_cast<float*>(static_cast<std::byte*>(memory().scratch) + at);
  }
  // y has x's order of channels, too, but its own view may not say so: of images of one pixel,
  // channels-last is also row-major.
  std::int64_t PlaneOfX() const { return shape_.in_h * shape_.in_w * shape_.inner; }
  std::int64_t PlaneOfY() const { return shape_.out_h * shape_.out_w * shape_.inner; }
  // A multiple of a cache line, so that threads do not share one.
  std::int64_t SumFloats() const { return (padded_ * (taps() + 1) + 15) / 16 * 16; }

  // Those of the plane's channels.
  const float* WeightOf(std::int64_t plane) const {
    return Scratch(weight_at_) + plane % x_.outer * taps() * x_.inner;
  }
  const float* BiasOf(std::int64_t plane) const {
    return bias() == nullptr ? nullptr : Scratch(bias_at_) + plane % x_.outer * x_.inner;
  }

  void OrderWeight(bool turned) const {
    float* const ordered = Scratch(weight_at_);
    std::fill_n(ordered, padded_ * taps(), 0.0f);
    for (std::int64_t c = 0; c < x_.channels; ++c) {
      float* to = ordered + c / x_.inner * taps() * x_.inner + c % x_.inner;
      for (std::int64_t tap = 0; tap < taps(); ++tap) {
        to[(turned ? taps() - 1 - tap : tap) * x_.inner] = weight()[c * taps() + tap];
      }
    }
  }

  // Visits rows [begin, end), where the rows of all planes are numbered consecutively and a plane
  // has `rows` rows: calls body(plane, first row, last row) for each plane.
  template <typename Body>
  static void ForEachPlaneOf(std::int64_t rows, std::int64_t begin, std::int64_t end,
                             const Body& body) {
    for (std::int64_t at = begin; at < end;) {
      const std::int64_t plane = at / rows, first = at % rows;
      const std::int64_t last = std::min(rows, first + end - at);
      body(plane, first, last);
      at += last - first;
    }
  }
  // The same for the rows of all planes, on all threads.
  template <typename Body>
  void ForRows(std::int64_t rows, const Body& body) const {
    ParallelFor(
        ThreadsFor(device().threads, x_.floats()), x_.rows * x_.outer * rows,
        [&](std::int64_t begin, std::int64_t end) { ForEachPlaneOf(rows, begin, end, body); });
  }

  void InputGradient() const {
    const bool turned = shape_.stride_h == 1 && shape_.stride_w == 1;
    const WindowShape shape = turned ? TurnedShape(shape_) : shape_;
    OrderWeight(turned);
    ForRows(shape_.in_h, [&](std::int64_t plane, std::int64_t first, std::int64_t last) {
      const float* from = dy() + plane * PlaneOfY();
      float* to = dx() + plane * PlaneOfX();
      if (turned) {
        device().kernels.depthwise(shape, from, WeightOf(plane), nullptr, to, {first, last});
      } else {
        device().kernels.depthwise_data(shape, from, WeightOf(plane), to, {first, last});
      }
    });
  }

  // The rows of all planes, in as many parts as there are threads, whose sums are added in order.
  void WeightGradient() const {
    const std::int64_t parts = device().threads, rows = x_.rows * x_.outer * shape_.out_h;
    ParallelFor(device().threads, parts, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t part = first; part < last; ++part) {
        float* const sums = Scratch(sums_at_) + part * SumFloats();
        std::fill_n(sums, SumFloats(), 0.0f);
        AddRows(rows * part / parts, rows * (part + 1) / parts, sums);
      }
    });
    for (std::int64_t c = 0; c < x_.channels; ++c) {
      const std::int64_t outer = c / x_.inner, inner = c % x_.inner;
      for (std::int64_t tap = 0; tap < taps(); ++tap) {
        weight_gradient()[c * taps() + tap] = SumOfParts((outer * taps() + tap) * x_.inner + inner);
      }
      if (spec_.bias) bias_gradient()[c] = SumOfParts(padded_ * taps() + c);
    }
  }

  void AddRows(std::int64_t begin, std::int64_t end, float* sums) const {
    ForEachPlaneOf(shape_.out_h, begin, end,
                   [&](std::int64_t plane, std::int64_t first, std::int64_t last) {
                     const std::int64_t outer = plane % x_.outer;
                     device().kernels.depthwise_weight(
                         shape_, x() + plane * PlaneOfX(), dy() + plane * PlaneOfY(),
                         sums + outer * taps() * x_.inner,
                         sums + padded_ * taps() + outer * x_.inner, {first, last});
                   });
  }

  float SumOfParts(std::int64_t at) const {
    float sum = 0;
    for (int part = 0; part < device().threads; ++part) {
      sum += Scratch(sums_at_)[part * SumFloats() + at];
    }
    return sum;
  }

  const std::int64_t padded_;  // channels, with those that the order adds
  ScratchPlan scratch_;
  std::size_t weight_at_ = 0, bias_at_ = 0, sums_at_ = 0;
};

// Any number of output channels for each channel of x, and any order: plane by plane of a channel.
class DepthwiseOfPlanes final : public DepthwiseConv2d {
 public:
  using DepthwiseConv2d::DepthwiseConv2d;

  BackwardReads Reads() const override { return {.x = true, .y = spec_.relu}; }
  void Forward(Mode, const StepContext&) override {
    ForChannels(x_.rows * y_.channels, [this](std::int64_t at) {
      const std::int64_t n = at / y_.channels, k = at % y_.channels;
      device().kernels.depthwise_plane(shape_, x() + x_.ChannelOffset(n, ChannelOf(k)),
                                       weight() + k * taps(), bias() == nullptr ? 0 : bias()[k],
                                       y() + y_.ChannelOffset(n, k), y_.inner);
    });
    for (std::int64_t n = 0; n < y_.rows; ++n) ZeroPaddingChannels(y_, y() + n * y_.row_floats());
  }

  void Backward(const StepContext&) override {
    if (spec_.relu) MaskByRelu();
    ForChannels(y_.channels, [this](std::int64_t k) {
      float* const sums = weight_gradient() + k * taps();
      float bias_sum = 0;
      std::fill_n(sums, taps(), 0.0f);
      for (std::int64_t n = 0; n < x_.rows; ++n) {
        device().kernels.depthwise_plane_weight(shape_, x() + x_.ChannelOffset(n, ChannelOf(k)),
                                                dy() + y_.ChannelOffset(n, k), y_.inner, sums,
                                                &bias_sum);
      }
      if (spec_.bias) bias_gradient()[k] = bias_sum;
    });
    if (WantsInputGradient()) InputGradient();
  }

 private:
  std::int64_t ChannelOf(std::int64_t k) const { return k / spec_.depth_multiplier; }

  template <typename Body>
  void ForChannels(std::int64_t count, const Body& body) const {
    ParallelFor(ThreadsFor(device().threads, y_.floats()), count,
                [&](std::int64_t begin, std::int64_t end) {
                  for (std::int64_t at = begin; at < end; ++at) body(at);
                });
  }

  void InputGradient() const {
    ParallelForFloats(device().threads, x_.floats(), [this](std::int64_t begin, std::int64_t end) {
      std::fill(dx() + begin, dx() + end, 0.0f);
    });
    ForChannels(x_.rows * x_.channels, [this](std::int64_t at) {
      const std::int64_t n = at / x_.channels, c = at % x_.channels;
      for (std::int64_t m = 0; m < spec_.depth_multiplier; ++m) {
        const std::int64_t k = c * spec_.depth_multiplier + m;
        device().kernels.depthwise_plane_data(shape_, dy() + y_.ChannelOffset(n, k), y_.inner,
                                              weight() + k * taps(), dx() + x_.ChannelOffset(n, c));
      }
    });
  }
};

}  // namespace

std::unique_ptr<Op> MakeOp(const Device& device, const DepthwiseConv2dSpec& spec) {
  if (DepthwiseOfVectors::Supports(spec)) return std::make_unique<DepthwiseOfVectors>(device, spec);
  return std::make_unique<DepthwiseOfPlanes>(device, spec);
}

}  // namespace lockstep::train::cpu
