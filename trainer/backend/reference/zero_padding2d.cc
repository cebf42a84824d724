#include "trainer/backend/reference/bound_op.h"
#include "trainer/backend/reference/ops.h"
#include "trainer/backend/window.h"

namespace lockstep::train::reference {
namespace {

// y[n][c][h + top][w + left] = x[n][c][h][w], and 0 elsewhere.
class ZeroPadding2d final : public BoundOp {
 public:
  explicit ZeroPadding2d(const ZeroPadding2dSpec& spec)
      : BoundOp("zero_padding2d", spec.x, ShapeOf(spec)), edges_(spec.edges) {}

  void Forward(Mode, const StepContext&) override {
    std::fill_n(y(), output().shape.elements(), 0.0f);
    const std::int64_t width = input().shape[3];
    ForEachLine(
        [&](std::int64_t from, std::int64_t to) { std::copy_n(x() + from, width, y() + to); });
  }

  void Backward(const StepContext&) override {
    if (dx() == nullptr) return;
    const std::int64_t width = input().shape[3];
    ForEachLine(
        [&](std::int64_t from, std::int64_t to) { std::copy_n(dy() + to, width, dx() + from); });
  }

 private:
  // Calls visit(offset in x, offset in y) for each line of x.
  template <class Visit>
  void ForEachLine(const Visit& visit) const {
    const Shape &in = input().shape, &out = output().shape;
    for (std::int64_t image = 0; image < in[0] * in[1]; ++image) {
      for (std::int64_t h = 0; h < in[2]; ++h) {
        visit((image * in[2] + h) * in[3],
              (image * out[2] + h + edges_.top) * out[3] + edges_.left);
      }
    }
  }

  const Edges edges_;
};

}  // namespace

std::unique_ptr<Op> MakeOp(const ZeroPadding2dSpec& spec) {
  return std::make_unique<ZeroPadding2d>(spec);
}

}  // namespace lockstep::train::reference
