// What a run waits for while no step comes, in one line for people. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "api/v1/activity.h"
#include "api/v1/training_job.h"
#include "base/clock.h"

namespace lockstep::cli {

// Without a step for as long, a person wants to know why.
constexpr Duration kPatience = std::chrono::seconds(5);

// A job with `training`, seen from outside.
struct RunView {
  std::string state;            // of the job, as in its status
  int desired = 0, active = 0;  // replicas
  bool answers = false;         // the leading pod's trainer does; if not, the next two are unknown
  std::vector<std::string> missing;  // replicas that have not joined the group: "worker 1"
  api::Activity activity = api::Activity::kUnknown;
  std::optional<api::Progress> progress;
  Duration quiet{};  // since the last step, or since the run's start
};

// "step 12/938  waiting 0:15 for worker 1 to join", "step 12/938  step 13 under way for 0:10";
// empty while steps come. Changes every 5 s in the first minute, then once a minute.
std::string WaitLine(const RunView& view);

}  // namespace lockstep::cli
