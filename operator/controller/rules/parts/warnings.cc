#include "operator/controller/rules/parts/warnings.h"

#include <fmt/format.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "api/v1/tf_config_size.h"
#include "operator/controller/children/build_pod.h"
#include "operator/controller/children/pod_revision.h"
#include "operator/controller/children/replica_env.h"
#include "operator/controller/rules/parts/status.h"
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

// Values of the present spec that some pods were created without.
struct IgnoredEdit {
  std::vector<std::string> pods;
  std::set<std::string> what;  // the bounds "1:8", or the hash "worker=<hash>" of a role's template
  bool has_template = false;
};

// The CRD rejects such edits, except of an elastic job's bounds, and except those that its rules
// cannot check within their cost budget.
IgnoredEdit FindIgnoredEdit(const Observed& observed) {
  IgnoredEdit ignored;
  std::map<api::Role, std::string> hashes;  // one for each role: a template may be large
  const auto& bounds = observed.job.spec.elastic;
  for (const ObservedPod& pod : observed.pods) {
    if (!IsMember(observed, pod)) continue;
    const bool notes_bounds = bounds && !pod.elastic_bounds.empty();
    const bool other_bounds = notes_bounds && pod.elastic_bounds != WriteElasticBounds(*bounds);
    if (other_bounds) ignored.what.insert(WriteElasticBounds(*bounds));
    bool other_template = false;
    if (IsComparable(pod.spec_hash)) {
      const auto [hash, is_new] = hashes.try_emplace(pod.role);
      if (is_new) hash->second = SpecHash(observed.job, pod.role);
      other_template = pod.spec_hash != hash->second;
    }
    if (other_template) {
      ignored.has_template = true;
      ignored.what.insert(fmt::format("{}={}", api::RoleName(pod.role), hashes[pod.role]));
    }
    if (other_bounds || other_template) ignored.pods.push_back(pod.name);
  }
  return ignored;
}

// Warns once about each such edit, because jobs are edited often, for example by an autoscaler.
void WarnOfIgnoredEdit(const Observed& observed, Plan& plan) {
  const IgnoredEdit ignored = FindIgnoredEdit(observed);
  plan.ignored_edit = fmt::format("{}", fmt::join(ignored.what, " "));
  if (ignored.pods.empty() || *plan.ignored_edit == observed.ignored_edit) return;
  std::string what = "the edit reaches";
  if (!ignored.has_template) {
    const api::ElasticSpec& bounds = *observed.job.spec.elastic;
    what = fmt::format("the bounds of elastic, {} to {} workers, reach", bounds.min_replicas,
                       bounds.max_replicas);
  }
  plan.events.push_back(
      {PlannedEvent::Type::kWarning, "EditIgnored",
       fmt::format(
           "{} pods only when they are made: {} and {} others keep what they were told; "
           "to start them all again, suspend the job, wait for its condition Suspended, and "
           "resume it",
           what, ignored.pods.front(), ignored.pods.size() - 1)});
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
  if (!notes_edit) return;
  if (observed.kept_size) {
    plan.events.push_back({PlannedEvent::Type::kWarning, "ScaleIgnored", *observed.kept_size});
  }
  if (plan.status.attempt == known.attempt) {
    WarnOfIgnoredEdit(observed, plan);
  } else {
    plan.ignored_edit = "";  // all pods are replaced
  }
}

}  // namespace lockstep::controller
