#include "trainer/train/batch_gradient.h"

#include <cmath>

#include "base/check.h"
#include "base/status.h"

namespace lockstep::train {

std::vector<KeptStates> KeptStatesOf(Session& session) {
  std::vector<KeptStates> runs;
  for (const TensorSlot& slot : session.model().state_slots()) {
    const float kept = std::pow(slot.kept, static_cast<float>(session.parts()));
    if (runs.empty() || runs.back().kept != kept) runs.push_back({.end = 0, .kept = kept});
    runs.back().end = slot.offset + slot.size;
  }
  return runs;
}

BatchGradient::BatchGradient(Session& session, PhaseClock& phases, bool keeps_states)
    : session_(session),
      phases_(phases),
      kept_states_(keeps_states ? KeptStatesOf(session) : std::vector<KeptStates>()),
      reads_(session.TrainingReads(/*rank=*/0)),
      orders_(reads_),
      batch_(MakeBatch(session.train_data(), session.plan(), Mixes(reads_))) {
  LOCKSTEP_CHECK(session.backend().IsHost(),
                 "parameter server: found back end {}, expected one on the host",
                 session.backend().Name());
}

absl::StatusOr<BatchTotals> BatchGradient::Compute(const BatchTask& task) {
  reads_.rank = task.part;
  {
    const PhaseTimer timer(phases_, Phase::kInput);
    LOCKSTEP_RETURN_IF_ERROR(Gather(session_.train_data(), reads_, task.step, orders_, batch_));
  }
  const std::span<const float> states = session_.model().states();
  saved_states_.assign(states.begin(), states.end());
  RunParts();
  const LossTotals own = session_.OwnTotals();
  BatchTotals totals{.loss = own.loss,
                     .correct = own.correct,
                     .examples = static_cast<double>(batch_.valid),
                     .hash = batch_.hash_sum};
  TakeStates(states);
  totals.gradient_norm = session_.OwnGradientNorm();
  if (!std::isfinite(totals.loss) || !std::isfinite(totals.gradient_norm)) {
    totals.loss = totals.correct = 0;
    totals.skipped = true;
  }
  return totals;
}

void BatchGradient::TakeStates(std::span<const float> states) {
  for (std::size_t begin = 0; const KeptStates& run : kept_states_) {
    const auto end = static_cast<std::size_t>(run.end);
    for (std::size_t i = begin; i < end; ++i) saved_states_[i] *= run.kept;
    begin = end;
  }
  const float share = 1.0f / static_cast<float>(session_.plan().world);
  float* const added = session_.buffer().data() + session_.model().gradients().size();
  for (std::size_t i = 0; i < states.size(); ++i) added[i] = share * (states[i] - saved_states_[i]);
}

void BatchGradient::RunParts() {
  Model& model = session_.model();
  const auto examples = static_cast<float>(session_.plan().GlobalExamples(batch_.step));
  session_.BeginStep({}, 1.0f / examples, {});
  for (int part = 0; part < session_.parts(); ++part) {
    {
      const PhaseTimer timer(phases_, Phase::kInput);
      session_.Load(batch_, part);
    }
    {
      const PhaseTimer timer(phases_, Phase::kForward);
      model.Forward(Mode::kTraining);
    }
    const PhaseTimer timer(phases_, Phase::kBackward);
    session_.training_loss().Run();
    model.Backward([](std::int64_t, std::int64_t) {});
    if (part + 1 < session_.parts()) session_.KeepGradients();
  }
  if (session_.parts() > 1) session_.AddKeptGradients(0, std::ssize(model.gradients()));
}

}  // namespace lockstep::train
