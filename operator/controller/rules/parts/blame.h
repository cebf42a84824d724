// Finds the failure that caused the others. Pure.
#pragma once

#include <optional>
#include <vector>

#include "operator/controller/rules/parts/pod_failures.h"

namespace lockstep::controller {

// Why replicas failed.
struct Blame {
  const PodFailure* first = nullptr;  // the failure that is reported and charged
  bool first_may_be_consequence = false;
  bool has_cause = false;    // the cause is known: failures that may be consequences count as such
  bool is_incident = false;  // all possible consequences are charged once
  bool is_free = false;      // charge none: all follow from an earlier cause or a missing member
  const api::TrainingJob* job = nullptr;

  // Set if only a rule of podFailurePolicy names the cause: its exit code could also be that of a
  // consequence.
  const PodFailure* by_rule = nullptr;

  bool Explains(const PodFailure& failure) const {
    return has_cause && &failure != by_rule && MayBeConsequence(*job, failure);
  }
};

// Returns true if status.failure, which has no time, may be a cause that an earlier operator
// process has just charged, or an Evaluator's failure that has replaced such a cause.
bool MayHaveCause(const api::TrainingJob& job);

// Finds the failure to blame. The result points into `failures`. Requires: `failures` is not empty.
Blame FindBlame(const Observed& observed, const std::vector<PodFailure>& failures);

// Returns how long to keep observing failures that may be consequences; nullopt to judge them now.
std::optional<Duration> UntilSettled(const Observed& observed,
                                     const std::vector<PodFailure>& failures);

// Returns the failure that fails the job; null if there is none.
const PodFailure* FindPermanent(const std::vector<PodFailure>& failures, const Blame& blame);

}  // namespace lockstep::controller
