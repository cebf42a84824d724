#include "operator/controller/rules/warnings.h"

#include <fmt/format.h>

#include <map>
#include <string>
#include <vector>

#include "api/v1/tf_config_size.h"
#include "operator/controller/children/build_pod.h"
#include "operator/controller/children/pod_revision.h"
#include "operator/controller/children/replica_env.h"
#include "operator/controller/rules/status.h"
#include "operator/controller/state/replicas.h"

namespace lockstep::controller {
namespace {

void WarnOfOverriddenEnv(const Observed& observed, Plan& plan) {
  const std::vector<std::string> names = OverriddenEnv(observed.job);
  if (names.empty()) return;
  plan.events.push_back({PlannedEvent::Type::kWarning, "EnvironmentOverridden",
                         fmt::format("the pod template sets {} itself; its values are kept",
                                     fmt::join(names, ", "))});
}

void WarnOfNoTfConfig(const Observed& observed, Plan& plan) {
  const api::TrainingJob& job = observed.job;
  for (const auto& [role, replicas] : job.spec.replica_specs) {
    if (HasTfConfig(job, role)) continue;
    plan.events.push_back(
        {PlannedEvent::Type::kWarning, "TfConfigLeftOut",
         fmt::format("TF_CONFIG would be longer than {} bytes; pods of role {} get none",
                     api::kLongestTfConfig, api::RoleName(role))});
  }
}

// For settings that only a gang scheduler reads.
void WarnOfIgnoredScheduling(const Observed& observed, Plan& plan) {
  const auto& policy = observed.job.spec.run_policy.scheduling_policy;
  if (!policy) return;
  const bool asks = policy->min_available || !policy->queue.empty() ||
                    !policy->min_resources.empty() || policy->schedule_timeout_seconds;
  if (!asks || !observed.settings.gang_scheduler_name.empty()) return;
  plan.events.push_back({PlannedEvent::Type::kWarning, "SchedulingPolicyIgnored",
                         "the operator runs without --gang-scheduler-name: of "
                         "runPolicy.schedulingPolicy only priorityClass has an effect"});
}

// The CRD rejects such edits, except that of an elastic job's bounds, and those that it cannot: its
// rules have a cost budget.
void WarnOfIgnoredEdit(const Observed& observed, Plan& plan) {
  std::map<api::Role, std::string> hashes;  // one for each role: a template may be large
  std::vector<std::string> stale;
  const auto is_stale = [&observed, &hashes](const ObservedPod& pod) {
    const auto& bounds = observed.job.spec.elastic;
    const bool notes_bounds = bounds && !pod.elastic_bounds.empty();
    if (notes_bounds && pod.elastic_bounds != WriteElasticBounds(*bounds)) return true;
    if (!IsComparable(pod.spec_hash)) return false;
    const auto [hash, is_new] = hashes.try_emplace(pod.role);
    if (is_new) hash->second = SpecHash(observed.job, pod.role);
    return pod.spec_hash != hash->second;
  };
  for (const ObservedPod& pod : observed.pods) {
    if (IsMember(observed, pod) && is_stale(pod)) stale.push_back(pod.name);
  }
  if (stale.empty()) return;
  plan.events.push_back(
      {PlannedEvent::Type::kWarning, "EditIgnored",
       fmt::format("the edit reaches pods only when they are made: {} and {} others keep what they "
                   "were told; suspend and resume the job to start them all again",
                   stale.front(), stale.size() - 1)});
}

}  // namespace

void AddWarnings(const Observed& observed, Plan& plan) {
  const api::TrainingJobStatus& known = observed.job.status;
  if (FindCondition(known, kCreated) == nullptr &&
      FindCondition(plan.status, kCreated) != nullptr) {
    WarnOfOverriddenEnv(observed, plan);
    WarnOfNoTfConfig(observed, plan);
    WarnOfIgnoredScheduling(observed, plan);
  }
  const bool notes_edit = known.observed_generation != 0 &&
                          known.observed_generation != observed.job.metadata.generation &&
                          plan.status.observed_generation == observed.job.metadata.generation;
  if (notes_edit && plan.status.attempt == known.attempt) WarnOfIgnoredEdit(observed, plan);
}

}  // namespace lockstep::controller
