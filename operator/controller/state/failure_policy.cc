#include "operator/controller/state/failure_policy.h"

#include <algorithm>
#include <string>
#include <string_view>

namespace lockstep::controller {
namespace {

// The reason that a kubelet gives for nearly every exit code but 0.
constexpr std::string_view kAnyEnd = "Error";

bool HasExitCode(const api::ExitCodesSpec& wanted, const PodEnd& end) {
  if (!end.is_own || !end.pod->termination) return false;
  const int code = end.pod->termination->exit_code;
  if (code == 0) return false;
  const bool listed = std::ranges::find(wanted.values, code) != wanted.values.end();
  return listed == (wanted.op == api::ExitCodeOperator::kIn);
}

bool HasReason(std::string_view wanted, const PodEnd& end) {
  const ObservedPod& pod = *end.pod;
  return !wanted.empty() && (pod.reason == wanted || pod.disruption_reason == wanted ||
                             (end.is_own && pod.termination && pod.termination->reason == wanted) ||
                             end.found == wanted);
}

bool Applies(const api::PodFailureRuleSpec& rule, const PodEnd& end) {
  if (!rule.roles.empty() && std::ranges::find(rule.roles, end.pod->role) == rule.roles.end()) {
    return false;
  }
  if (rule.on_exit_codes && !HasExitCode(*rule.on_exit_codes, end)) return false;
  return rule.on_reasons.empty() ||
         std::ranges::any_of(rule.on_reasons,
                             [&end](const std::string& reason) { return HasReason(reason, end); });
}

// Requires: the rule applies.
bool Lists(const api::PodFailureRuleSpec& rule, const PodEnd& end) {
  if (rule.on_exit_codes && rule.on_exit_codes->op == api::ExitCodeOperator::kIn) return true;
  return std::ranges::any_of(rule.on_reasons, [&end](const std::string& reason) {
    return reason != kAnyEnd && HasReason(reason, end);
  });
}

}  // namespace

std::optional<FailureRuleMatch> FindFailureRule(const api::TrainingJob& job, const PodEnd& end) {
  const auto& policy = job.spec.run_policy.pod_failure_policy;
  if (!policy || end.pod->role == api::Role::kEvaluator) return std::nullopt;
  const auto found = std::ranges::find_if(
      policy->rules, [&end](const api::PodFailureRuleSpec& rule) { return Applies(rule, end); });
  if (found == policy->rules.end()) return std::nullopt;
  return FailureRuleMatch{.index = static_cast<std::size_t>(found - policy->rules.begin()),
                          .action = found->action.value_or(api::FailureAction::kCount),
                          .is_listed = Lists(*found, end)};
}

}  // namespace lockstep::controller
