// spec.runPolicy: what a job does about failures, deadlines, scheduling and its end.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "api/v1/role.h"

namespace lockstep::api {

enum class CleanPodPolicy { kRunning, kAll, kNone };

struct SchedulingPolicySpec {         // for the gang, with a gang scheduler
  std::optional<int> min_available;   // pods that start together or not at all
  std::string queue, priority_class;  // priority_class applies to the pods too
  // Resource -> quantity; empty: what those pods request.
  nlohmann::json min_resources = nlohmann::json::object();
  std::optional<std::int64_t> schedule_timeout_seconds;
  bool operator==(const SchedulingPolicySpec&) const = default;
};

enum class FailureAction {
  kFailJob,  // the job fails at once
  kIgnore,   // the replica starts again; backoffLimit is not charged
  kCount     // the replica starts again; backoffLimit is charged
};
enum class ExitCodeOperator { kIn, kNotIn };
struct ExitCodesSpec {
  ExitCodeOperator op = ExitCodeOperator::kIn;
  std::vector<int> values;
  bool operator==(const ExitCodesSpec&) const = default;
};
// Applies to the failures that meet all conditions that are set: one of the last two at least.
struct PodFailureRuleSpec {
  std::optional<FailureAction> action;  // required
  std::vector<Role> roles;              // empty: all but the Evaluator, which no rule is about
  std::optional<ExitCodesSpec> on_exit_codes;
  std::vector<std::string> on_reasons;  // empty: no condition
  bool operator==(const PodFailureRuleSpec&) const = default;
};
struct PodFailurePolicySpec {
  std::vector<PodFailureRuleSpec> rules;  // the first that applies decides
  bool operator==(const PodFailurePolicySpec&) const = default;
};

struct RunPolicySpec {
  CleanPodPolicy clean_pod_policy = CleanPodPolicy::kRunning;
  std::optional<std::int64_t> ttl_seconds_after_finished, active_deadline_seconds,
      pending_deadline_seconds, progress_deadline_seconds;
  int backoff_limit = 6;
  std::optional<SchedulingPolicySpec> scheduling_policy;
  std::optional<PodFailurePolicySpec> pod_failure_policy;
  bool operator==(const RunPolicySpec&) const = default;
};

}  // namespace lockstep::api
