#include "trainer/backend/cpu/bound_op.h"
#include "trainer/backend/cpu/ops.h"

namespace lockstep::train::cpu {
namespace {

// y[n,c] = mean over h,w of x[n,c,h,w]. y is a dense matrix for any order of x.
class GlobalAveragePool2d final : public BoundOp {
 public:
  GlobalAveragePool2d(const Device& device, const TensorDesc& x)
      : BoundOp(device, x, {.shape = {x.shape[0], x.shape[1]}}), view_(ViewOf(x)) {}

  BackwardReads Reads() const override { return {.x = false, .y = false}; }
  void Forward(Mode, const StepContext&) override {
    ForChannels(
        [this](std::int64_t first, float* y, std::int64_t) {
          float sum = 0;
          for (std::int64_t a = 0; a < view_.area(); ++a) sum += x()[first + a * view_.inner];
          *y = sum / static_cast<float>(view_.area());
        },
        y());
  }

  void Backward(const StepContext&) override {
    if (dx() == nullptr) return;
    ForChannels(
        [this](std::int64_t first, const float* dy, std::int64_t channel) {
          const float share =
              channel < view_.channels ? *dy / static_cast<float>(view_.area()) : 0.0f;
          for (std::int64_t a = 0; a < view_.area(); ++a) dx()[first + a * view_.inner] = share;
        },
        dy(), /*with_padding=*/true);
  }

 private:
  // Calls body(index of the channel's first float in x, its element of `matrix`, channel).
  template <typename Body>
  void ForChannels(Body body, float* matrix, bool with_padding = false) const {
    const std::int64_t channels = with_padding ? view_.outer * view_.inner : view_.channels;
    ParallelFor(ThreadsFor(device().threads, view_.floats()), view_.rows,
                [&](std::int64_t begin, std::int64_t end) {
                  for (std::int64_t n = begin; n < end; ++n) {
                    for (std::int64_t c = 0; c < channels; ++c) {
                      body(view_.ChannelOffset(n, c), matrix + n * view_.channels + c, c);
                    }
                  }
                });
  }

  ImageView view_;
};

}  // namespace

std::unique_ptr<Op> MakeOp(const Device& device, const GlobalAveragePool2dSpec& spec) {
  LOCKSTEP_CHECK(spec.x.shape.rank() == 4,
                 "global_average_pool2d: x has shape {}, expected N,C,H,W",
                 spec.x.shape.ToString());
  return std::make_unique<GlobalAveragePool2d>(device, spec.x);
}

}  // namespace lockstep::train::cpu
