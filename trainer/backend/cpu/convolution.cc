#include "trainer/backend/cpu/convolution.h"

#include <algorithm>
#include <initializer_list>
#include <string_view>
#include <utility>
#include <vector>

#include "trainer/backend/cpu/device/cost.h"
#include "trainer/backend/cpu/device/execution.h"
#include "trainer/backend/cpu/device/memory_desc.h"
#include "trainer/backend/cpu/few_channel_gradient.h"
#include "trainer/backend/cpu/winograd.h"
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

bool Has(std::string_view text, std::string_view part) {
  return text.find(part) != text.npos;
}

// Kernels of one pixel with a stride first copy the pixels that they use. In channels-last order
// the copies of fewer channels than a block has reach beyond their memory, into that of other
// threads: https://github.com/uxlfoundation/oneDNN/issues/6035.
bool CopiesBeyondMemory(const WeightsBackward::primitive_desc& weights,
                        const ConvolutionExtents& e) {
  const std::string_view name = weights.impl_info_str();
  const bool has_stride = e.strides[0] > 1 || e.strides[1] > 1;
  if (!Has(name, "1x1") || !has_stride || weights.src_desc().get_inner_nblks() > 0) return false;
  return e.x[1] < (Has(name, "avx512") ? 16 : 8);
}

// The direct float32 ones write beyond their memory at AVX-512 if the kernel is much taller than
// the image (19x3 on 10x28, not 3x25 on 12x12). Those of 16-bit types read beyond a row that is
// narrower than the stride. Products over patches and plain loops do neither.
bool ReachesBeyondImage(const WeightsBackward::primitive_desc& weights,
                        const ConvolutionExtents& e) {
  const std::string_view name = weights.impl_info_str();
  if (IsReference(name) || Has(name, "gemm")) return false;
  const bool is_float = weights.src_desc().get_data_type() == kFloat;
  return is_float ? e.weight[2] > e.x[2] : e.strides[1] > e.x[3];
}

// Those that multiply tiles (AMX) compute wrong sums if the channels leave half a tile over, and
// both the kernel's width and its stride are even (48 channels, 2x2, strides of 2). None of 18,000
// other shapes was wrong.
bool HasHalfTile(const Forwarding::primitive_desc& forward, const ConvolutionExtents& e) {
  constexpr std::int64_t kTile = 32;  // channels
  return Has(forward.impl_info_str(), "amx") && e.x[1] % kTile == kTile / 2 &&
         e.weight[3] % 2 == 0 && e.strides[1] % 2 == 0;
}

// The convolutions of one spec in every order of x and y, and the costs of their passes.
class Candidates {
 public:
  Candidates(const Device& device, const Conv2dSpec& spec, const ConvolutionExtents& extents)
      : device_(device), spec_(spec), e_(extents), x_(MemoryDescOf(spec.x)) {
    using Tag = memory::format_tag;
    for (const auto& [x, y] : std::initializer_list<std::pair<Tag, Tag>>{
             {kAny, kAny},
             {Tag::nhwc, Tag::nhwc},
             {Tag::nChw16c, Tag::nChw16c},
             {Tag::nChw8c, Tag::nChw8c},
             {Tag::nchw, Tag::nChw16c},  // few channels in, many out: a first layer
             {Tag::nchw, Tag::nChw8c},
             {Tag::nchw, Tag::nhwc},
             {Tag::nchw, Tag::nchw}}) {
      if (const auto convolution = Describe(x, y)) Add(*convolution);
    }
    for (Convolution& convolution : all_) UseOwnKernels(convolution);
    if (all_.empty()) throw DeviceError("conv2d: oneDNN offers no convolution of this shape");
  }

  Convolution Cheapest() const {
    const Convolution* best = nullptr;
    double least = 0;
    Convolution made = all_.front();
    for (const Convolution& forward : all_) {
      const Convolution& weights = CheapestFor(
          forward, [this](const auto& f, const auto& w) { return WeightsSeconds(f, w); });
      const Convolution& data =
          CheapestFor(forward, [this](const auto& f, const auto& d) { return DataSeconds(f, d); });
      const double seconds =
          ForwardSeconds(forward) + WeightsSeconds(forward, weights) + DataSeconds(forward, data);
      if (best != nullptr && seconds >= least) continue;
      best = &forward;
      least = seconds;
      made = {.forward = forward.forward,
              .weights = weights.weights,
              .few_channels = weights.few_channels,
              .data = data.data,
              .winograd_forward = forward.winograd_forward,
              .winograd_weights = weights.winograd_weights,
              .winograd_data = data.winograd_data};
    }
    return made;
  }

