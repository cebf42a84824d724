#include "trainer/backend/cpu/convolution.h"

#include <initializer_list>
#include <utility>

#include "trainer/backend/cpu/cost.h"
#include "trainer/backend/cpu/execution.h"
#include "trainer/backend/cpu/few_channel_gradient.h"
#include "trainer/backend/cpu/layout.h"
#include "trainer/backend/window.h"

namespace lockstep::train::cpu {
namespace {

using dnnl::algorithm;
using dnnl::memory;
using dnnl::prop_kind;
using Forwarding = dnnl::convolution_forward;
using DataBackward = dnnl::convolution_backward_data;
using WeightsBackward = dnnl::convolution_backward_weights;

constexpr auto kFloat = memory::data_type::f32;
constexpr auto kAny = memory::format_tag::any;
constexpr auto kDirect = algorithm::convolution_direct;

// Describes convolutions of one spec in the orders that it is asked for.
class Candidates {
 public:
  Candidates(const Device& device, const Conv2dSpec& spec, const ConvolutionExtents& extents)
      : device_(device), spec_(spec), e_(extents) {}

  Convolution Cheapest() const {
    using Tag = memory::format_tag;
    std::optional<Convolution> best;
    double least = 0;
    for (const auto& [x, y] : std::initializer_list<std::pair<Tag, Tag>>{
             {kAny, kAny},
             {Tag::nhwc, Tag::nhwc},
             {Tag::nChw16c, Tag::nChw16c},
             {Tag::nChw8c, Tag::nChw8c},
             {Tag::nchw, Tag::nChw16c},  // few channels in, many out: a first layer
             {Tag::nchw, Tag::nChw8c},
             {Tag::nchw, Tag::nhwc},
             {Tag::nchw, Tag::nchw}}) {
      const std::optional<Convolution> candidate = Describe(x, y);
      if (!candidate) continue;
      const double seconds = Seconds(*candidate);
      if (best && seconds >= least) continue;
      best = candidate;
      least = seconds;
    }
    if (!best) throw DeviceError("conv2d: oneDNN offers no convolution of this shape");
    return *best;
  }

 private:
  // nullopt: oneDNN has no convolution in these orders, or our own kernels cannot read its images.
  std::optional<Convolution> Describe(memory::format_tag x_tag, memory::format_tag y_tag) const {
    try {
      const auto forward = DescribeForward(x_tag, y_tag);
      const memory::desc x = forward.src_desc(), y = forward.dst_desc();
      if (!ViewOf(x) || !ViewOf(y)) return std::nullopt;
      Convolution made{.forward = forward, .weights = DescribeWeights(forward)};
      made.few_channels =
          FewChannelGradient::Supports(device_, *ViewOf(x), *ViewOf(y)) &&
          FewChannelSeconds() <
              ConvolutionSeconds(Operations(), made.weights.impl_info_str(), device_.isa);
      if (spec_.input_gradient) {
        made.data =
            DataBackward::primitive_desc(device_.engine, kDirect, x, AnyWeight(), y, e_.strides,
                                         e_.pad_begin, e_.pad_end, forward, UserScratchpad());
      }
      return made;
    } catch (const dnnl::error& error) {
      if (error.status == dnnl_unimplemented) return std::nullopt;
      throw;
    }
  }

  Forwarding::primitive_desc DescribeForward(memory::format_tag x, memory::format_tag y) const {
    const memory::desc bias =
        spec_.bias ? memory::desc(e_.bias, kFloat, memory::format_tag::x) : memory::desc();
    dnnl::primitive_attr attributes = UserScratchpad();
    if (spec_.activation == Activation::kRelu) {
      dnnl::post_ops relu;
      relu.append_eltwise(algorithm::eltwise_relu, 0, 0);
      attributes.set_post_ops(relu);
    }
    return {device_.engine, prop_kind::forward_training, kDirect,    {e_.x, kFloat, x}, AnyWeight(),
            bias,           {e_.y, kFloat, y},           e_.strides, e_.pad_begin,      e_.pad_end,
            attributes};
  }

  WeightsBackward::primitive_desc DescribeWeights(const Forwarding::primitive_desc& forward) const {
    const memory::desc x = forward.src_desc(), y = forward.dst_desc();
    if (!spec_.bias) {
      return {device_.engine, kDirect,      x,          AnyWeight(), y,
              e_.strides,     e_.pad_begin, e_.pad_end, forward,     UserScratchpad()};
    }
    return {device_.engine, kDirect,      x,          AnyWeight(), forward.bias_desc(), y,
            e_.strides,     e_.pad_begin, e_.pad_end, forward,     UserScratchpad()};
  }

  // Of the whole op on one core: the primitives, the copies of x and of the weight, and what comes
  // after on y.
  double Seconds(const Convolution& c) const {
    double seconds = ConvolutionSeconds(Operations(), c.forward.impl_info_str(), device_.isa);
    seconds += c.few_channels
                   ? FewChannelSeconds()
                   : ConvolutionSeconds(Operations(), c.weights.impl_info_str(), device_.isa);
    double copies = c.image() == MemoryDescOf(spec_.x) ? 0 : 1;
    if (c.data) {
      seconds += ConvolutionSeconds(Operations(), c.data->impl_info_str(), device_.isa);
      copies *= 2;
    }
    const std::size_t y = c.result().get_size();
    return seconds + copies * CopySeconds(c.image().get_size()) +
           PassSeconds(y / sizeof(float), ViewOf(c.result())->inner > 1);
  }

  double FewChannelSeconds() const {
    return ConvolutionSeconds(Operations(), FewChannelGradient::Name(device_), device_.isa);
  }

  // Additions and multiplications of one pass.
  double Operations() const {
    const auto count = [](const memory::dims& dims) {
      double product = 1;
      for (const auto dim : dims) product *= static_cast<double>(dim);
      return product;
    };
    return 2 * count(e_.y) * count(e_.weight) / static_cast<double>(e_.y[1]);
  }

  memory::desc AnyWeight() const { return {e_.weight, kFloat, kAny}; }

  const Device& device_;
  const Conv2dSpec& spec_;
  const ConvolutionExtents& e_;
};

}  // namespace

ConvolutionExtents ExtentsOf(const Conv2dSpec& spec) {
  const Shape& x = spec.x.shape;
  const WindowAxis rows = PlaceWindow(x[2], spec.kernel_h, spec.stride_h, spec.padding);
  const WindowAxis columns = PlaceWindow(x[3], spec.kernel_w, spec.stride_w, spec.padding);
  return {.x = x.dims(),
          .weight = {spec.filters, x[1], spec.kernel_h, spec.kernel_w},
          .bias = spec.bias ? memory::dims{spec.filters} : memory::dims{},
          .y = {x[0], spec.filters, rows.out, columns.out},
          .strides = {spec.stride_h, spec.stride_w},
          .pad_begin = {rows.pad_begin, columns.pad_begin},
          .pad_end = {rows.pad_end, columns.pad_end}};
}

Convolution ChooseConvolution(const Device& device, const Conv2dSpec& spec,
                              const ConvolutionExtents& extents) {
  return Candidates(device, spec, extents).Cheapest();
}

}  // namespace lockstep::train::cpu
