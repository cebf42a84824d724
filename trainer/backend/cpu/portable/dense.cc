#include <algorithm>

#include "trainer/backend/cpu/bound_op.h"
#include "trainer/backend/cpu/ops.h"
#include "trainer/backend/cpu/portable/multiply.h"
#include "trainer/backend/parameters.h"

namespace lockstep::train::cpu {
namespace {

// y = act(b + x weight^T), all row-major: x is N,I, weight is U,I and y is N,U.
class Dense final : public BoundOp {
 public:
  Dense(const Device& device, const DenseSpec& spec)
      : BoundOp(device, spec.x, {.shape = {spec.x.shape[0], spec.units}}),
        spec_(spec),
        rows_(spec.x.shape[0]),
        inputs_(ViewOf(spec.x).row_floats()) {}

  std::vector<ParameterDesc> Parameters() const override { return ParametersOf(spec_); }
  std::size_t ScratchBytes() const override { return MultiplyScratchBytes(device()); }

  BackwardReads Reads() const override { return {.x = true, .y = spec_.relu}; }
  void Forward(Mode, const StepContext&) override {
    for (std::int64_t n = 0; spec_.bias && n < rows_; ++n) {
      std::copy_n(memory().parameters[1], spec_.units, y() + n * spec_.units);
    }
    Multiply(device(),
             {.m = rows_,
              .n = spec_.units,
              .k = inputs_,
              .a = x(),
              .a_row = inputs_,
              .a_column = 1,
              .b = memory().parameters[0],
              .b_row = 1,
              .b_column = inputs_,
              .c = y(),
              .c_row = spec_.units,
              .add = spec_.bias},
             memory().scratch);
    if (spec_.relu) {
      device().kernels.activate(Activation::kRelu, 0, y(), y(), rows_ * spec_.units);
    }
  }

  // dweight = dy^T x, dbias = sum of dy's rows, dx = dy weight
  void Backward(const StepContext&) override {
    if (spec_.relu) MaskByRelu();
    Multiply(device(),
             {.m = spec_.units,
              .n = inputs_,
              .k = rows_,
              .a = dy(),
              .a_row = 1,
              .a_column = spec_.units,
              .b = x(),
              .b_row = inputs_,
              .b_column = 1,
              .c = memory().gradients[0],
              .c_row = inputs_,
              .add = false},
             memory().scratch);
    if (spec_.bias) SumRows(memory().gradients[1]);
    if (!spec_.input_gradient || dx() == nullptr) return;
    Multiply(device(),
             {.m = rows_,
              .n = inputs_,
              .k = spec_.units,
              .a = dy(),
              .a_row = spec_.units,
              .a_column = 1,
              .b = memory().parameters[0],
              .b_row = inputs_,
              .b_column = 1,
              .c = dx(),
              .c_row = inputs_,
              .add = false},
             memory().scratch);
  }

 private:
  void SumRows(float* sum) const {
    std::fill_n(sum, spec_.units, 0.0f);
    for (std::int64_t n = 0; n < rows_; ++n) {
      const float* row = dy() + n * spec_.units;
      for (std::int64_t u = 0; u < spec_.units; ++u) sum[u] += row[u];
    }
  }

  DenseSpec spec_;
  std::int64_t rows_, inputs_;
};

}  // namespace

std::unique_ptr<Op> MakeOp(const Device& device, const DenseSpec& spec) {
  LOCKSTEP_CHECK(spec.x.shape.rank() >= 2 && spec.units > 0,
                 "dense: {} units on x of shape {}, expected at least 1 on N,…", spec.units,
                 spec.x.shape.ToString());
  return std::make_unique<Dense>(device, spec);
}

}  // namespace lockstep::train::cpu
