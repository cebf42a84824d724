#include "operator/metrics/job_transition.h"

#include <algorithm>

#include "api/base/rfc3339.h"

namespace lockstep::metrics {
namespace {

using kube::IntMember;
using kube::Member;
using kube::Object;
using kube::TextMember;

const Object& FindCondition(const Object& status, const char* type) {
  static const Object kNone;
  const Object& conditions = Member(status, "conditions");
  if (!conditions.is_array()) return kNone;
  const auto it = std::ranges::find_if(
      conditions, [type](const Object& entry) { return TextMember(entry, "type") == type; });
  return it == conditions.end() ? kNone : *it;
}

bool IsTrue(const Object& condition) {
  return TextMember(condition, "status") == "True";
}

std::optional<double> SecondsBetween(const std::string& from, const std::string& to) {
  const auto start = ParseRfc3339(from), end = ParseRfc3339(to);
  if (!start || !end || *end < *start) return std::nullopt;
  return std::chrono::duration<double>(*end - *start).count();
}

void CompareRunning(const Object& before, const Object& after, JobTransition& transition) {
  const Object& running = FindCondition(after, "Running");
  if (!IsTrue(running) || IsTrue(FindCondition(before, "Running"))) return;
  const std::string since = TextMember(running, "lastTransitionTime");
  const Object& restarting = FindCondition(before, "Restarting");
  if (IsTrue(restarting)) {
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
    return IsTrue(FindCondition(now, type)) && !IsTrue(FindCondition(then, type));
  };
  transition.succeeded = became_true("Succeeded");
  transition.failed = became_true("Failed");
  if (transition.failed)
    transition.failure_reason = TextMember(FindCondition(now, "Failed"), "reason");
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
