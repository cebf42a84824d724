// Who of those that were lost is the reason. Pure.
#pragma once

#include <optional>
#include <vector>

#include "operator/controller/rules/pod_failures.h"

namespace lockstep::controller {

// Why replicas were lost.
struct Blame {
  const PodFailure* first = nullptr;  // the loss that is named, and charged
  bool first_may_be_consequence = false;
  bool has_cause = false;    // one is known, so what may be a consequence is one
  bool is_incident = false;  // what may be a consequence counts once
  bool is_free = false;      // all are consequences of what was charged before, or is no failure
  const api::TrainingJob* job = nullptr;

  bool Explains(const PodFailure& loss) const { return has_cause && MayBeConsequence(*job, loss); }
};

// Expects at least one loss; points into `losses`.
Blame FindBlame(const Observed& observed, const std::vector<PodFailure>& losses);

// How long those that may be consequences are still looked at; nothing: they are judged now.
std::optional<Duration> UntilSettled(const Observed& observed,
                                     const std::vector<PodFailure>& losses);

// The loss that fails the job; null if there is none.
const PodFailure* FindPermanent(const std::vector<PodFailure>& losses, const Blame& blame);

}  // namespace lockstep::controller