 private:
  // Different tags can mean the same order (with one channel, "nchw" and "nhwc"), but oneDNN may
  // have a fast pass for only one of them, or for both if it has cached a primitive of the other.
  // Takes the better of both, so that the choice does not depend on earlier primitives.
  void Add(const Convolution& added) {
    const auto same = std::ranges::find_if(all_, [&](const Convolution& earlier) {
      return earlier.image() == added.image() && earlier.result() == added.result();
    });
    if (same == all_.end()) {
      all_.push_back(added);
      return;
    }
    if (ForwardSeconds(added) < ForwardSeconds(*same)) same->forward = added.forward;
    if (OneDnnGradientSeconds(added) < OneDnnGradientSeconds(*same)) same->weights = added.weights;
    if (DataSeconds(added, added) < DataSeconds(*same, *same)) same->data = added.data;
  }

  // Uses our own kernels for the passes for which their estimated cost is below oneDNN's.
  void UseOwnKernels(Convolution& c) const {
    const ImageView x = *ViewOf(c.image()), y = *ViewOf(c.result());
    c.few_channels = FewChannelGradient::Supports(device_, x, y) &&
                     GradientSeconds(FewChannelGradient::Name(device_)) < OneDnnGradientSeconds(c);
    if (!Winograd::Supports(device_, spec_, x, y)) return;
    c.winograd_forward = Winograd::Seconds(device_, spec_, x, y) < OneDnnForwardSeconds(c);
    c.winograd_weights = WinogradGradient::Supports(device_, spec_, x, y) &&
                         WinogradGradient::Seconds(device_, spec_, x, y) < OneDnnGradientSeconds(c);
    c.winograd_data = c.data && Winograd::Seconds(device_, spec_, y, x) < OneDnnDataSeconds(c);
  }

  // Returns the candidate whose pass costs least, by `seconds`, after `forward`, its own on a tie.
  template <typename Seconds>
  const Convolution& CheapestFor(const Convolution& forward, Seconds seconds) const {
    const Convolution* best = &forward;
    for (const Convolution& candidate : all_) {
      if (seconds(forward, candidate) < seconds(forward, *best)) best = &candidate;
    }
    return *best;
  }

