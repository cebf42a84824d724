#include "trainer/backend/joined_shape.h"
#include "trainer/backend/reference/bound_op.h"
#include "trainer/backend/reference/ops.h"

namespace lockstep::train::reference {
namespace {

// y[n] = x_0[n], x_1[n], …: a row of y is the inputs' rows, one after the other.
class Concatenate final : public BoundOp {
 public:
  explicit Concatenate(const ConcatenateSpec& spec)
      : BoundOp("concatenate", spec.x, ShapeOf(spec)), rows_(output().shape[0]) {}

  void Forward(Mode, const StepContext&) override {
    float* to = y();
    for (std::int64_t n = 0; n < rows_; ++n) {
      for (std::size_t i = 0; i < inputs().size(); ++i) {
        to = std::copy_n(x(i) + n * RowOf(i), RowOf(i), to);
      }
    }
  }

  void Backward(const StepContext&) override {
    const float* from = dy();
    for (std::int64_t n = 0; n < rows_; ++n) {
      for (std::size_t i = 0; i < inputs().size(); ++i) {
        if (dx(i) != nullptr) std::copy_n(from, RowOf(i), dx(i) + n * RowOf(i));
        from += RowOf(i);
      }
    }
  }

 private:
  std::int64_t RowOf(std::size_t i) const { return inputs()[i].shape.elements() / rows_; }

  std::int64_t rows_;
};

}  // namespace

std::unique_ptr<Op> MakeOp(const ConcatenateSpec& spec) {
  return std::make_unique<Concatenate>(spec);
}

}  // namespace lockstep::train::reference
