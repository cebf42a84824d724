// Formats what a run waits for while no step completes, as one line for users. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "api/v1/activity.h"
#include "api/v1/training_job.h"
#include "base/clock.h"

namespace lockstep::cli {

// How long to wait for a step before showing why there is none.
constexpr Duration kPatience = std::chrono::seconds(5);

// The state of a job with a `training` section, seen from outside.
struct RunView {
  std::string state;            // the job's, as in its status
  int desired = 0, active = 0;  // numbers of replicas
  std::string
      waits;  // "Worker waits until Chief is ready (0 of 1)", by dependsOn; empty: none does
  // Whether the leading pod's trainer answers; if not, the next two are unknown.
  bool answers = false;
  std::vector<std::string> missing;  // replicas that have not joined the group: "worker 1"
  api::Activity activity = api::Activity::kUnknown;
  std::optional<api::Progress> progress;
  Duration quiet{};  // since the last step, or since the run's start
};

// Returns "step 12/938  waiting 0:15 for worker 1 to join" or "step 12/938  step 13 under way for
// 0:10"; empty until kPatience has passed without a step. Changes every 5 s in the first minute,
// then once a minute.
std::string WaitLine(const RunView& view);

}  // namespace lockstep::cli
