#include "trainer/backend/low_precision_op.h"

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "base/check.h"
#include "trainer/backend/scratch_plan.h"

namespace lockstep::train {
namespace {

// The inputs of any spec, of which there are one or several.
std::span<TensorDesc> InputsOf(TensorDesc& x) {
  return {&x, 1};
}
std::span<const TensorDesc> InputsOf(const TensorDesc& x) {
  return {&x, 1};
}
std::span<TensorDesc> InputsOf(std::vector<TensorDesc>& x) {
  return x;
}
std::span<const TensorDesc> InputsOf(const std::vector<TensorDesc>& x) {
  return x;
}

TensorDesc As(TensorDesc desc, DType type) {
  desc.dtype = type;
  return desc;
}

class LowPrecisionOp final : public Op {
 public:
  LowPrecisionOp(std::unique_ptr<Op> op, DType type, CastFunction cast)
      : op_(std::move(op)), type_(type), cast_(std::move(cast)), output_(As(op_->output(), type)) {
    for (const TensorDesc& x : op_->inputs()) {
      inputs_.push_back(As(x, type));
      x_at_.push_back(ReserveFloats(x));
      dx_at_.push_back(ReserveFloats(x));
    }
    y_at_ = ReserveFloats(output_);
    dy_at_ = ReserveFloats(output_);
    for (const ParameterDesc& parameter : op_->Parameters()) {
      parameters_.push_back(parameter.desc);
      parameters_at_.push_back(
          IsRounded(parameter.desc)
              ? scratch_.Reserve(parameter.desc.bytes() + RoundedBytes(parameter.desc))
              : 0);
    }
    scratch_at_ = scratch_.Reserve(op_->ScratchBytes());
  }

  const std::vector<TensorDesc>& inputs() const override { return inputs_; }
  const TensorDesc& output() const override { return output_; }
  std::vector<ParameterDesc> Parameters() const override { return op_->Parameters(); }
  std::vector<ParameterDesc> States() const override { return op_->States(); }
  std::size_t WorkspaceBytes() const override { return op_->WorkspaceBytes(); }
  std::size_t ScratchBytes() const override { return scratch_.bytes(); }
  bool BackwardInPlace() const override { return op_->BackwardInPlace(); }
  BackwardReads Reads() const override { return op_->Reads(); }
  std::vector<OpChoice> Choices() const override {
    std::vector<OpChoice> choices = op_->Choices();
    for (OpChoice& choice : choices) {
      choice.implementation +=
          std::string(" in float32, cast from ") + std::string(DTypeName(type_));
    }
    return choices;
  }

  void Bind(const OpMemory& memory) override {
    memory_ = memory;
    floats_ = memory;
    floats_.y = At(y_at_);
    if (memory.dy != nullptr) floats_.dy = At(dy_at_);
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      floats_.x[i] = At(x_at_[i]);
      if (memory.dx[i] != nullptr) floats_.dx[i] = At(dx_at_[i]);
    }
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      if (IsRounded(parameters_[i]))
        floats_.parameters[i] = reinterpret_cast<float*>(At(parameters_at_[i]));
    }
    floats_.scratch = At(scratch_at_);
    op_->Bind(floats_);
  }

  void Forward(Mode mode, const StepContext& step) override {
    WriteOutput([&] { op_->Forward(mode, step); });
  }
  void Restore(const StepContext& step) override {
    WriteOutput([&] { op_->Restore(step); });
  }

