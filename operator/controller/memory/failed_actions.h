// Failed deletes and updates of a job. Failed creates: FailedCreates.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "base/clock.h"
#include "operator/controller/rules/parts/plan.h"
#include "operator/kube/backoff.h"

namespace lockstep::controller {

// Each action is retried by itself, since a webhook that guards one pod says nothing about others.
// Not thread-safe.
class FailedActions {
 public:
  // Records how an action that creates nothing ended.
  void Record(const Action& action, const absl::Status& end, SteadyTime now,
              const kube::BackoffPolicy& backoff);
  // Removes from the plan the actions that must not be tried yet, and sets plan.requeue_after for
  // them. The others come in the order of their failures, so that those that keep failing delay
  // none that have not been tried. Forgets an action that is due and no longer planned.
  void Bound(Plan& plan, SteadyTime now);
  // Returns the fault to report: a refusal, or a failure that was repeated.
  std::optional<ActionFault> Fault() const;
  // Returns true if the server has rejected the latest try of the action.
  bool IsRefused(const Action& action) const;
  // Returns true if the latest try of the action was refused, or if it has failed repeatedly.
  bool IsFailing(const Action& action) const;

 private:
  struct Failure {
    bool IsLasting() const { return is_refusal || count > 1; }
    int count = 0;  // consecutive
    SteadyTime retry_at;
    ActionFault fault;
    bool is_refusal = false;
  };
  int CountOf(const Action& action) const;

  std::map<std::string, Failure> failures_;  // by what NameOf returns
};

}  // namespace lockstep::controller
