#include "operator/controller/rules/gang_rule.h"

#include "operator/controller/children/gang.h"

namespace lockstep::controller {
namespace {

// Compares only the fields that we set, since a scheduler may add its own.
bool Agrees(const kube::Object& spec, const kube::Object& wanted) {
  if (!spec.is_object()) return false;
  for (const auto& [key, value] : wanted.items()) {
    const auto it = spec.find(key);
    if (it == spec.end() || *it != value) return false;
  }
  return true;
}

}  // namespace

bool AddPodGroup(const Observed& observed, Plan& plan) {
  if (GangSchedulerOf(observed.settings) == GangScheduler::kNone) return true;
  if (!observed.pod_group_spec) {
    plan.actions.emplace_back(CreatePodGroup{});
    return false;
  }
  const kube::Object wanted = BuildPodGroup(observed.job, observed.settings);
  if (!Agrees(*observed.pod_group_spec, wanted.at("spec"))) {
    plan.actions.emplace_back(UpdatePodGroup{});
  }
  return true;
}

void AddPodGroupDeletion(const Observed& observed, Plan& plan) {
  if (observed.pod_group_spec) plan.actions.emplace_back(DeletePodGroup{});
}

}  // namespace lockstep::controller
