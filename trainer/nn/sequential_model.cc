#include "trainer/nn/sequential_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "trainer/nn/initial_values.h"
#include "trainer/nn/memory_plan.h"

namespace lockstep::train {
namespace {

constexpr std::size_t kNotWanted = std::numeric_limits<std::size_t>::max();
constexpr std::int64_t kAlignedFloats = kArenaAlignment / sizeof(float);

absl::Status CheckOptions(const ModelOptions& options) {
  const bool image = options.input.rank() == 3 || options.input.rank() == 1;
  const auto& dims = options.input.dims();
  if (options.batch < 1 || options.classes < 1 || !image ||
      std::any_of(dims.begin(), dims.end(), [](std::int64_t dim) { return dim < 1; })) {
    return absl::InvalidArgumentError(
        fmt::format("model: found batch {}, samples of {} and {} classes, expected positive "
                    "numbers and [C,H,W]",
                    options.batch, options.input.ToString(), options.classes));
  }
  return absl::OkStatus();
}

void ReserveFloats(Arena& arena, std::int64_t floats) {
  arena.Reserve(static_cast<std::size_t>(floats) * sizeof(float));
  arena.Allocate();
}

void Fill(const FlatRange& range, std::uint64_t seed, Backend& backend, float* memory) {
  for (std::size_t i = 0; i < range.slots().size(); ++i) {
    const std::vector<float> dense = InitialValues(range.descs()[i], seed, i);
    backend.FromDense(dense.data(), range.slots()[i].desc, memory + range.slots()[i].offset);
  }
  backend.Synchronize();
}

// Lowers `*shortest` to this object's lifetime in seconds. No-op for null.
class ShortestTime {
 public:
  explicit ShortestTime(double* shortest) : shortest_(shortest) {
    if (shortest_ != nullptr) start_ = std::chrono::steady_clock::now();
  }
  ShortestTime(const ShortestTime&) = delete;
  ShortestTime& operator=(const ShortestTime&) = delete;
  ~ShortestTime() {
    if (shortest_ == nullptr) return;
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start_;
    *shortest_ = std::min(*shortest_, took.count());
  }

