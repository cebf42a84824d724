#include "trainer/backend/cpu/bound_op.h"
#include "trainer/backend/cpu/device/channels.h"
#include "trainer/backend/cpu/ops.h"

namespace lockstep::train::cpu {
namespace {

// y[n,i] = x[n,…], from x's memory order to row-major.
class Flatten final : public BoundOp {
 public:
  Flatten(const Device& device, const TensorDesc& x)
      : BoundOp(device, x, {.shape = {x.shape[0], x.shape.elements() / x.shape[0]}}),
        x_view_(ViewOf(x)),
        y_view_(ViewOf({.shape = x.shape})) {}

  BackwardReads Reads() const override { return {.x = false, .y = false}; }
  void Forward(Mode, const StepContext&) override {
    CopyChannels(device(), {x(), x_view_}, {y(), y_view_}, x_view_.channels);
  }
  void Backward(const StepContext&) override {
    if (dx() != nullptr) CopyChannels(device(), {dy(), y_view_}, {dx(), x_view_}, x_view_.channels);
  }

 private:
  ImageView x_view_, y_view_;
};

}  // namespace

std::unique_ptr<Op> MakeOp(const Device& device, const FlattenSpec& spec) {
  return std::make_unique<Flatten>(device, spec.x);
}

}  // namespace lockstep::train::cpu