  // Returns nullopt if oneDNN has no convolution in these orders that is correct, or if our own
  // kernels do not support its images.
  std::optional<Convolution> Describe(memory::format_tag x_tag, memory::format_tag y_tag) const {
    try {
      const auto forward = DescribeForward(x_tag, y_tag);
      const memory::desc x = forward.src_desc(), y = forward.dst_desc();
      if (!ViewOf(x) || !ViewOf(y)) return std::nullopt;
      Convolution made{.forward = forward, .weights = DescribeWeights(forward)};
      if (!SkipBroken(made.weights, e_)) return std::nullopt;
      if (spec_.input_gradient) {
        made.data =
            DataBackward::primitive_desc(engine(), kDirect, x, AnyWeight(), y, e_.strides,
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
    return {engine(),          prop_kind::forward_training,
            kDirect,           {e_.x, kFloat, x},
            AnyWeight(),       bias,
            {e_.y, kFloat, y}, e_.strides,
            e_.pad_begin,      e_.pad_end,
            UserScratchpad()};
  }

  WeightsBackward::primitive_desc DescribeWeights(const Forwarding::primitive_desc& forward) const {
    const memory::desc x = forward.src_desc(), y = forward.dst_desc();
    if (!spec_.bias) {
      return {engine(),   kDirect,      x,          AnyWeight(), y,
              e_.strides, e_.pad_begin, e_.pad_end, forward,     UserScratchpad()};
    }
    return {engine(),   kDirect,      x,          AnyWeight(), forward.bias_desc(), y,
            e_.strides, e_.pad_begin, e_.pad_end, forward,     UserScratchpad()};
  }

  // The cost of the forward pass, the copy of x before it, and the op that reads y after it.
  double ForwardSeconds(const Convolution& c) const {
    const double convolution =
        c.winograd_forward
            ? Winograd::Seconds(device_, spec_, *ViewOf(c.image()), *ViewOf(c.result()))
            : OneDnnForwardSeconds(c);
    return convolution + CopyUnlessEqual(x_, c.image()) +
           PassSeconds(c.result().get_size() / sizeof(float), ViewOf(c.result())->inner > 1);
  }

  double OneDnnForwardSeconds(const Convolution& c) const {
    const double relu =
        spec_.relu ? PassSeconds(c.result().get_size() / sizeof(float), /*vectors=*/true) : 0;
    return Seconds(c.forward.impl_info_str()) + relu +
           CopyUnlessEqual(RowMajorWeight(), c.forward.weights_desc());
  }

  // The cost of `c`'s weight gradient after `forward`'s forward pass.
  double WeightsSeconds(const Convolution& forward, const Convolution& c) const {
    const double dy = CopyUnlessEqual(forward.result(), c.result());
    const double x = c.image() == forward.image() ? 0 : CopyUnlessEqual(x_, c.image());
    if (c.few_channels) return GradientSeconds(FewChannelGradient::Name(device_)) + x + dy;
    if (c.winograd_weights)
      return WinogradGradient::Seconds(device_, spec_, *ViewOf(c.image()), *ViewOf(c.result())) +
             x + dy;
    return OneDnnGradientSeconds(c) + x + dy;
  }

  double OneDnnGradientSeconds(const Convolution& c) const {
    return GradientSeconds(c.weights.impl_info_str()) +
           CopyUnlessEqual(RowMajorWeight(), c.weights.diff_weights_desc());
  }

  double DataSeconds(const Convolution& forward, const Convolution& c) const {
    if (!c.data) return 0;
    const double convolution =
        c.winograd_data ? Winograd::Seconds(device_, spec_, *ViewOf(c.result()), *ViewOf(c.image()))
                        : OneDnnDataSeconds(c);
    return convolution + CopyUnlessEqual(forward.result(), c.result()) +
           CopyUnlessEqual(c.image(), x_);
  }

  double OneDnnDataSeconds(const Convolution& c) const {
    return Seconds(c.data->impl_info_str()) +
           CopyUnlessEqual(RowMajorWeight(), c.data->weights_desc());
  }

  double Seconds(std::string_view implementation) const {
    return ConvolutionSeconds(Operations(), implementation, device_.isa);
  }
  double GradientSeconds(std::string_view implementation) const {
    return e_.x[1] <= FewChannelGradient::kMostChannels
               ? FewChannelGradientSeconds(Operations(), implementation, device_.isa)
               : Seconds(implementation);
  }
  static double CopyUnlessEqual(const memory::desc& from, const memory::desc& to) {
    return from == to ? 0 : CopySeconds(to.get_size());
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

  const dnnl::engine& engine() const { return device_.onednn->engine; }
  memory::desc AnyWeight() const { return {e_.weight, kFloat, kAny}; }
  memory::desc RowMajorWeight() const { return DenseMemoryDesc(Shape(e_.weight)); }

  const Device& device_;
  const Conv2dSpec& spec_;
  const ConvolutionExtents& e_;
  const memory::desc x_;
  std::vector<Convolution> all_;
};

}  // namespace

ConvolutionExtents ExtentsOf(const Conv2dSpec& spec) {
  const auto [rows, columns] = WindowsOf(spec);
  const Shape& x = spec.x.shape;
  return {.x = x.dims(),
          .weight = {spec.filters, x[1], spec.kernel_h, spec.kernel_w},
          .bias = spec.bias ? memory::dims{spec.filters} : memory::dims{},
          .y = {x[0], spec.filters, rows.out, columns.out},
          .strides = {spec.stride_h, spec.stride_w},
          .pad_begin = {rows.pad_begin, columns.pad_begin},
          .pad_end = {rows.pad_end, columns.pad_end}};
}

bool SkipBroken(Forwarding::primitive_desc& forward, const ConvolutionExtents& extents) {
  while (HasHalfTile(forward, extents)) {
    if (!forward.next_impl()) return false;
  }
  return true;
}

bool SkipBroken(WeightsBackward::primitive_desc& weights, const ConvolutionExtents& extents) {
  while (CopiesBeyondMemory(weights, extents) || ReachesBeyondImage(weights, extents)) {
    if (!weights.next_impl()) return false;
  }
  return true;
}

Convolution ChooseConvolution(const Device& device, const Conv2dSpec& spec,
                              const ConvolutionExtents& extents) {
  return Candidates(device, spec, extents).Cheapest();
}

}  // namespace lockstep::train::cpu
