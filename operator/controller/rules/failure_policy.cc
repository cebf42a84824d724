#include "operator/controller/rules/failure_policy.h"

#include <algorithm>
#include <string>

namespace lockstep::controller {
namespace {

bool HasExitCode(const api::ExitCodesSpec& wanted, const PodEnd& end) {
  if (!end.is_own || !end.pod->termination) return false;
  const int code = end.pod->termination->exit_code;
  if (code == 0) return false;
  const bool listed = std::ranges::find(wanted.values, code) != wanted.values.end();
  return listed == (wanted.op == api::ExitCodeOperator::kIn);
}

bool HasReason(const std::vector<std::string>& wanted, const PodEnd& end) {
  const auto is_wanted = [&wanted](const std::string& reason) {
    return !reason.empty() && std::ranges::find(wanted, reason) != wanted.end();
  };
  const ObservedPod& pod = *end.pod;
  return is_wanted(pod.reason) || is_wanted(pod.disruption_reason) ||
         (end.is_own && pod.termination && is_wanted(pod.termination->reason)) ||
         (end.node_is_lost && is_wanted("NodeLost"));
}

bool Applies(const api::PodFailureRuleSpec& rule, const PodEnd& end) {
  if (!rule.roles.empty() && std::ranges::find(rule.roles, end.pod->role) == rule.roles.end()) {
    return false;
  }
  if (rule.on_exit_codes && !HasExitCode(*rule.on_exit_codes, end)) return false;
  return rule.on_reasons.empty() || HasReason(rule.on_reasons, end);
}

}  // namespace

std::optional<FailureRuleMatch> FindFailureRule(const api::TrainingJob& job, const PodEnd& end) {
  const auto& policy = job.spec.run_policy.pod_failure_policy;
  if (!policy || end.pod->role == api::Role::kEvaluator) return std::nullopt;
  const auto found = std::ranges::find_if(
      policy->rules, [&end](const api::PodFailureRuleSpec& rule) { return Applies(rule, end); });
  if (found == policy->rules.end()) return std::nullopt;
  const bool excludes =
      found->on_exit_codes && found->on_exit_codes->op == api::ExitCodeOperator::kNotIn;
  return FailureRuleMatch{.index = static_cast<std::size_t>(found - policy->rules.begin()),
                          .action = found->action.value_or(api::FailureAction::kCount),
                          .is_listed = !excludes || !found->on_reasons.empty()};
}

}  // namespace lockstep::controller
