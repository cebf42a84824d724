#include "trainer/nn/graph_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>

#include "base/check.h"
#include "base/digest.h"
#include "base/status.h"
#include "trainer/backend/settle.h"
#include "trainer/nn/initial_values.h"

namespace lockstep::train {
namespace {

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

void AllocateFloats(Arena& arena, std::int64_t floats, MemorySource& source) {
  arena.Reserve(static_cast<std::size_t>(floats) * sizeof(float));
  arena.Allocate(source);
}

// `first`: the place of the range's first tensor in the whole model.
void Fill(const FlatTensors& range, std::size_t first, std::uint64_t seed, Backend& backend,
          float* memory) {
  for (std::size_t i = 0; i < range.slots().size(); ++i) {
    const std::vector<float> dense = InitialValues(range.descs()[i], seed, first + i);
    backend.FromDense(dense.data(), range.slots()[i].desc, memory + range.slots()[i].offset);
  }
  backend.Synchronize();
}

// Does `work`, and lowers `*shortest`, unless it is null, to the seconds that the device took.
template <typename Work>
void Time(double* shortest, Backend& backend, const Work& work) {
  if (shortest == nullptr) return work();
  backend.Synchronize();
  const auto start = std::chrono::steady_clock::now();
  work();
  backend.Synchronize();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  *shortest = std::min(*shortest, took.count());
}

}  // namespace

absl::StatusOr<std::unique_ptr<Model>> Model::Build(const std::vector<nlohmann::json>& layers,
                                                    const ModelOptions& options, Backend& backend) {
  LOCKSTEP_RETURN_IF_ERROR(CheckOptions(options));
  LOCKSTEP_ASSIGN_OR_RETURN(std::vector<Layer> parsed, ParseLayers(layers));
  LOCKSTEP_RETURN_IF_ERROR(RemoveOutputActivation(options.outputs, parsed));
  LOCKSTEP_ASSIGN_OR_RETURN(std::vector<NamedOp> ops,
                            CompileLayers(FuseLayers(std::move(parsed)), options, backend));
  LOCKSTEP_ASSIGN_OR_RETURN(ModelPart part, TakeStage(std::move(ops), options.stage));
  std::unique_ptr<Model> model = std::make_unique<GraphModel>(std::move(part), options, backend);
  if (options.initializes && options.shares_with == nullptr) model->InitializeParameters();
  return model;
}

GraphModel::GraphModel(ModelPart part, const ModelOptions& options, Backend& backend)
    : ops_(std::move(part.ops)),
      options_(options),
      backend_(backend),
      whole_parameters_(std::move(part.parameters)),
      whole_states_(std::move(part.states)),
      first_parameter_(part.first_parameter),
      first_state_(part.first_state),
      stages_fingerprint_(std::move(part.fingerprint)) {
  for (const NamedOp& op : ops_) {
    op_slots_.push_back(
        {.first_parameter = parameters_.slots().size(), .first_state = states_.slots().size()});
    for (const ParameterDesc& parameter : op.op->Parameters()) {
      parameters_.Append(op.name, parameter);
    }
    for (const ParameterDesc& state : op.op->States()) states_.Append(op.name, state);
  }
  AllocateTensors();
  PlanBuffers();
  BindOps();
}

void GraphModel::AllocateTensors() {
  if (Model* const other = options_.shares_with; other != nullptr) {
    parameter_memory_ = other->parameters().data();
    state_memory_ = other->states().data();
    gradients_ = options_.trains ? other->gradients().data() : nullptr;
    return;
  }
  AllocateFloats(values_, parameters_.size(),
                 options_.parameter_memory ? *options_.parameter_memory : backend_.memory());
  AllocateFloats(state_values_, states_.size(), backend_.memory());
  parameter_memory_ = values_.At<float>(0);
  state_memory_ = state_values_.At<float>(0);
  if (!options_.trains) return;
  AllocateFloats(own_gradients_.emplace(), parameters_.size(), backend_.memory());
  gradients_ = own_gradients_->At<float>(0);
}

// The memory must outlive the work that is queued on it.
GraphModel::~GraphModel() {
  Settle(backend_);
}

void GraphModel::BindOps() {
  for (std::size_t i = 0; i < ops_.size(); ++i) ops_[i].op->Bind(MemoryOf(i));
}

void GraphModel::BindGradients(float* memory) {
  LOCKSTEP_CHECK(reinterpret_cast<std::uintptr_t>(memory) % kArenaAlignment == 0,
                 "model: gradients at {}, expected alignment to {} bytes",
                 static_cast<const void*>(memory), kArenaAlignment);
  LOCKSTEP_CHECK(options_.trains, "model: gradients for a model that only evaluates");
  // The gaps between tensors stay zero.
  backend_.Zero(memory, static_cast<std::size_t>(parameters_.size()) * sizeof(float));
  gradients_ = memory;
  BindOps();
  backend_.Synchronize();  // what is queued may use the memory that is freed
  own_gradients_.reset();
}

void GraphModel::InitializeParameters() {
  Fill(parameters_, first_parameter_, options_.seed, backend_, parameter_memory_);
  Fill(states_, first_state_, options_.seed, backend_, state_memory_);
}

std::string GraphModel::LayoutFingerprint() const {
  // Two processors, or two versions, may have equal tensors and different layouts.
  std::uint64_t tensors = kEmptyDigest, layouts = kEmptyDigest;
  for (const FlatTensors* range : {&whole_parameters_, &whole_states_}) {
    for (const TensorSlot& slot : range->slots()) {
      tensors = Digest(fmt::format("{}{};", slot.name, slot.desc.shape.ToString()), tensors);
      layouts = Digest(fmt::format("@{}:{};", slot.offset,
                                   slot.desc.dense() ? "dense" : slot.desc.layout->Fingerprint()),
                       layouts);
    }
    tensors = Digest("|", tensors);
    layouts = Digest(fmt::format("|{}", range->size()), layouts);
  }
  return fmt::format(
      "parameterTensors={};stateTensors={};tensorsDigest={:016x};memoryLayouts={:016x};{}",
      whole_parameters_.slots().size(), whole_states_.slots().size(), tensors, layouts,
      stages_fingerprint_);
}

void GraphModel::SetStep(const StepContext& step) {
  LOCKSTEP_CHECK(step.valid >= 0 && step.valid <= options_.batch,
                 "model: {} valid rows in a batch of {}", step.valid, options_.batch);
  StepContext seeded = step;
  seeded.seed = options_.seed;
  backend_.Upload(&seeded, this->step(), sizeof(seeded));
}

void GraphModel::Forward(Mode mode) {
  for (std::size_t i = 0; i < ops_.size(); ++i) {
    Time(times_.empty() ? nullptr : &times_[i].forward, backend_,
         [&] { ops_[i].op->Forward(mode, *step()); });
  }
}

void GraphModel::Backward(const std::function<void(std::int64_t, std::int64_t)>& on_ready) {
  std::int64_t end = parameters_.size();
  for (std::size_t i = ops_.size(); i-- > 0;) {
    if (!ops_[i].NeedsBackward()) continue;
    Time(times_.empty() ? nullptr : &times_[i].backward, backend_, [&] {
      for (const int restored : op_buffers_[i].restored) {
        ops_[static_cast<std::size_t>(restored)].op->Restore(*step());
      }
      ops_[i].op->Backward(*step());
      AccumulateGradients(op_buffers_[i]);
    });
    const std::size_t first = op_slots_[i].first_parameter;
    if (first == parameters_.slots().size()) continue;
    const std::int64_t begin = parameters_.slots()[first].offset;
    if (begin == end) continue;  // an op without parameters has the next op's offset
    on_ready(begin, end - begin);
    end = begin;
  }
}

std::span<float> GraphModel::parameters() {
  return {parameter_memory_, static_cast<std::size_t>(parameters_.size())};
}
std::span<float> GraphModel::gradients() {
  return {gradients_, options_.trains ? static_cast<std::size_t>(parameters_.size()) : 0};
}
std::span<float> GraphModel::states() {
  return {state_memory_, static_cast<std::size_t>(states_.size())};
}
float* GraphModel::input() {
  return buffers_.At<float>(samples_);
}
const float* GraphModel::logits() const {
  return buffers_.At<float>(op_buffers_.back().y);
}
float* GraphModel::logits_gradient() {
  LOCKSTEP_CHECK(options_.trains, "model: a gradient of a model that only evaluates");
  return buffers_.At<float>(op_buffers_.back().dy);
}
Model::Border GraphModel::InputBorder() {
  LOCKSTEP_CHECK(!options_.stage.is_first(), "model: the first stage has no stage before it");
  const auto reads_samples = [](const NamedOp& op) {
    return std::ranges::find(op.inputs, kSamples) != op.inputs.end();
  };
  const NamedOp& reader = *std::ranges::find_if(ops_, reads_samples);
  const auto input = std::ranges::find(reader.inputs, kSamples) - reader.inputs.begin();
  return {.value = buffers_.At(samples_),
          .gradient = options_.trains ? buffers_.At(samples_gradient_) : nullptr,
          .bytes = reader.op->inputs()[static_cast<std::size_t>(input)].bytes()};
}
Model::Border GraphModel::OutputBorder() {
  LOCKSTEP_CHECK(!options_.stage.is_last(), "model: the last stage has no stage after it");
  const OpBuffers& last = op_buffers_.back();
  return {.value = buffers_.At(last.y),
          .gradient = options_.trains ? buffers_.At(last.dy) : nullptr,
          .bytes = ops_.back().op->output().bytes()};
}
ModelMemory GraphModel::Memory() const {
  return {.parameters = values_.bytes(),
          .states = state_values_.bytes(),
          .gradients = own_gradients_ ? own_gradients_->bytes() : 0,
          .activations = buffers_.bytes() - scratch_bytes_,
          .scratch = scratch_bytes_};
}

namespace {

std::int64_t ElementsOf(const std::vector<ParameterDesc>& tensors) {
  std::int64_t elements = 0;
  for (const ParameterDesc& tensor : tensors) elements += tensor.desc.shape.elements();
  return elements;
}

}  // namespace

void GraphModel::Watch() {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  times_.assign(ops_.size(), {.forward = kNever, .backward = kNever});
}

std::vector<OpReport> GraphModel::Report() const {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  std::vector<OpReport> reports;
  for (std::size_t i = 0; i < ops_.size(); ++i) {
    const Op& op = *ops_[i].op;
    reports.push_back({.name = ops_[i].name,
                       .facts = ops_[i].facts,
                       .x = op.input().shape,
                       .y = op.output().shape,
                       .parameters = ElementsOf(op.Parameters()),
                       .states = ElementsOf(op.States()),
                       .choices = op.Choices(),
                       .forward_seconds = times_.empty() ? kNever : times_[i].forward,
                       .backward_seconds = times_.empty() ? kNever : times_[i].backward});
  }
  return reports;
}

}  // namespace lockstep::train
