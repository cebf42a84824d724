// The memory of a graph's steps.
#include <algorithm>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "base/check.h"
#include "trainer/nn/graph_model.h"
#include "trainer/nn/memory_plan.h"
#include "trainer/nn/restored_outputs.h"

namespace lockstep::train {
namespace {

constexpr std::size_t kNotWanted = std::numeric_limits<std::size_t>::max();

// The buffers of a graph's steps, by number; the plan turns them into offsets.
//
// Times: at 0 the caller writes the samples; at i + 1 op i runs forward; at ops + 1 the loss runs;
// at 2 * ops + 1 - i op i runs backward. What an op writes lives until the last pass that reads it:
// the forward pass of a reader, or the backward pass of a reader or of the op itself (Op::Reads).
// An output that is restored lives until its last forward pass, and again from the first backward
// pass that reads it, or restores something from it, to the last. Activations are never reused in
// place, because an op may still need its unchanged output. A tensor's gradient lives from the
// backward pass of its last reader to that of its op.
//
// A model that does not train has no backward passes.
//
// In a stage that is not the first, the samples are the output of the stage before. Their gradient
// is sent to it after the last backward pass, at the time of the backward pass of an op before the
// first.
class BufferPlan {
 public:
  struct Gradient {
    std::size_t written = kNotWanted, sum = kNotWanted;
  };
  struct Buffers {
    std::vector<Gradient> dx;
    std::size_t y = 0, dy = kNotWanted, workspace = 0;
    std::vector<int> restored;  // as in OpBuffers
  };

  // `restored`: see ChooseRestored. Not used if the model does not train.
  BufferPlan(const std::vector<NamedOp>& ops, bool trains, std::vector<bool> restored)
      : ops_(ops),
        count_(static_cast<int>(ops.size())),
        end_(2 * count_ + 1),
        trains_(trains),
        restored_(std::move(restored)),
        ops_buffers_(ops.size()) {
    samples_ = Add(SampleBytes(), 0, LastForwardUse(kSamples));
    for (int i = 0; i < count_; ++i) {
      const Op& op = *At(i).op;
      // The logits are also read after the step.
      Of(i).y = Add(op.output().bytes(), i + 1, i + 1 == count_ ? end_ : LastForwardUse(i));
      Of(i).workspace = Add(op.WorkspaceBytes(), i + 1, trains_ ? Backward(i) : i + 1);
      Of(i).dx.resize(At(i).inputs.size());
    }
    if (trains_) {
      for (int i = count_ - 1; i >= 0; --i) AddBackwardUses(i);
      AddGradients();
    }
    std::size_t scratch_bytes = 0;
    for (const NamedOp& op : ops_) scratch_bytes = std::max(scratch_bytes, op.op->ScratchBytes());
    scratch_ = Add(scratch_bytes, 0, end_);
  }

  const std::vector<Lifetime>& lifetimes() const { return lifetimes_; }
  const Buffers& of(std::size_t op) const { return ops_buffers_[op]; }
  std::size_t samples() const { return samples_; }
  std::size_t samples_gradient() const { return samples_gradient_; }
  std::size_t scratch() const { return scratch_; }

 private:
  const NamedOp& At(int op) const { return ops_[static_cast<std::size_t>(op)]; }
  Buffers& Of(int op) { return ops_buffers_[static_cast<std::size_t>(op)]; }
  int Backward(int op) const { return end_ - op; }
  std::size_t& GradientOf(int producer) {
    return producer == kSamples ? samples_gradient_ : Of(producer).dy;
  }

  std::size_t Add(std::size_t bytes, int first, int last) {
    lifetimes_.push_back({.bytes = bytes, .used = {.first = first, .last = last}});
    return lifetimes_.size() - 1;
  }

  // When the output of op `producer`, or of the samples, is last used.
  int LastForwardUse(int producer) const {
    int last = producer == kSamples ? 0 : producer + 1;
    for (int i = 0; i < count_; ++i) {
      if (std::ranges::find(At(i).inputs, producer) != At(i).inputs.end()) last = i + 1;
    }
    return last;
  }

  // To be called for one op after the other in the order of their backward passes.
  void AddBackwardUses(int i) {
    if (!At(i).NeedsBackward()) return;
    const BackwardReads reads = At(i).op->Reads();
    if (reads.x) {
      for (const int input : At(i).inputs) Use(input, i);
    }
    if (reads.y) Use(i, i);
  }

  // The backward pass of op `reader` reads the output of op `producer`, or the samples, or restores
  // something from them.
  void Use(int producer, int reader) {
    Lifetime& lifetime = lifetimes_[producer == kSamples ? samples_ : Of(producer).y];
    const int time = Backward(reader);
    if (producer == kSamples || !restored_[static_cast<std::size_t>(producer)]) {
      lifetime.used.last = std::max(lifetime.used.last, time);
      return;
    }
    Period& again = lifetime.used_again;
    if (again.last < again.first) {
      for (const int input : At(producer).inputs) Use(input, reader);
      Of(reader).restored.push_back(producer);
      again.first = time;
    }
    again.last = time;
  }

  int FirstReaderOfSamples() const {
    for (int i = 0; i < count_; ++i) {
      if (std::ranges::find(At(i).inputs, kSamples) != At(i).inputs.end()) return i;
    }
    LOCKSTEP_CHECK(false, "model: no op reads the samples, expected at least one");
    return 0;
  }

  std::size_t SampleBytes() const {
    const NamedOp& reader = At(FirstReaderOfSamples());
    const auto input = std::ranges::find(reader.inputs, kSamples) - reader.inputs.begin();
    return reader.op->inputs()[static_cast<std::size_t>(input)].bytes();
  }

