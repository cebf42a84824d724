#include "trainer/backend/parameters.h"
#include "trainer/backend/reference/bound_op.h"
#include "trainer/backend/reference/ops.h"
#include "trainer/backend/window.h"

namespace lockstep::train::reference {
namespace {

// y[n,k,p,q] = act(b[k] + sum over r,s of x[n,k/M,h,w] * weight[k,0,r,s]), M = depth_multiplier
//   with h = p * stride_h - pad_h + r and w likewise; outside the image x is 0.
class DepthwiseConv2d final : public BoundOp {
 public:
  DepthwiseConv2d(const DepthwiseConv2dSpec& spec, const Windows& windows)
      : BoundOp("depthwise_conv2d", spec.x, ShapeOf(spec)),
        spec_(spec),
        rows_(windows.rows),
        columns_(windows.columns) {}

  std::vector<ParameterDesc> Parameters() const override { return ParametersOf(spec_); }

  void Forward(Mode, const StepContext&) override {
    ForEachOutput([&](std::int64_t plane, std::int64_t p, std::int64_t q, std::int64_t out) {
      const std::int64_t k = plane % filters();
      double sum = spec_.bias ? parameter(1)[k] : 0.0;
      ForEachTap(plane, p, q, [&](std::int64_t in, std::int64_t tap) {
        sum += static_cast<double>(x()[in]) * static_cast<double>(parameter(0)[tap]);
      });
      const float value = static_cast<float>(sum);
      y()[out] = spec_.relu && value < 0 ? 0.0f : value;
    });
  }

  // dweight[k,0,r,s] = sum over n,p,q of dy[n,k,p,q] * x[n,k/M,h,w]
  // dbias[k] = sum over n,p,q of dy
  // dx[n,c,h,w] = sum over k of c, and all r,s,p,q that use h,w, of dy[n,k,p,q] * weight[k,0,r,s]
  void Backward(const StepContext&) override {
    if (spec_.relu) MaskByRelu(y(), dy(), output().shape.elements());
    float* input_gradient = spec_.input_gradient ? dx() : nullptr;
    std::fill_n(gradient(0), filters() * rows_.size * columns_.size, 0.0f);
    if (spec_.bias) std::fill_n(gradient(1), filters(), 0.0f);
    if (input_gradient != nullptr) std::fill_n(input_gradient, input().shape.elements(), 0.0f);
    ForEachOutput([&](std::int64_t plane, std::int64_t p, std::int64_t q, std::int64_t out) {
      const float g = dy()[out];
      if (spec_.bias) gradient(1)[plane % filters()] += g;
      ForEachTap(plane, p, q, [&](std::int64_t in, std::int64_t tap) {
        gradient(0)[tap] += g * x()[in];
        if (input_gradient != nullptr) input_gradient[in] += g * parameter(0)[tap];
      });
    });
  }

 private:
  std::int64_t filters() const { return output().shape[1]; }

  // Visits (plane n * K + k, p, q, index into y) of every output.
  template <typename Visit>
  void ForEachOutput(Visit visit) const {
    std::int64_t out = 0;
    for (std::int64_t plane = 0; plane < output().shape[0] * filters(); ++plane) {
      for (std::int64_t p = 0; p < rows_.out; ++p) {
        for (std::int64_t q = 0; q < columns_.out; ++q) visit(plane, p, q, out++);
      }
    }
  }

  // Visits (index into x, index into weight) of every product in an output. Plane n * C + c of x is
  // that of the planes (n * C + c) * M + m of y.
  template <typename Visit>
  void ForEachTap(std::int64_t plane, std::int64_t p, std::int64_t q, Visit visit) const {
    const std::int64_t k = plane % filters();
    for (std::int64_t r = rows_.First(p); r < rows_.Last(p); ++r) {
      for (std::int64_t s = columns_.First(q); s < columns_.Last(q); ++s) {
        const std::int64_t h = p * rows_.stride - rows_.pad_begin + r;
        const std::int64_t w = q * columns_.stride - columns_.pad_begin + s;
        visit((plane / spec_.depth_multiplier * rows_.in + h) * columns_.in + w,
              (k * rows_.size + r) * columns_.size + s);
      }
    }
  }

  const DepthwiseConv2dSpec spec_;
  const WindowAxis rows_, columns_;
};

}  // namespace

std::unique_ptr<Op> MakeOp(const DepthwiseConv2dSpec& spec) {
  return std::make_unique<DepthwiseConv2d>(spec, WindowsOf(spec));
}

}  // namespace lockstep::train::reference
