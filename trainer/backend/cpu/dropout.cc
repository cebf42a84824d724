#include <algorithm>

#include "trainer/backend/cpu/bound_op.h"
#include "trainer/backend/cpu/device/channels.h"
#include "trainer/backend/cpu/ops.h"
#include "trainer/core/rng.h"

namespace lockstep::train::cpu {
namespace {

// As in reference/dropout.cc, an element's number is its logical C,H,W position, so the mask is the
// same in every memory order.
class Dropout final : public BoundOp {
 public:
  Dropout(const Device& device, const DropoutSpec& spec)
      : BoundOp(device, spec.x, spec.x), spec_(spec), view_(ViewOf(spec.x)) {}
  bool BackwardInPlace() const override { return true; }

  BackwardReads Reads() const override { return {.x = false, .y = false}; }
  void Forward(Mode mode, const StepContext& step) override {
    if (mode == Mode::kTraining) {
      ApplyMask(step, x(), y());
    } else {
      ParallelForFloats(device().threads, view_.floats(),
                        [this](std::int64_t begin, std::int64_t end) {
                          std::copy_n(x() + begin, end - begin, y() + begin);
                        });
    }
  }

  // dx = dy * mask
  void Backward(const StepContext& step) override {
    if (dx() != nullptr) ApplyMask(step, dy(), dx());
  }

 private:
  void ApplyMask(const StepContext& step, const float* source, float* target) const {
    ParallelFor(device().threads, view_.rows, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t n = begin; n < end; ++n) {
        const std::int64_t row = n * view_.row_floats();
        MaskRow(step, step.first_position + static_cast<std::uint64_t>(n), source + row,
                target + row);
      }
    });
  }

  void MaskRow(const StepContext& step, std::uint64_t position, const float* source,
               float* target) const {
    const std::uint64_t key = DeriveKey(step.seed, spec_.layer);
    const float scale = 1.0f / (1.0f - spec_.rate);
    const std::int64_t elements = view_.channels * view_.area();
    for (std::int64_t first = 0; first < elements; first += 4) {
      const auto group = static_cast<std::uint64_t>(first / 4);
      const PhiloxBlock block = Philox(key, position, step.step << 32 | group);
      for (std::int64_t e = first; e < std::min(first + 4, elements); ++e) {
        const bool kept = UniformFloat(block[static_cast<std::size_t>(e % 4)]) >= spec_.rate;
        const std::int64_t at = Place(e);
        target[at] = kept ? source[at] * scale : 0.0f;
      }
    }
    ZeroPaddingChannels(view_, target);
  }

  // The offset of logical element `e` in a row.
  std::int64_t Place(std::int64_t e) const {
    if (view_.inner == 1) return e;
    return view_.ChannelOffset(0, e / view_.area()) + e % view_.area() * view_.inner;
  }

  DropoutSpec spec_;
  ImageView view_;
};

}  // namespace

std::unique_ptr<Op> MakeOp(const Device& device, const DropoutSpec& spec) {
  LOCKSTEP_CHECK(spec.rate >= 0 && spec.rate < 1, "dropout: rate is {}, expected [0, 1)",
                 spec.rate);
  return std::make_unique<Dropout>(device, spec);
}

}  // namespace lockstep::train::cpu
