#include "trainer/observe/progress.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "base/check.h"

namespace lockstep::train {
namespace {

double Seconds(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}

std::optional<double> IfFinite(double value) {
  return std::isfinite(value) ? std::optional(value) : std::nullopt;
}

}  // namespace

ProgressMeter::ProgressMeter(const Clock& clock, std::int64_t total_steps,
                             std::int64_t steps_per_epoch, std::int64_t first_step)
    : clock_(clock),
      total_steps_(total_steps),
      steps_per_epoch_(steps_per_epoch),
      start_(clock.SteadyNow()),
      last_mark_(start_),
      step_(first_step) {
  LOCKSTEP_CHECK(steps_per_epoch >= 1, "{} steps an epoch", steps_per_epoch);
}

void ProgressMeter::AddStep(const EpochSums& step_sums) {
  if (step_ % steps_per_epoch_ == 0) sums_ = {};
  sums_.examples += step_sums.examples;
  sums_.loss += step_sums.loss;
  sums_.correct += step_sums.correct;
  ++step_;
  last_mark_ = clock_.SteadyNow();
  now_ = {SteppingTime(), now_.steps + 1, now_.examples + step_sums.examples};
  if (marked_ > 0 && now_.time - marks_[(marked_ - 1) % kMarks].time < kBetweenMarks) return;
  marks_[marked_++ % kMarks] = now_;
}

void ProgressMeter::Restore(std::int64_t step, const EpochSums& sums) {
  step_ = step;
  sums_ = sums;
}

void ProgressMeter::ExcludeTimeSinceLastMark() {
  const SteadyTime now = clock_.SteadyNow();
  excluded_ += now - last_mark_;
  last_mark_ = now;
}

void ProgressMeter::SetEvaluation(double loss, double accuracy, api::TestMetrics metrics) {
  test_loss_ = IfFinite(loss);
  test_accuracy_ = IfFinite(accuracy);
  test_metrics_ = std::move(metrics);
}

ProgressMeter::Mark ProgressMeter::RecentBegin() const {
  Mark begin;
  if (now_.steps < 2) return begin;
  const Duration from = now_.time - kRecent;
  const std::size_t kept = std::min(marked_, kMarks);
  for (std::size_t back = 1; back <= kept; ++back) {
    const Mark& mark = marks_[(marked_ - back) % kMarks];
    if (mark.steps == now_.steps) continue;
    if (begin.steps > 0 && mark.time < from && now_.steps - begin.steps >= kFewest) break;
    begin = mark;
  }
  return begin;
}

double ProgressMeter::RecentExamplesPerSecond() const {
  const Mark begin = RecentBegin();
  const double seconds = Seconds(now_.time - begin.time);
  return seconds > 0 ? static_cast<double>(now_.examples - begin.examples) / seconds : 0.0;
}

api::Progress ProgressMeter::Get() const {
  api::Progress progress;
  progress.step = step_;
  progress.total_steps = total_steps_;
  progress.epoch = static_cast<double>(step_) / static_cast<double>(steps_per_epoch_);
  if (sums_.examples > 0) {
    const auto examples = static_cast<double>(sums_.examples);
    progress.loss = IfFinite(sums_.loss / examples);
    progress.accuracy = IfFinite(sums_.correct / examples);
  }
  progress.test_loss = test_loss_;
  progress.test_accuracy = test_accuracy_;
  progress.test_metrics = test_metrics_;
  progress.examples_per_second = RecentExamplesPerSecond();
  progress.last_checkpoint_step = last_checkpoint_step_;
  progress.update_time = clock_.Now();
  if (now_.steps > 0) {
    // Counted in steps, not samples: an epoch's short last step takes as long as the others.
    const Mark begin = RecentBegin();
    const double each =
        Seconds(now_.time - begin.time) / static_cast<double>(now_.steps - begin.steps);
    const std::int64_t left = std::max<std::int64_t>(0, total_steps_ - step_);
    progress.estimated_remaining_seconds = each * static_cast<double>(left);
  }
  return progress;
}

}  // namespace lockstep::train
