#include "operator/metrics/job_transition.h"

#include <algorithm>

#include "api/base/rfc3339.h"

namespace lockstep::metrics {
namespace {

using kube::Object;

const Object* Member(const Object* object, const char* key) {
  if (object == nullptr || !object->is_object()) return nullptr;
  const auto it = object->find(key);
  return it == object->end() ? nullptr : &*it;
}

std::string Text(const Object* object, const char* key) {
  const Object* member = Member(object, key);
  return member != nullptr && member->is_string() ? member->get<std::string>() : "";
}

int Count(const Object* object, const char* key) {
  const Object* member = Member(object, key);
  return member != nullptr && member->is_number_integer() ? member->get<int>() : 0;
}

const Object* FindCondition(const Object* status, const char* type) {
  const Object* conditions = Member(status, "conditions");
  if (conditions == nullptr || !conditions->is_array()) return nullptr;
  const auto it = std::ranges::find_if(
      *conditions, [type](const Object& entry) { return Text(&entry, "type") == type; });
  return it == conditions->end() ? nullptr : &*it;
}

bool IsTrue(const Object* condition) {
  return Text(condition, "status") == "True";
}

std::optional<double> SecondsBetween(const std::string& from, const std::string& to) {
  const auto start = ParseRfc3339(from), end = ParseRfc3339(to);
  if (!start || !end || *end < *start) return std::nullopt;
  return std::chrono::duration<double>(*end - *start).count();
}

void CompareRunning(const Object* before, const Object* after, JobTransition& transition) {
  const Object* running = FindCondition(after, "Running");
  if (!IsTrue(running) || IsTrue(FindCondition(before, "Running"))) return;
  const std::string since = Text(running, "lastTransitionTime");
  const Object* restarting = FindCondition(before, "Restarting");
  if (IsTrue(restarting)) {
    transition.seconds_to_recover = SecondsBetween(Text(restarting, "lastTransitionTime"), since);
  } else if (Count(after, "restartCount") == 0) {
    transition.seconds_to_running = SecondsBetween(Text(after, "startTime"), since);
  }
}

}  // namespace

JobTransition Compare(const Object* before, const Object& after) {
  JobTransition transition;
  const Object* then = Member(before, "status");
  const Object* now = Member(&after, "status");
  if (before == nullptr) {
    // One that has a status was made before this process began: what happened to it was counted
    // then.
    transition.created = Member(now, "conditions") == nullptr;
    return transition;
  }
  const auto became_true = [&](const char* type) {
    return IsTrue(FindCondition(now, type)) && !IsTrue(FindCondition(then, type));
  };
  transition.succeeded = became_true("Succeeded");
  transition.failed = became_true("Failed");
  if (transition.failed) transition.failure_reason = Text(FindCondition(now, "Failed"), "reason");
  const auto more = [&](const char* cause) {
    const int counted = Count(Member(now, "restarts"), cause);
    return std::max(0, counted - Count(Member(then, "restarts"), cause));
  };
  transition.application_restarts = more("application");
  transition.disruption_restarts = more("disruption");
  CompareRunning(then, now, transition);
  return transition;
}

std::string StateOf(const Object& job) {
  const std::string state = Text(Member(&job, "status"), "state");
  return state.empty() ? "Created" : state;
}

}  // namespace lockstep::metrics
