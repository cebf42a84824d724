#include "trainer/backend/cpu/bound_op.h"
#include "trainer/backend/cpu/ops.h"

namespace lockstep::train::cpu {
namespace {

// y[n,i] = x[n,…], from x's memory order to row-major.
class Flatten final : public BoundOp {
 public:
  Flatten(const Device& device, const TensorDesc& x)
      : BoundOp(device, x, {.shape = {x.shape[0], x.shape.elements() / x.shape[0]}}),
        view_(ViewOf(x)) {}

  void Forward(const StepContext&) override {
    ForChannels(view_.channels, [this](std::int64_t n, std::int64_t c) {
      const float* from = x() + view_.ChannelOffset(n, c);
      float* to = y() + (n * view_.channels + c) * view_.area();
      for (std::int64_t i = 0; i < view_.area(); ++i) to[i] = from[i * view_.inner];
    });
  }

  // Zeroes the order's padding channels.
  void Backward(const StepContext&) override {
    if (dx() == nullptr) return;
    ForChannels(view_.outer * view_.inner, [this](std::int64_t n, std::int64_t c) {
      float* to = dx() + view_.ChannelOffset(n, c);
      const float* from = dy() + (n * view_.channels + c) * view_.area();
      const bool padding = c >= view_.channels;
      for (std::int64_t i = 0; i < view_.area(); ++i) {
        to[i * view_.inner] = padding ? 0.0f : from[i];
      }
    });
  }

 private:
  template <typename Body>
  void ForChannels(std::int64_t channels, Body body) const {
    ParallelFor(ThreadsFor(device().threads, view_.floats()), view_.rows,
                [&](std::int64_t begin, std::int64_t end) {
                  for (std::int64_t n = begin; n < end; ++n) {
                    for (std::int64_t c = 0; c < channels; ++c) body(n, c);
                  }
                });
  }

  ImageView view_;
};

}  // namespace

std::unique_ptr<Op> MakeOp(const Device& device, const FlattenSpec& spec) {
  return std::make_unique<Flatten>(device, spec.x);
}

}  // namespace lockstep::train::cpu
