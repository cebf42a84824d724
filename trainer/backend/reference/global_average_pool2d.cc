#include "trainer/backend/reference/bound_op.h"
#include "trainer/backend/reference/ops.h"

namespace lockstep::train::reference {
namespace {

// y[n,c] = mean over h,w of x[n,c,h,w]
class GlobalAveragePool2d final : public BoundOp {
 public:
  explicit GlobalAveragePool2d(const TensorDesc& x)
      : BoundOp("global_average_pool2d", x, {x.shape[0], x.shape[1]}),
        planes_(x.shape[0] * x.shape[1]),
        area_(x.shape[2] * x.shape[3]) {}

  void Forward(Mode, const StepContext&) override {
    for (std::int64_t plane = 0; plane < planes_; ++plane) {
      double sum = 0;
      for (std::int64_t i = 0; i < area_; ++i) sum += x()[plane * area_ + i];
      y()[plane] = static_cast<float>(sum / static_cast<double>(area_));
    }
  }

  // dx[n,c,h,w] = dy[n,c] / (H * W)
  void Backward(const StepContext&) override {
    if (dx() == nullptr) return;
    for (std::int64_t plane = 0; plane < planes_; ++plane) {
      std::fill_n(dx() + plane * area_, area_, dy()[plane] / static_cast<float>(area_));
    }
  }

 private:
  std::int64_t planes_, area_;
};

}  // namespace

std::unique_ptr<Op> MakeOp(const GlobalAveragePool2dSpec& spec) {
  LOCKSTEP_CHECK(spec.x.shape.rank() == 4,
                 "global_average_pool2d: x has shape {}, expected N,C,H,W",
                 spec.x.shape.ToString());
  return std::make_unique<GlobalAveragePool2d>(spec.x);
}

}  // namespace lockstep::train::reference