  // The last op first, so that an op's dy is known before its dx.
  void AddGradients() {
    Of(count_ - 1).dy = Add(At(count_ - 1).op->output().bytes(), count_ + 1, Backward(count_ - 1));
    for (int i = count_ - 1; i >= 0; --i) AddInputGradients(i);
  }

  void AddInputGradients(int i) {
    const NamedOp& op = At(i);
    for (std::size_t k = 0; k < op.inputs.size(); ++k) {
      if (!op.input_gradients[k]) continue;
      const int producer = op.inputs[k];
      const std::size_t bytes = op.op->inputs()[k].bytes();
      std::size_t& sum = GradientOf(producer);
      Gradient& dx = Of(i).dx[k];
      if (sum != kNotWanted) {
        dx = {.written = Add(bytes, Backward(i), Backward(i)), .sum = sum};
      } else if (k == 0 && op.op->BackwardInPlace() && bytes == op.op->output().bytes()) {
        dx.written = sum = Of(i).dy;
        lifetimes_[sum].used.last = Backward(producer);
      } else {
        dx.written = sum = Add(bytes, Backward(i), Backward(producer));
      }
    }
  }

  const std::vector<NamedOp>& ops_;
  int count_, end_;
  bool trains_;
  std::vector<bool> restored_;
  std::vector<Lifetime> lifetimes_;
  std::vector<Buffers> ops_buffers_;
  std::size_t samples_ = 0, samples_gradient_ = kNotWanted, scratch_ = 0;
};

struct PlacedBuffers {
  BufferPlan buffers;
  MemoryPlan plan;
};

// Returns the plan that needs the least memory, of those that differ in what is restored. Of equal
// ones it takes the first, which restores the least.
PlacedBuffers PlaceBuffers(const std::vector<NamedOp>& ops, const ModelOptions& options) {
  std::optional<PlacedBuffers> best;
  const Recomputation recomputation = options.trains ? options.recomputation : Recomputation::kNone;
  for (const int depth : RestoreDepths(recomputation)) {
    BufferPlan buffers(ops, options.trains, ChooseRestored(ops, recomputation, depth));
    MemoryPlan plan = PlanMemory(buffers.lifetimes());
    if (best.has_value() && best->plan.bytes <= plan.bytes) continue;
    best.emplace(std::move(buffers), std::move(plan));
  }
  return *std::move(best);
}

}  // namespace

void GraphModel::PlanBuffers() {
  const auto [buffers, plan] = PlaceBuffers(ops_, options_);
  const auto offset = [&](std::size_t buffer) {
    return buffer == kNotWanted ? kNotWanted : plan.offsets[buffer];
  };
  samples_ = offset(buffers.samples());
  samples_gradient_ = offset(buffers.samples_gradient());
  scratch_ = offset(buffers.scratch());
  scratch_bytes_ = buffers.lifetimes()[buffers.scratch()].bytes;
  for (std::size_t i = 0; i < ops_.size(); ++i) {
    const BufferPlan::Buffers& planned = buffers.of(i);
    OpBuffers placed{.y = offset(planned.y),
                     .dy = offset(planned.dy),
                     .workspace = offset(planned.workspace),
                     .restored = planned.restored};
    for (std::size_t k = 0; k < ops_[i].inputs.size(); ++k) {
      const int input = ops_[i].inputs[k];
      placed.x.push_back(input == kSamples ? samples_
                                           : op_buffers_[static_cast<std::size_t>(input)].y);
      placed.dx.push_back({.written = offset(planned.dx[k].written),
                           .sum = offset(planned.dx[k].sum),
                           .elements = ops_[i].op->inputs()[k].elements(),
                           .type = ops_[i].op->inputs()[k].dtype});
    }
    op_buffers_.push_back(std::move(placed));
  }
  buffers_.Reserve(plan.bytes);
  step_ = buffers_.Reserve(sizeof(StepContext));
  buffers_.Allocate(backend_.memory());
}

OpMemory GraphModel::MemoryOf(std::size_t i) const {
  const auto wanted = [&](std::size_t offset) {
    return offset == kNotWanted ? nullptr : buffers_.At(offset);
  };
  const OpBuffers& buffers = op_buffers_[i];
  OpMemory memory;
  for (const std::size_t x : buffers.x) memory.x.push_back(buffers_.At(x));
  memory.y = buffers_.At(buffers.y);
  memory.dy = wanted(buffers.dy);
  for (const InputGradient& dx : buffers.dx) memory.dx.push_back(wanted(dx.written));
  memory.workspace = buffers_.At(buffers.workspace);
  memory.scratch = buffers_.At(scratch_);
  const std::size_t parameters = ops_[i].op->Parameters().size();
  for (std::size_t p = 0; p < parameters; ++p) {
    const TensorSlot& slot = parameters_.slots()[op_slots_[i].first_parameter + p];
    memory.parameters.push_back(parameter_memory_ + slot.offset);
    memory.gradients.push_back(gradients_ == nullptr ? nullptr : gradients_ + slot.offset);
  }
  const std::size_t states = ops_[i].op->States().size();
  for (std::size_t s = 0; s < states; ++s) {
    const TensorSlot& slot = states_.slots()[op_slots_[i].first_state + s];
    memory.states.push_back(state_memory_ + slot.offset);
  }
  return memory;
}

void GraphModel::AccumulateGradients(const OpBuffers& buffers) {
  for (const InputGradient& dx : buffers.dx) {
    if (dx.sum == kNotWanted) continue;
    backend_.Accumulate(buffers_.At(dx.written), buffers_.At(dx.sum), dx.elements, dx.type);
  }
}

}  // namespace lockstep::train