  void Backward(const StepContext& step) override {
    const BackwardReads reads = op_->Reads();
    if (reads.x) LoadInputs();
    LoadParameters();
    if (reads.y) Load(memory_.y, floats_.y, output_);
    Load(memory_.dy, floats_.dy, output_);
    op_->Backward(step);
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      if (memory_.dx[i] != nullptr) Store(floats_.dx[i], memory_.dx[i], inputs_[i]);
    }
  }

 private:
  // Vectors (biases, a normalization's factors) are few and keep their precision.
  static bool IsRounded(const TensorDesc& parameter) { return parameter.shape.rank() > 1; }
  std::size_t RoundedBytes(const TensorDesc& parameter) const {
    return static_cast<std::size_t>(parameter.elements()) * SizeOf(type_);
  }

  std::size_t ReserveFloats(const TensorDesc& tensor) {
    return scratch_.Reserve(static_cast<std::size_t>(tensor.elements()) * sizeof(float));
  }
  std::byte* At(std::size_t offset) const {
    return static_cast<std::byte*>(memory_.scratch) + offset;
  }

  void Load(const void* from, void* to, const TensorDesc& tensor) const {
    cast_({.x = from, .from = type_, .y = to, .to = DType::kFloat32, .size = tensor.elements()});
  }
  void Store(const void* from, void* to, const TensorDesc& tensor) const {
    cast_({.x = from, .from = DType::kFloat32, .y = to, .to = type_, .size = tensor.elements()});
  }

  // `pass` computes y.
  template <typename Pass>
  void WriteOutput(const Pass& pass) const {
    LoadInputs();
    LoadParameters();
    pass();
    Store(floats_.y, memory_.y, output_);
  }

  // Scratch memory is not preserved from Forward to Backward, so both load what they read.
  void LoadInputs() const {
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      Load(memory_.x[i], At(x_at_[i]), inputs_[i]);
    }
  }

  void LoadParameters() const {
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      if (!IsRounded(parameters_[i])) continue;
      std::byte* const floats = At(parameters_at_[i]);
      std::byte* const rounded = floats + parameters_[i].bytes();
      Store(memory_.parameters[i], rounded, parameters_[i]);
      Load(rounded, floats, parameters_[i]);
    }
  }

  const std::unique_ptr<Op> op_;
  const DType type_;
  const CastFunction cast_;
  std::vector<TensorDesc> inputs_;
  TensorDesc output_;
  std::vector<TensorDesc> parameters_;
  ScratchPlan scratch_;
  // Offsets in scratch memory. A parameter that is rounded has its floats there, then its rounded
  // values.
  std::vector<std::size_t> x_at_, dx_at_, parameters_at_;
  std::size_t y_at_ = 0, dy_at_ = 0, scratch_at_ = 0;
  OpMemory memory_, floats_;
};

class CastOp final : public Op {
 public:
  CastOp(const TensorDesc& x, DType to, CastFunction cast)
      : inputs_{x}, output_(As(x, to)), cast_(std::move(cast)) {
    LOCKSTEP_CHECK(x.dtype != to && IsFloat(x.dtype) && IsFloat(to) &&
                       (x.dtype == DType::kFloat32 || to == DType::kFloat32),
                   "cast: from {} to {}, expected float32 and a 16-bit type", DTypeName(x.dtype),
                   DTypeName(to));
  }
  const std::vector<TensorDesc>& inputs() const override { return inputs_; }
  const TensorDesc& output() const override { return output_; }
  BackwardReads Reads() const override { return {.x = false, .y = false}; }
  void Bind(const OpMemory& memory) override { memory_ = memory; }
  void Forward(Mode, const StepContext&) override {
    Cast(memory_.x[0], memory_.y, inputs_[0].dtype, output_.dtype);
  }
  void Backward(const StepContext&) override {
    if (memory_.dx[0] == nullptr) return;
    Cast(memory_.dy, memory_.dx[0], output_.dtype, inputs_[0].dtype);
  }

 private:
  void Cast(const void* x, void* y, DType from, DType to) const {
    cast_({.x = x, .from = from, .y = y, .to = to, .size = output_.elements()});
  }

  std::vector<TensorDesc> inputs_;
  TensorDesc output_;
  CastFunction cast_;
  OpMemory memory_;
};

}  // namespace

DType TypeOf(const OpSpec& spec) {
  return std::visit(
      [](const auto& op) {
        const std::span<const TensorDesc> inputs = InputsOf(op.x);
        const DType type = inputs.empty() ? DType::kFloat32 : inputs.front().dtype;
        for (const TensorDesc& x : inputs) {
          LOCKSTEP_CHECK(x.dtype == type && IsFloat(type),
                         "op: inputs of {} and {}, expected floats of one type", DTypeName(type),
                         DTypeName(x.dtype));
        }
        return type;
      },
      spec);
}

OpSpec WithType(OpSpec spec, DType type) {
  std::visit(
      [type](auto& op) {
        for (TensorDesc& x : InputsOf(op.x)) x.dtype = type;
      },
      spec);
  return spec;
}

std::unique_ptr<Op> MakeLowPrecisionOp(std::unique_ptr<Op> op, DType type, CastFunction cast) {
  return std::make_unique<LowPrecisionOp>(std::move(op), type, std::move(cast));
}

std::unique_ptr<Op> MakeCastOp(const TensorDesc& x, DType to, CastFunction cast) {
  return std::make_unique<CastOp>(x, to, std::move(cast));
}

}  // namespace lockstep::train
