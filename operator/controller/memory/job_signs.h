// What metrics tell of a job beyond its status.
#pragma once

#include <optional>

#include "api/v1/training_job.h"
#include "base/clock.h"

namespace lockstep::controller {

class JobSigns {
 public:
  // Call at each look at the job: with LacksReplicas and RestartsSoFar of what was observed at
  // `now`.
  void Update(bool lacks_replicas, const api::RestartCounts& restarts, Time now);

  // Since when the job has lacked replicas at each look; nullopt if it does not.
  const std::optional<Time>& short_since() const { return short_since_; }
  // The restarts so far, which never become fewer: a pod that has succeeded may be deleted, and
  // with it what the kubelet has counted.
  const api::RestartCounts& restarts() const { return restarts_; }

 private:
  std::optional<Time> short_since_;
  api::RestartCounts seen_, restarts_;  // seen_: at the last look
};

}  // namespace lockstep::controller
