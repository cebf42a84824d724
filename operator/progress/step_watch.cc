#include "operator/progress/step_watch.h"

#include "api/proto/trainer_status.pb.h"

namespace lockstep::progress {
namespace {

// A rank 0 that has nothing to evaluate or to save after its last step still tells of a step.
bool IsInStep(const proto::GetStatusResponse& said) {
  const proto::TrainerProgress& progress = said.progress();
  const bool is_done = progress.total_steps() > 0 && progress.step() >= progress.total_steps();
  return said.activity() == proto::ACTIVITY_STEP && said.missing().empty() && !is_done;
}

}  // namespace

void StepWatch::Note(const proto::GetStatusResponse& said, SteadyTime now) {
  if (!IsInStep(said)) return seen_.reset();
  const std::int64_t finished = said.progress().step();
  const bool is_same =
      seen_ && seen_->generation == said.generation() && seen_->finished == finished;
  if (!is_same) seen_ = Seen{said.generation(), finished, now, now};
  seen_->last = now;
}

std::optional<Duration> StepWatch::InStepFor() const {
  return seen_ ? std::optional(seen_->last - seen_->first) : std::nullopt;
}

}  // namespace lockstep::progress
