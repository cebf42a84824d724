#include "operator/progress/step_watch.h"

#include <algorithm>

#include "api/proto/trainer_status.pb.h"
#include "operator/progress/replica_names.h"

namespace lockstep::progress {
namespace {

// A rank 0 that has nothing to evaluate or to save after its last step still tells of a step.
bool IsInStep(const proto::GetStatusResponse& said) {
  const proto::TrainerProgress& progress = said.progress();
  const bool is_done = progress.total_steps() > 0 && progress.step() >= progress.total_steps();
  return said.activity() == proto::ACTIVITY_STEP && said.missing().empty() && !is_done;
}

// Returns true if those who left a step wait only for processes that have not noticed its end.
bool WaitsForStragglers(const proto::GetStatusResponse& said) {
  return said.missing_size() > 0 && said.missing_members().empty() &&
         said.missing_size() == std::min(said.straggler_count(), static_cast<int>(kMostNames));
}

}  // namespace

void StepWatch::Record(const proto::GetStatusResponse& said, SteadyTime now) {
  const std::int64_t finished = said.progress().step();
  const bool is_same =
      seen_ && seen_->generation == said.generation() && seen_->finished == finished;
  if (!IsInStep(said) && !(is_same && WaitsForStragglers(said))) return seen_.reset();
  if (!is_same) seen_ = Seen{said.generation(), finished, now, now};
  seen_->last = now;
}

std::optional<Duration> StepWatch::InStepFor() const {
  return seen_ ? std::optional(seen_->last - seen_->first) : std::nullopt;
}

}  // namespace lockstep::progress
