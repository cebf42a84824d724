#include "trainer/backend/cpu/bound_op.h"
#include "trainer/backend/cpu/device/channels.h"
#include "trainer/backend/cpu/ops.h"
#include "trainer/backend/joined_shape.h"

namespace lockstep::train::cpu {
namespace {

// y's channels are those of x_0, x_1, …, in the order of x_0.
class Concatenate final : public BoundOp {
 public:
  Concatenate(const Device& device, const ConcatenateSpec& spec)
      : BoundOp(device, spec.x, WithExtents(spec.x[0], ShapeOf(spec))), y_view_(ViewOf(output())) {
    for (const TensorDesc& x : spec.x) x_views_.push_back(ViewOf(x));
  }

  BackwardReads Reads() const override { return {.x = false, .y = false}; }
  void Forward(Mode, const StepContext&) override {
    std::int64_t first = 0;
    for (std::size_t i = 0; i < x_views_.size(); ++i) {
      const ImageView& view = x_views_[i];
      CopyChannels(device(), {x(i), view}, {y(), y_view_, first}, view.channels);
      first += view.channels;
    }
  }

  void Backward(const StepContext&) override {
    std::int64_t first = 0;
    for (std::size_t i = 0; i < x_views_.size(); ++i) {
      const ImageView& view = x_views_[i];
      if (dx(i) != nullptr) {
        CopyChannels(device(), {dy(), y_view_, first}, {dx(i), view}, view.channels);
      }
      first += view.channels;
    }
  }

 private:
  std::vector<ImageView> x_views_;
  ImageView y_view_;
};

}  // namespace

std::unique_ptr<Op> MakeOp(const Device& device, const ConcatenateSpec& spec) {
  return std::make_unique<Concatenate>(device, spec);
}

}  // namespace lockstep::train::cpu
