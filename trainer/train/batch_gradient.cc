#include "trainer/train/batch_gradient.h"

#include <algorithm>
#include <cmath>

#include "base/status.h"

namespace lockstep::train {

BatchGradient::BatchGradient(Session& session, PhaseClock& phases)
    : session_(session),
      phases_(phases),
      options_{.plan = session.plan(),
               .seed = static_cast<std::uint64_t>(session.training().seed),
               .shuffle = session.training().dataset.shuffle},
      batch_(MakeBatch(session.train_data(), session.plan())) {}

absl::StatusOr<BatchTotals> BatchGradient::Compute(const BatchTask& task) {
  options_.rank = task.part;
  {
    const PhaseTimer timer(phases_, Phase::kInput);
    LOCKSTEP_RETURN_IF_ERROR(Gather(session_.train_data(), options_, task.step, batch_));
  }
  const std::span<float> states = session_.model().states();
  std::ranges::copy(states, session_.saved_states().begin());
  BatchTotals totals{.examples = static_cast<double>(batch_.valid), .hash = batch_.hash_sum};
  Run(totals);
  const float share = 1.0f / static_cast<float>(session_.plan().world);
  for (std::size_t i = 0; i < states.size(); ++i) {
    session_.buffer_states()[i] = share * (states[i] - session_.saved_states()[i]);
  }
  const std::span<const float> gradients = session_.model().gradients();
  totals.gradient_norm =
      std::sqrt(session_.backend().SquaredNorm(gradients.data(), std::ssize(gradients)));
  if (!std::isfinite(totals.loss) || !std::isfinite(totals.gradient_norm)) {
    totals.loss = totals.correct = 0;
    totals.skipped = true;
  }
  return totals;
}

void BatchGradient::Run(BatchTotals& totals) {
  std::ranges::fill(session_.accumulated(), 0.0f);
  for (int part = 0; part < session_.parts(); ++part) {
    const LossOp::Result loss = RunPart(part, part + 1 == session_.parts());
    totals.loss += loss.loss;
    totals.correct += loss.correct;
  }
}

LossOp::Result BatchGradient::RunPart(int part, bool is_last) {
  Model& model = session_.model();
  StepContext context{.training = true,
                      .step = static_cast<std::uint64_t>(batch_.step),
                      .seed = options_.seed};
  {
    const PhaseTimer timer(phases_, Phase::kInput);
    const Session::Part loaded = session_.Load(batch_, part);
    context.valid = loaded.valid;
    context.first_position = static_cast<std::uint64_t>(loaded.first_position);
  }
  {
    const PhaseTimer timer(phases_, Phase::kForward);
    model.Forward(context);
  }
  const PhaseTimer timer(phases_, Phase::kBackward);
  const auto examples = static_cast<float>(session_.plan().GlobalExamples(batch_.step));
  const LossOp::Result loss = session_.training_loss().Run(1.0f / examples);
  model.Backward(context, [](std::int64_t, std::int64_t) {});
  if (session_.parts() == 1) return loss;
  float* const gradients = model.gradients().data();
  float* const accumulated = session_.accumulated().data();
  const auto size = std::ssize(model.gradients());
  if (is_last) {
    session_.backend().Accumulate(accumulated, gradients, size);
  } else {
    session_.backend().Accumulate(gradients, accumulated, size);
  }
  return loss;
}

}  // namespace lockstep::train
