#include "base/check.h"
#include "trainer/backend/cuda/bound_op.h"
#include "trainer/backend/cuda/channel_sums.h"
#include "trainer/backend/cuda/ops.h"
#include "trainer/backend/parameters.h"
#include "trainer/backend/scratch_plan.h"

namespace lockstep::train::cuda {
namespace {

class BatchNorm final : public BoundOp {
 public:
  BatchNorm(const Device& device, const BatchNormSpec& spec)
      : BoundOp("batch_norm", device, spec.x, spec.x), spec_(spec), sums_(spec.x) {
    plan_.Reserve(sums_.bytes());
    gradient_means_at_ = plan_.Reserve(MomentsBytes());
  }

  std::vector<ParameterDesc> Parameters() const override { return ParametersOf(spec_); }
  std::vector<ParameterDesc> States() const override { return StatesOf(spec_); }
  // mean[c] and 1 / sqrt(variance[c] + epsilon) of the step.
  std::size_t WorkspaceBytes() const override { return MomentsBytes(); }
  // Sums, and the means of the gradients.
  std::size_t ScratchBytes() const override { return plan_.bytes(); }

  BackwardReads Reads() const override { return {.x = true, .y = false}; }
  void Forward(Mode mode, const StepContext& step) override {
    if (mode == Mode::kTraining) {
      Measure(step);
    } else {
      device().Launch(LOCKSTEP_CUDA_KERNEL(TakeMovingMoments), device().GridFor(sums_.channels()),
                      state(0), state(1), sums_.channels(), spec_.epsilon, means(),
                      inverse_deviations());
    }
    Normalize(step);
  }
  void Restore(const StepContext& step) override { Normalize(step); }

  void Backward(const StepContext& step) override {
    device().Launch(LOCKSTEP_CUDA_KERNEL(SumGradients), sums_.PartsGrid(), x(), dy(), type(),
                    parameter(0), parameter(1), means(), inverse_deviations(), spec_.relu,
                    scratch<double>(), &step, sums_.channels(), sums_.area(), sums_.are_inner(),
                    sums_.columns());
    device().Launch(LOCKSTEP_CUDA_KERNEL(WriteGradients), sums_.ChannelsGrid(), scratch<double>(),
                    sums_.parts(), sums_.channels(), gradient(0), gradient(1), gradient_means(),
                    &step, sums_.area());
    if (dx() == nullptr) return;
    device().Launch(LOCKSTEP_CUDA_KERNEL(NormalizeChannelsBackward), sums_.WalkGrid(), x(), dy(),
                    dx(), type(), parameter(0), parameter(1), means(), inverse_deviations(),
                    gradient_means(), spec_.relu, &step, input().shape[0], sums_.channels(),
                    sums_.area(), sums_.are_inner(), sums_.columns());
  }

 private:
  void Measure(const StepContext& step) const {
    device().Launch(LOCKSTEP_CUDA_KERNEL(SumChannels), sums_.PartsGrid(), x(), type(),
                    scratch<double>(), &step, sums_.channels(), sums_.area(), sums_.are_inner(),
                    sums_.columns());
    device().Launch(LOCKSTEP_CUDA_KERNEL(MeasureChannels), sums_.ChannelsGrid(), scratch<double>(),
                    sums_.parts(), sums_.channels(), &step, sums_.area(), spec_.momentum,
                    spec_.epsilon, state(0), state(1), means(), inverse_deviations());
  }

  void Normalize(const StepContext& step) const {
    device().Launch(LOCKSTEP_CUDA_KERNEL(NormalizeChannels), sums_.WalkGrid(), x(), y(), type(),
                    parameter(0), parameter(1), means(), inverse_deviations(), spec_.relu, &step,
                    input().shape[0], sums_.channels(), sums_.area(), sums_.are_inner(),
                    sums_.columns());
  }

  std::size_t MomentsBytes() const {
    return static_cast<std::size_t>(2 * sums_.channels()) * sizeof(double);
  }
  double* means() const { return workspace<double>(); }
  double* inverse_deviations() const { return means() + sums_.channels(); }
  double* gradient_means() const { return scratch<double>(gradient_means_at_); }

  const BatchNormSpec spec_;
  const ChannelSums sums_;
  ScratchPlan plan_;
  std::size_t gradient_means_at_ = 0;
};

}  // namespace

std::unique_ptr<Op> MakeOp(const Device& device, const BatchNormSpec& spec) {
  LOCKSTEP_CHECK(spec.x.shape.rank() == 4 || spec.x.shape.rank() == 2,
                 "batch_norm: x has shape {}, expected N,C,H,W or N,C", spec.x.shape.ToString());
  return std::make_unique<BatchNorm>(device, spec);
}

}  // namespace lockstep::train::cuda
