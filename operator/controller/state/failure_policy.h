// spec.runPolicy.podFailurePolicy: what the job's own rules say of a failure. Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include "api/v1/training_job.h"
#include "operator/controller/state/observed.h"

namespace lockstep::controller {

// How a pod was lost, as far as the rules ask.
struct PodEnd {
  const ObservedPod* pod = nullptr;  // not null
  // The program ended by itself: its pod was neither deleted nor disrupted before, and its node did
  // not end it.
  bool is_own = false;
  // What the operator has found by itself, such as "NodeLost"; empty: nothing.
  std::string_view found = {};
};

struct FailureRuleMatch {
  std::size_t index = 0;  // of the rule
  api::FailureAction action = api::FailureAction::kCount;
  // The rule lists this end, by its exit code or a reason, rather than all ends but some. The
  // reason "Error" lists none: nearly every end has it.
  bool is_listed = false;
};

// Returns the first rule that applies; nullopt if there is none. The main container's exit code and
// reason are compared only if its program ended by itself: others have been told to.
std::optional<FailureRuleMatch> FindFailureRule(const api::TrainingJob& job, const PodEnd& end);

}  // namespace lockstep::controller
