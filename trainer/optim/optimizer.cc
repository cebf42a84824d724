#include "trainer/optim/optimizer.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "trainer/backend/settle.h"
#include "trainer/core/crc32c.h"
#include "trainer/core/rng.h"
#include "trainer/optim/optimizer_rule.h"
#include "trainer/optim/state_shares.h"

namespace lockstep::train {
namespace {

// Through which the average and the parameters are exchanged, a piece after the other.
constexpr std::size_t kMostFloatsExchanged = 1 << 18;
// What passes through the host at a time.
constexpr std::size_t kMostFloats = 65'536;

// What updates the parameters of `share`.
absl::StatusOr<OptimizerRuleOp> RuleOfShare(const api::OptimizerSpec& spec,
                                            const std::optional<api::EmaSpec>& ema, Model& model,
                                            Backend& backend, const FlatRange& share) {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<MatrixRange> matrices, MatricesOf(spec, model));
  return MakeOptimizerRule(spec, ema, backend, MatricesOfShare(matrices, share));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Optimizer>> Optimizer::Create(
    const api::OptimizerSpec& spec, Model& model, Backend& backend, OptimizerRole role,
    const std::optional<api::EmaSpec>& ema, const std::optional<FlatRange>& share) {
  const FlatRange all{0, std::ssize(model.parameters())};
  const FlatRange own = share.value_or(all);
  LOCKSTEP_ASSIGN_OR_RETURN(OptimizerRuleOp rule, RuleOfShare(spec, ema, model, backend, own));
  LOCKSTEP_ASSIGN_OR_RETURN(auto segments, OptimizerSegments(spec, model));
  if (role == OptimizerRole::kIdle) rule = {};
  return std::unique_ptr<Optimizer>(
      new Optimizer(std::move(rule), SegmentsOfShare(segments, own), own, model, backend));
}

Optimizer::Optimizer(OptimizerRuleOp rule, std::vector<OptimizerSegment> segments,
                     const FlatRange& share, Model& model, Backend& backend)
    : model_(model),
      backend_(backend),
      rule_(std::move(rule)),
      segments_(std::move(segments)),
      share_(share) {
  for (std::size_t i = 0; i < rule_.slot_names.size(); ++i) {
    slot_offsets_.push_back(arena_.Reserve(own_parameters().size_bytes()));
  }
  step_offset_ = arena_.Reserve(sizeof(OptimizerStep));
  if (has_average()) {
    piece_offset_ =
        arena_.Reserve(sizeof(float) * std::min(kMostFloatsExchanged, own_parameters().size()));
  }
  if (rule_.op != nullptr) scratch_offset_ = arena_.Reserve(rule_.op->ScratchBytes());
  arena_.Allocate(backend_.memory());
  ResetSlots();
  Rebind();
}

// The memory must outlive the work that is queued on it.
Optimizer::~Optimizer() {
  Settle(backend_);
}

std::uint32_t Optimizer::ProbeUpdate() {
  LOCKSTEP_CHECK(share_.size() == std::ssize(model_.parameters()), "optimizer: probes a share");
  const std::span<float> values = model_.parameters(), gradients = model_.gradients();
  backend_.Zero(values.data(), values.size_bytes());
  std::vector<float> piece(std::min(kMostFloats, values.size()));
  for (std::size_t begin = 0; begin < values.size(); begin += piece.size()) {
    const std::size_t size = std::min(piece.size(), values.size() - begin);
    for (std::size_t i = 0; i < size; ++i) {
      piece[i] = UniformFloat(Philox(0, begin + i, 0)[0]) - 0.5f;
    }
    backend_.Upload(piece.data(), gradients.data() + begin, size * sizeof(float));
  }
  const OptimizerStep settings{.learning_rate = 1};
  backend_.Upload(&settings, step(), sizeof(settings));
  Step();
  std::uint32_t digest = 0;
  for (std::size_t begin = 0; begin < values.size(); begin += piece.size()) {
    const std::size_t size = std::min(piece.size(), values.size() - begin);
    backend_.Download(values.data() + begin, piece.data(), size * sizeof(float));
    digest = ExtendCrc32c(digest, std::as_bytes(std::span(piece.data(), size)));
  }
  // What lies between tensors is no parameter, but it was updated, too.
  backend_.Zero(values.data(), values.size_bytes());
  backend_.Zero(gradients.data(), gradients.size_bytes());
  model_.InitializeParameters();
  ResetSlots();
  return digest;
}

// In pieces, so that a large model needs no second copy in the host's memory.
void Optimizer::ResetSlots() {
  if (has_average()) BeginAverage();
  for (int i = 0; i < rule_slots(); ++i) {
    const std::span<float> whole = slot(i);
    const float start = rule_.slot_starts[static_cast<std::size_t>(i)];
    if (start == 0) {
      backend_.Zero(whole.data(), whole.size_bytes());
      continue;
    }
    const std::vector<float> piece(std::min(kMostFloats, whole.size()), start);
    for (std::size_t begin = 0; begin < whole.size(); begin += piece.size()) {
      const std::span<float> part =
          whole.subspan(begin).first(std::min(piece.size(), whole.size() - begin));
      backend_.Upload(piece.data(), part.data(), part.size_bytes());
    }
  }
}

void Optimizer::BeginAverage() {
  LOCKSTEP_CHECK(has_average() && !is_exchanged_, "optimizer: no average to begin");
  const std::span<float> parameters = own_parameters();
  backend_.Copy(parameters.data(), average().data(), parameters.size_bytes());
}

void Optimizer::ExchangeAverage() {
  if (!has_average()) return;
  const std::span<float> parameters = own_parameters(), other = slot(slots() - 1);
  float* const piece = arena_.At<float>(piece_offset_);
  for (std::size_t begin = 0; begin < parameters.size(); begin += kMostFloatsExchanged) {
    const std::size_t bytes =
        sizeof(float) * std::min(kMostFloatsExchanged, parameters.size() - begin);
    backend_.Copy(parameters.data() + begin, piece, bytes);
    backend_.Copy(other.data() + begin, parameters.data() + begin, bytes);
    backend_.Copy(piece, other.data() + begin, bytes);
  }
  is_exchanged_ = !is_exchanged_;
}

std::span<float> Optimizer::average() {
  if (!has_average()) return {};
  return is_exchanged_ ? own_parameters() : slot(slots() - 1);
}

void Optimizer::Rebind() {
  if (rule_.op == nullptr || share_.size() == 0) return;
  OptimizerMemory memory{.values = own_parameters().data(),
                         .gradients = model_.gradients().data() + share_.begin,
                         .slots = {},
                         .size = share_.size(),
                         .segments = segments_,
                         .step = step(),
                         .scratch = arena_.At(scratch_offset_)};
  for (int i = 0; i < slots(); ++i) memory.slots.push_back(slot(i).data());
  rule_.op->Bind(memory);
}

absl::StatusOr<std::size_t> ScratchBytesOfShare(const api::OptimizerSpec& spec, Model& model,
                                                Backend& backend, const FlatRange& share) {
  LOCKSTEP_ASSIGN_OR_RETURN(const OptimizerRuleOp rule,
                            RuleOfShare(spec, /*ema=*/{}, model, backend, share));
  return rule.op->ScratchBytes();
}

std::span<float> Optimizer::slot(int index) {
  return {arena_.At<float>(slot_offsets_.at(static_cast<std::size_t>(index))),
          own_parameters().size()};
}

}  // namespace lockstep::train
