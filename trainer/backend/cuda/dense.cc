#include <algorithm>
#include <optional>

#include "base/check.h"
#include "trainer/backend/cuda/bias.h"
#include "trainer/backend/cuda/bound_op.h"
#include "trainer/backend/cuda/device/matmul.h"
#include "trainer/backend/cuda/layout/cast.h"
#include "trainer/backend/cuda/layout/transpose.h"
#include "trainer/backend/cuda/ops.h"
#include "trainer/backend/parameters.h"
#include "trainer/backend/scratch_plan.h"

namespace lockstep::train::cuda {
namespace {

// y[n,u] = act(b[u] + sum over i of x[n,i] * weight[u,i])
class Dense final : public BoundOp {
 public:
  Dense(const Device& device, const DenseSpec& spec)
      : BoundOp("dense", device, spec.x,
                {.shape = {spec.x.shape[0], spec.units}, .dtype = spec.x.dtype}),
        spec_(spec),
        batch_(spec.x.shape[0]),
        features_(spec.x.elements() / batch_),
        is_reordered_(IsChannelsLast(spec.x)),
        bias_and_relu_(device, output(), spec.bias, spec.relu),
        forward_(device, {.rows = batch_,
                          .columns = spec.units,
                          .inner = features_,
                          .b_transposed = true,
                          .type = dtype(),
                          .result = dtype()}),
        backward_weights_(device, {.rows = spec.units,
                                   .columns = features_,
                                   .inner = batch_,
                                   .a_transposed = true,
                                   .type = dtype()}) {
    if (spec.input_gradient) {
      backward_data_.emplace(device, MatmulShape{.rows = batch_,
                                                 .columns = features_,
                                                 .inner = spec.units,
                                                 .type = dtype(),
                                                 .result = dtype()});
    }
    if (dtype() != DType::kFloat32) {
      weight_at_ =
          scratch_.Reserve(static_cast<std::size_t>(spec.units * features_) * SizeOf(dtype()));
    }
    if (is_reordered_ && spec.input_gradient) dx_at_ = scratch_.Reserve(spec.x.bytes());
    work_at_ = scratch_.Reserve(std::max(
        {forward_.WorkspaceBytes(), backward_weights_.WorkspaceBytes(),
         backward_data_ ? backward_data_->WorkspaceBytes() : 0, bias_and_relu_.ScratchBytes()}));
  }

  std::vector<ParameterDesc> Parameters() const override { return ParametersOf(spec_); }
  std::size_t WorkspaceBytes() const override { return is_reordered_ ? spec_.x.bytes() : 0; }
  std::size_t ScratchBytes() const override { return scratch_.bytes(); }

  BackwardReads Reads() const override { return {.x = true, .y = spec_.relu}; }
  void Forward(Mode, const StepContext&) override {
    if (is_reordered_) {
      Transpose(device(), {.x = x(),
                           .from = dtype(),
                           .y = workspace<void>(),
                           .to = dtype(),
                           .count = batch_,
                           .rows = features_ / channels(),
                           .columns = channels()});
    }
    forward_.Run(rows(), Weight(), y(), work());
    bias_and_relu_.Forward(y(), spec_.bias ? parameter(1) : nullptr);
  }

  // dweight[u,i] = sum over n of dy[n,u] * x[n,i]   dbias[u] = sum over n of dy[n,u]
  // dx[n,i] = sum over u of dy[n,u] * weight[u,i]
  void Backward(const StepContext&) override {
    bias_and_relu_.Backward(y(), dy(), spec_.bias ? gradient(1) : nullptr, work());
    backward_weights_.Run(dy(), rows(), gradient(0), work());
    if (!spec_.input_gradient || dx() == nullptr) return;
    if (!is_reordered_) {
      backward_data_->Run(dy(), Weight(), dx(), work());
      return;
    }
    auto* row_major = scratch<void>(dx_at_);
    backward_data_->Run(dy(), Weight(), row_major, work());
    Transpose(device(), {.x = row_major,
                         .from = dtype(),
                         .y = dx(),
                         .to = dtype(),
                         .count = batch_,
                         .rows = channels(),
                         .columns = features_ / channels()});
  }

 private:
  std::int64_t channels() const { return spec_.x.shape[1]; }
  const void* rows() const { return is_reordered_ ? workspace<void>() : x(); }
  // The weights in x's type. In scratch they stay until the next use of it.
  const void* Weight() const {
    if (dtype() == DType::kFloat32) return parameter(0);
    auto* rounded = scratch<void>(weight_at_);
    Cast(device(), {.x = parameter(0),
                    .from = DType::kFloat32,
                    .y = rounded,
                    .to = dtype(),
                    .size = spec_.units * features_});
    return rounded;
  }
  void* work() const { return scratch<void>(work_at_); }

  const DenseSpec spec_;
  const std::int64_t batch_, features_;
  const bool is_reordered_;  // x is put into row-major order first
  const BiasAndRelu bias_and_relu_;
  const Matmul forward_, backward_weights_;
  std::optional<Matmul> backward_data_;
  ScratchPlan scratch_;
  std::size_t weight_at_ = 0, dx_at_ = 0, work_at_ = 0;
};

}  // namespace

std::unique_ptr<Op> MakeOp(const Device& device, const DenseSpec& spec) {
  LOCKSTEP_CHECK(spec.x.shape.rank() >= 2 && spec.units > 0,
                 "dense: {} units on x of shape {}, expected at least 1 on N,…", spec.units,
                 spec.x.shape.ToString());
  return std::make_unique<Dense>(device, spec);
}

}  // namespace lockstep::train::cuda