 private:
  double* shortest_;
  std::chrono::steady_clock::time_point start_;
};

}  // namespace

void FlatRange::Append(const std::string& op_name, const ParameterDesc& parameter) {
  const auto floats = static_cast<std::int64_t>(parameter.desc.bytes() / sizeof(float));
  slots_.push_back({.name = fmt::format("{}/{}", op_name, parameter.name),
                    .desc = parameter.desc,
                    .offset = size_,
                    .size = floats});
  descs_.push_back(parameter);
  size_ += (floats + kAlignedFloats - 1) / kAlignedFloats * kAlignedFloats;
}

absl::StatusOr<std::unique_ptr<Model>> Model::Build(const std::vector<nlohmann::json>& layers,
                                                    const ModelOptions& options, Backend& backend) {
  LOCKSTEP_RETURN_IF_ERROR(CheckOptions(options));
  LOCKSTEP_ASSIGN_OR_RETURN(std::vector<Layer> parsed, ParseLayers(layers));
  LOCKSTEP_ASSIGN_OR_RETURN(std::vector<NamedOp> ops,
                            CompileLayers(FuseLayers(std::move(parsed)), options, backend));
  std::unique_ptr<Model> model =
      std::make_unique<SequentialModel>(std::move(ops), options, backend);
  model->InitializeParameters();
  return model;
}

SequentialModel::SequentialModel(std::vector<NamedOp> ops, const ModelOptions& options,
                                 Backend& backend)
    : ops_(std::move(ops)), options_(options), backend_(backend) {
  for (const NamedOp& op : ops_) {
    op_slots_.push_back(
        {.first_parameter = parameters_.slots().size(), .first_state = states_.slots().size()});
    for (const ParameterDesc& parameter : op.op->Parameters()) {
      parameters_.Append(op.name, parameter);
    }
    for (const ParameterDesc& state : op.op->States()) states_.Append(op.name, state);
  }
  ReserveFloats(values_, parameters_.size());
  ReserveFloats(own_gradients_, parameters_.size());
  ReserveFloats(state_values_, states_.size());
  gradients_ = own_gradients_.At<float>(0);
  PlanActivations();
  BindOps();
}

bool SequentialModel::NeedsBackward(const NamedOp& op) const {
  return op.input_gradient || !op.op->Parameters().empty();
}

// Times: at 0 the caller writes the input; at i + 1 op i runs forward; at ops + 1 the loss runs; at
// 2 * ops + 1 - i op i runs backward. An op's backward pass may read its input and output, so both
// live until then. Activations are never reused in place, because the op before may still need its
// unchanged output. An activation's gradient lives from one op's backward pass to the next one's.
void SequentialModel::PlanActivations() {
  const int ops = static_cast<int>(ops_.size());
  const int loss = ops + 1, end = 2 * ops + 1;
  const auto backward = [&](int op) { return end - op; };
  std::vector<Lifetime> lifetimes;
  const auto add = [&](std::size_t bytes, int first, int last) {
    lifetimes.push_back({bytes, first, last});
    return lifetimes.size() - 1;
  };

  std::vector<std::size_t> activations, gradients(ops_.size() + 1, kNotWanted), workspaces;
  activations.push_back(add(ops_[0].op->input().bytes(), 0, backward(0)));
  for (int i = 0; i < ops; ++i) {
    const Op& op = *ops_[static_cast<std::size_t>(i)].op;
    const int last = i + 1 == ops ? end : backward(i);  // logits are also read after the step
    activations.push_back(add(op.output().bytes(), i + 1, last));
    workspaces.push_back(add(op.WorkspaceBytes(), i + 1, backward(i)));
  }
  gradients.back() = add(ops_.back().op->output().bytes(), loss, backward(ops - 1));
  for (int i = ops - 1; i >= 1; --i) {
    const NamedOp& op = ops_[static_cast<std::size_t>(i)];
    if (!op.input_gradient) break;
    std::size_t& dx = gradients[static_cast<std::size_t>(i)];
    const std::size_t dy = gradients[static_cast<std::size_t>(i) + 1];
    if (op.op->BackwardInPlace() && op.op->input().bytes() == op.op->output().bytes()) {
      dx = dy;
      lifetimes[dy].last = backward(i - 1);
    } else {
      dx = add(op.op->input().bytes(), backward(i), backward(i - 1));
    }
  }
  std::size_t scratch_bytes = 0;
  for (const NamedOp& op : ops_) scratch_bytes = std::max(scratch_bytes, op.op->ScratchBytes());
  const std::size_t scratch = add(scratch_bytes, 0, end);

  const MemoryPlan plan = PlanMemory(lifetimes);
  const auto places = [&](const std::vector<std::size_t>& buffers) {
    std::vector<std::size_t> offsets;
    for (const std::size_t buffer : buffers) {
      offsets.push_back(buffer == kNotWanted ? kNotWanted : plan.offsets[buffer]);
    }
    return offsets;
  };
  activations_ = places(activations);
  activation_gradients_ = places(gradients);
  workspaces_ = places(workspaces);
  scratch_ = plan.offsets[scratch];
  buffers_.Reserve(plan.bytes);
  buffers_.Allocate();
}

OpMemory SequentialModel::MemoryOf(std::size_t i) const {
  const auto wanted = [&](std::size_t offset) {
    return offset == kNotWanted ? nullptr : buffers_.At(offset);
  };
  OpMemory memory;
  memory.x = buffers_.At(activations_[i]);
  memory.y = buffers_.At(activations_[i + 1]);
  memory.dy = wanted(activation_gradients_[i + 1]);
  memory.dx = wanted(activation_gradients_[i]);
  memory.workspace = buffers_.At(workspaces_[i]);
  memory.scratch = buffers_.At(scratch_);
  const std::size_t parameters = ops_[i].op->Parameters().size();
  for (std::size_t p = 0; p < parameters; ++p) {
    const TensorSlot& slot = parameters_.slots()[op_slots_[i].first_parameter + p];
    memory.parameters.push_back(values_.At<float>(0) + slot.offset);
    memory.gradients.push_back(gradients_ + slot.offset);
  }
  const std::size_t states = ops_[i].op->States().size();
  for (std::size_t s = 0; s < states; ++s) {
    const TensorSlot& slot = states_.slots()[op_slots_[i].first_state + s];
    memory.states.push_back(state_values_.At<float>(0) + slot.offset);
  }
  return memory;
}

void SequentialModel::BindOps() {
  for (std::size_t i = 0; i < ops_.size(); ++i) ops_[i].op->Bind(MemoryOf(i));
}

void SequentialModel::BindGradients(float* memory) {
  LOCKSTEP_CHECK(reinterpret_cast<std::uintptr_t>(memory) % kArenaAlignment == 0,
                 "model: gradients at {}, expected alignment to {} bytes",
                 static_cast<const void*>(memory), kArenaAlignment);
  std::fill_n(memory, parameters_.size(), 0.0f);  // the gaps between tensors stay zero
  gradients_ = memory;
  BindOps();
}

void SequentialModel::InitializeParameters() {
  Fill(parameters_, options_.seed, backend_, values_.At<float>(0));
  Fill(states_, options_.seed, backend_, state_values_.At<float>(0));
}

std::string SequentialModel::LayoutFingerprint() const {
  std::string text;
  for (const FlatRange* range : {&parameters_, &states_}) {
    for (const TensorSlot& slot : range->slots()) {
      text += fmt::format("{}{}@{}:{};", slot.name, slot.desc.shape.ToString(), slot.offset,
                          slot.desc.dense() ? "dense" : slot.desc.layout->Fingerprint());
    }
  }
  return text;
}

StepContext SequentialModel::Seeded(StepContext step) const {
  LOCKSTEP_CHECK(step.valid >= 0 && step.valid <= options_.batch,
                 "model: {} valid rows in a batch of {}", step.valid, options_.batch);
  step.seed = options_.seed;
  return step;
}

void SequentialModel::Forward(const StepContext& step) {
  const StepContext seeded = Seeded(step);
  for (std::size_t i = 0; i < ops_.size(); ++i) {
    const ShortestTime timer(times_.empty() ? nullptr : &times_[i].forward);
    ops_[i].op->Forward(seeded);
  }
}

void SequentialModel::Backward(const StepContext& step,
                               const std::function<void(std::int64_t, std::int64_t)>& on_ready) {
  const StepContext seeded = Seeded(step);
  std::int64_t end = parameters_.size();
  for (std::size_t i = ops_.size(); i-- > 0;) {
    if (!NeedsBackward(ops_[i])) break;  // no earlier op has parameters
    {
      const ShortestTime timer(times_.empty() ? nullptr : &times_[i].backward);
      ops_[i].op->Backward(seeded);
    }
    const std::size_t first = op_slots_[i].first_parameter;
    if (first == parameters_.slots().size()) continue;
    const std::int64_t begin = parameters_.slots()[first].offset;
    if (begin == end) continue;  // an op without parameters has the next op's offset
    on_ready(begin, end - begin);
    end = begin;
  }
}

std::span<float> SequentialModel::parameters() {
  return {values_.At<float>(0), static_cast<std::size_t>(parameters_.size())};
}
std::span<float> SequentialModel::gradients() {
  return {gradients_, static_cast<std::size_t>(parameters_.size())};
}
std::span<float> SequentialModel::states() {
  return {state_values_.At<float>(0), static_cast<std::size_t>(states_.size())};
}
float* SequentialModel::input() {
  return buffers_.At<float>(activations_.front());
}
const float* SequentialModel::logits() const {
  return buffers_.At<float>(activations_.back());
}
float* SequentialModel::logits_gradient() {
  return buffers_.At<float>(activation_gradients_.back());
}
std::size_t SequentialModel::MemoryBytes() const {
  return values_.bytes() + own_gradients_.bytes() + state_values_.bytes() + buffers_.bytes();
}

void SequentialModel::Watch() {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  times_.assign(ops_.size(), {.forward = kNever, .backward = kNever});
}

std::vector<OpReport> SequentialModel::Report() const {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  std::vector<OpReport> reports;
  for (std::size_t i = 0; i < ops_.size(); ++i) {
    const Op& op = *ops_[i].op;
    reports.push_back({.name = ops_[i].name,
                       .x = op.input().shape,
                       .y = op.output().shape,
                       .choices = op.Choices(),
                       .forward_seconds = times_.empty() ? kNever : times_[i].forward,
                       .backward_seconds = times_.empty() ? kNever : times_[i].backward});
  }
  return reports;
}

}  // namespace lockstep::train
