#include "operator/metrics/job_transition.h"

#include <algorithm>

#include "api/base/rfc3339.h"

namespace lockstep::metrics {
namespace {

using kube::ConditionOf;
using kube::IntMember;
using kube::IsTrueCondition;
using kube::Member;
using kube::Object;
using kube::TextMember;

std::optional<double> SecondsBetween(const std::string& from, const std::string& to) {
  const auto start = ParseRfc3339(from), end = ParseRfc3339(to);
  if (!start || !end || *end < *start) return std::nullopt;
  return std::chrono::duration<double>(*end - *start).count();
}

void CompareRunning(const Object& before, const Object& after, JobTransition& transition) {
  const Object& running = ConditionOf(after, "Running");
  if (!IsTrueCondition(running) || IsTrueCondition(ConditionOf(before, "Running"))) return;
  const std::string since = TextMember(running, "lastTransitionTime");
  const Object& restarting = ConditionOf(before, "Restarting");
  if (IsTrueCondition(restarting)) {
    transition.seconds_to_recover =
        SecondsBetween(TextMember(restarting, "lastTransitionTime"), since);
  } else if (IntMember(after, "restartCount") == 0) {
    transition.seconds_to_running = SecondsBetween(TextMember(after, "startTime"), since);
  }
}

}  // namespace

JobTransition Compare(const Object* before, const Object& after) {
  JobTransition transition;
  const Object& now = Member(after, "status");
  if (before == nullptr) {
    // One that has a status was made before this process began: what happened to it was counted
    // then.
    transition.created = Member(now, "conditions").is_null();
    return transition;
  }
  const Object& then = Member(*before, "status");
  const auto became_true = [&](const char* type) {
    return IsTrueCondition(ConditionOf(now, type)) && !IsTrueCondition(ConditionOf(then, type));
  };
  transition.succeeded = became_true("Succeeded");
  transition.failed = became_true("Failed");
  if (transition.failed)
    transition.failure_reason = TextMember(ConditionOf(now, "Failed"), "reason");
  const auto more = [&](const char* cause) {
    const int counted = IntMember(Member(now, "restarts"), cause);
    return std::max(0, counted - IntMember(Member(then, "restarts"), cause));
  };
  transition.application_restarts = more("application");
  transition.disruption_restarts = more("disruption");
  CompareRunning(then, now, transition);
  return transition;
}

std::string StateOf(const Object& job) {
  const std::string state = TextMember(Member(job, "status"), "state");
  return state.empty() ? "Created" : state;
}

}  // namespace lockstep::metrics
