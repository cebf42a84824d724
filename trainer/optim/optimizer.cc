#include "trainer/optim/optimizer.h"

#include <utility>

#include "base/status.h"
#include "trainer/optim/optimizer_rule.h"

namespace lockstep::train {
absl::StatusOr<std::unique_ptr<Optimizer>> Optimizer::Create(const api::OptimizerSpec& spec,
                                                             Model& model, Backend& backend) {
  LOCKSTEP_ASSIGN_OR_RETURN(OptimizerRuleOp rule, MakeOptimizerRule(spec, backend));
  LOCKSTEP_ASSIGN_OR_RETURN(auto segments, DecaySegments(model, spec.weight_decay_exclude));
  return std::unique_ptr<Optimizer>(new Optimizer(std::move(rule.op), std::move(rule.slot_names),
                                                  std::move(segments), model, backend));
}

Optimizer::Optimizer(std::unique_ptr<OptimizerOp> op, std::vector<std::string> slot_names,
                     std::vector<OptimizerSegment> segments, Model& model, Backend& backend)
    : model_(model),
      backend_(backend),
      op_(std::move(op)),
      slot_names_(std::move(slot_names)),
      segments_(std::move(segments)) {
  for (std::size_t i = 0; i < slot_names_.size(); ++i) {
    slot_offsets_.push_back(arena_.Reserve(model_.parameters().size_bytes()));
  }
  step_offset_ = arena_.Reserve(sizeof(OptimizerStep));
  arena_.Allocate(backend_.memory());
  Rebind();
}

// The memory must outlive the work that is queued on it.
Optimizer::~Optimizer() {
  backend_.Synchronize();
}

void Optimizer::Rebind() {
  OptimizerMemory memory{.values = model_.parameters().data(),
                         .gradients = model_.gradients().data(),
                         .slots = {},
                         .size = static_cast<std::int64_t>(model_.parameters().size()),
                         .segments = segments_,
                         .step = step()};
  for (int i = 0; i < slots(); ++i) memory.slots.push_back(slot(i).data());
  op_->Bind(memory);
}

std::span<float> Optimizer::slot(int index) {
  return {arena_.At<float>(slot_offsets_.at(static_cast<std::size_t>(index))),
          model_.parameters().size()};
}

}  // namespace lockstep::train
