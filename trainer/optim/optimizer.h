// A model's optimizer: the backend's update rule over the model's flat ranges, and its slots.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "api/v1/training_job.h"
#include "trainer/backend/backend.h"
#include "trainer/core/arena.h"
#include "trainer/core/flat_range.h"
#include "trainer/nn/model.h"
#include "trainer/optim/optimizer_rule.h"

namespace lockstep::train {

// Whether this rank updates its parameters, and so needs the slots.
enum class OptimizerRole { kUpdates, kIdle };

// Not thread-safe. Bound to the model's memory: call Rebind() after Model::BindGradients.
class Optimizer {
 public:
  // InvalidArgument names the field that is unknown or out of range, or the part of
  // `weight_decay_exclude` that is in no parameter's name. Requires: `model` and `backend` outlive
  // the optimizer. An idle one has no slots, and must not be asked to Step(). `share`: the
  // parameters that this rank updates, one of PlanStateShares; absent: all.
  static absl::StatusOr<std::unique_ptr<Optimizer>> Create(
      const api::OptimizerSpec& spec, Model& model, Backend& backend,
      OptimizerRole role = OptimizerRole::kUpdates, const std::optional<api::EmaSpec>& ema = {},
      const std::optional<FlatRange>& share = {});
  ~Optimizer();
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  // Updates the parameters of share() as *step() says, in device memory.
  void Step() {
    if (share_.size() > 0) rule_.op->Step();
  }
  OptimizerStep* step() { return arena_.At<OptimizerStep>(step_offset_); }
  void Rebind();

  // The parameters that this rank updates, a range of model.parameters().
  const FlatRange& share() const { return share_; }
  // In device memory. A slot has the offsets and layouts of model.parameters(), so
  // model.parameter_slots() also describes its tensors; but only the values of share(), the first
  // of which is its own first. Initially what the rule starts from: zero, but for Adagrad.
  int slots() const { return static_cast<int>(rule_.slot_names.size()); }
  // Those without the average, which is the last. A checkpoint has that with the model, so that who
  // only evaluates or exports need not read the optimizer's tensors.
  int rule_slots() const { return slots() - (has_average() ? 1 : 0); }
  std::span<float> slot(int index);
  // "momentum" (SGD and LARS with momentum), "m" and "v" (Adam, LAMB, Muon), "square" and, with
  // momentum, "momentum" (RMSprop), "accumulator" (Adagrad); with `ema`, at last kAverageSlot.
  const std::vector<std::string>& slot_names() const { return rule_.slot_names; }
  // What checkpoints call a parameter's tensor of a slot: "m/dense/weight".
  std::string SlotTensor(int slot, const std::string& parameter) const {
    return slot_names()[static_cast<std::size_t>(slot)] + "/" + parameter;
  }
  // Sets every slot to what it was initially; the average to the parameters.
  void ResetSlots();

  // A digest of the values after one update of zeros with fixed gradients: equal on two ranks if
  // their devices round this model's update alike. Then the parameters and slots are what they were
  // initially, and the gradients 0. Blocks. Requires: this is not idle, and
  // share() is all.
  std::uint32_t ProbeUpdate();

  // The exponential moving average of the parameters, which is evaluated in their place: see
  // AverageInPlace. BeginAverage sets it to the parameters, which is what it begins as. All of this
  // concerns share() alone.
  bool has_average() const { return rule_.averages; }
  void BeginAverage();
  // Exchanges it with the model's parameters. Does nothing without an average.
  void ExchangeAverage();
  // Where the parameters are that are trained, and their average: the model's and the last slot, or
  // the other way round while they are exchanged. Empty without an average.
  std::span<float> trained() { return is_exchanged_ ? slot(slots() - 1) : own_parameters(); }
  std::span<float> average();
  bool is_average_in_place() const { return is_exchanged_; }
  std::size_t MemoryBytes() const { return arena_.bytes(); }

 private:
  Optimizer(OptimizerRuleOp rule, std::vector<OptimizerSegment> segments, const FlatRange& share,
            Model& model, Backend& backend);
  std::span<float> own_parameters() const {
    return model_.parameters().subspan(static_cast<std::size_t>(share_.begin),
                                       static_cast<std::size_t>(share_.size()));
  }

  Model& model_;
  Backend& backend_;
  OptimizerRuleOp rule_;                    // its op is null if this is idle
  std::vector<OptimizerSegment> segments_;  // of share_
  FlatRange share_;
  Arena arena_;
  std::vector<std::size_t> slot_offsets_;  // bytes in arena_
  std::size_t step_offset_ = 0, piece_offset_ = 0, scratch_offset_ = 0;
  bool is_exchanged_ = false;
};

// What the memory of an optimizer of another share has as scratch between the parts of an update:
// see Optimizer::Create.
absl::StatusOr<std::size_t> ScratchBytesOfShare(const api::OptimizerSpec& spec, Model& model,
                                                Backend& backend, const FlatRange& share);

// While it lives, the model's parameters are their average, if the optimizer has one. No step may
// be begun or run meanwhile, nor anything but optimizer.trained() be taken for the parameters.
class AverageInPlace {
 public:
  explicit AverageInPlace(Optimizer& optimizer) : optimizer_(optimizer) {
    optimizer_.ExchangeAverage();
  }
  ~AverageInPlace() { optimizer_.ExchangeAverage(); }
  AverageInPlace(const AverageInPlace&) = delete;
  AverageInPlace& operator=(const AverageInPlace&) = delete;

 private:
  Optimizer& optimizer_;
};

}  // namespace lockstep::train
