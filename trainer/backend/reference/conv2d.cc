#include "trainer/backend/parameters.h"
#include "trainer/backend/reference/bound_op.h"
#include "trainer/backend/reference/ops.h"
#include "trainer/backend/window.h"

namespace lockstep::train::reference {
namespace {

// y[n,k,p,q] = act(b[k] + sum over c,r,s of x[n,c,h,w] * weight[k,c,r,s])
//   with h = p * stride_h - pad_h + r and w likewise; outside the image x is 0.
class Conv2d final : public BoundOp {
 public:
  Conv2d(const Conv2dSpec& spec, const WindowAxis& rows, const WindowAxis& columns)
      : BoundOp("conv2d", spec.x, {spec.x.shape[0], spec.filters, rows.out, columns.out}),
        spec_(spec),
        rows_(rows),
        columns_(columns),
        batch_(spec.x.shape[0]),
        channels_(spec.x.shape[1]) {}

  std::vector<ParameterDesc> Parameters() const override { return ParametersOf(spec_); }

  void Forward(Mode, const StepContext&) override {
    const float* weight = parameter(0);
    ForEachOutput(
        [&](std::int64_t n, std::int64_t k, std::int64_t p, std::int64_t q, std::int64_t out) {
          double sum = spec_.bias ? parameter(1)[k] : 0.0;
          ForEachTap(n, k, p, q, [&](std::int64_t in, std::int64_t tap) {
            sum += static_cast<double>(x()[in]) * static_cast<double>(weight[tap]);
          });
          const float value = static_cast<float>(sum);
          y()[out] = spec_.relu && value < 0 ? 0.0f : value;
        });
  }

  // dweight[k,c,r,s] = sum over n,p,q of dy[n,k,p,q] * x[n,c,h,w]   dbias[k] = sum over n,p,q of dy
  // dx[n,c,h,w] = sum over all k,r,s,p,q that use h,w of dy[n,k,p,q] * weight[k,c,r,s]
  void Backward(const StepContext&) override {
    if (spec_.relu) {
      MaskByRelu(y(), dy(), output().shape.elements());
    }
    const float* weight = parameter(0);
    float* dweight = gradient(0);
    float* input_gradient = spec_.input_gradient ? dx() : nullptr;
    std::fill_n(dweight, spec_.filters * channels_ * rows_.size * columns_.size, 0.0f);
    if (spec_.bias) std::fill_n(gradient(1), spec_.filters, 0.0f);
    if (input_gradient != nullptr) std::fill_n(input_gradient, input().shape.elements(), 0.0f);
    ForEachOutput(
        [&](std::int64_t n, std::int64_t k, std::int64_t p, std::int64_t q, std::int64_t out) {
          const float g = dy()[out];
          if (spec_.bias) gradient(1)[k] += g;
          ForEachTap(n, k, p, q, [&](std::int64_t in, std::int64_t tap) {
            dweight[tap] += g * x()[in];
            if (input_gradient != nullptr) input_gradient[in] += g * weight[tap];
          });
        });
  }

 private:
  template <typename Visit>
  void ForEachOutput(Visit visit) const {
    std::int64_t out = 0;
    for (std::int64_t n = 0; n < batch_; ++n) {
      for (std::int64_t k = 0; k < spec_.filters; ++k) {
        for (std::int64_t p = 0; p < rows_.out; ++p) {
          for (std::int64_t q = 0; q < columns_.out; ++q) visit(n, k, p, q, out++);
        }
      }
    }
  }

  // Visits (index into x, index into weight) of every product in y[n,k,p,q].
  template <typename Visit>
  void ForEachTap(std::int64_t n, std::int64_t k, std::int64_t p, std::int64_t q,
                  Visit visit) const {
    for (std::int64_t c = 0; c < channels_; ++c) {
      for (std::int64_t r = rows_.First(p); r < rows_.Last(p); ++r) {
        for (std::int64_t s = columns_.First(q); s < columns_.Last(q); ++s) {
          const std::int64_t h = p * rows_.stride - rows_.pad_begin + r;
          const std::int64_t w = q * columns_.stride - columns_.pad_begin + s;
          visit(((n * channels_ + c) * rows_.in + h) * columns_.in + w,
                ((k * channels_ + c) * rows_.size + r) * columns_.size + s);
        }
      }
    }
  }

  Conv2dSpec spec_;
  WindowAxis rows_, columns_;
  std::int64_t batch_, channels_;
};

}  // namespace

std::unique_ptr<Op> MakeOp(const Conv2dSpec& spec) {
  const auto [rows, columns] = WindowsOf(spec);
  return std::make_unique<Conv2d>(spec, rows, columns);
}

}  // namespace lockstep::train::reference
