#include "api/v1/validate_start_order.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "api/v1/containers.h"
#include "api/v1/enum_names.h"
#include "api/v1/names.h"
#include "api/v1/strategy_traits.h"

namespace lockstep::api {
namespace {

using Errors = std::vector<FieldError>;

// Adds the roles that `role` waits for, and those that they wait for.
void AddAwaited(const TrainingJobSpec& spec, Role role, std::set<Role>& awaited) {
  const auto replicas = spec.replica_specs.find(role);
  if (replicas == spec.replica_specs.end()) return;
  for (const DependencySpec& dependency : replicas->second.depends_on) {
    if (!dependency.role || !awaited.insert(*dependency.role).second) continue;
    AddAwaited(spec, *dependency.role, awaited);
  }
}

bool WaitsForItself(const TrainingJobSpec& spec, Role role) {
  std::set<Role> awaited;
  AddAwaited(spec, role, awaited);
  return awaited.contains(role);
}

// Returns why the role never completes while another one waits for that; nullopt if it may.
std::optional<std::string> WhyNeverComplete(const TrainingJobSpec& spec, Role role) {
  if (spec.training) return "the replicas of a job with `training` end together";
  const ReplicaSpec& replicas = spec.replica_specs.at(role);
  if (replicas.restart_policy == RestartPolicy::kAlways) {
    return "replicas with restartPolicy Always never complete";
  }
  const auto chief = spec.replica_specs.find(Role::kChief);
  const bool has_chief = chief != spec.replica_specs.end() && chief->second.replicas > 0;
  switch (role) {
    case Role::kParameterServer:
      if (!spec.strategy || !TraitsOf(spec).has_parameter_servers) return std::nullopt;
      return "parameter servers serve until the job ends";
    case Role::kChief:
      if (spec.success_policy == SuccessPolicy::kAllWorkers) return std::nullopt;
      return "the job ends with its Chief, unless successPolicy is AllWorkers";
    case Role::kWorker:
      if (has_chief) return std::nullopt;
      return "a job without a Chief ends with its workers";
    case Role::kEvaluator:
      break;
  }
  return std::nullopt;  // an Evaluator: ValidateDependency rejects it before
}

constexpr std::string_view kFrameworks[] = {kTensorFlowContainer, kPyTorchContainer, kJaxContainer};

bool HasContainerOfFramework(const TrainingJobSpec& spec, Role role) {
  return std::ranges::any_of(ContainersOf(spec, role), [](const Json& container) {
    const auto name = container.find("name");
    return name != container.end() && name->is_string() &&
           std::ranges::find(kFrameworks, name->get_ref<const std::string&>()) !=
               std::end(kFrameworks);
  });
}

// Returns true if the role starts only after the other role that trains has ended: it waits for
// that end, or for helpers that wait for it.
bool StartsAfterEnd(const TrainingJobSpec& spec, Role role) {
  const auto replicas = spec.replica_specs.find(role);
  if (replicas == spec.replica_specs.end()) return false;
  return std::ranges::any_of(replicas->second.depends_on, [&](const DependencySpec& dependency) {
    if (!dependency.role || dependency.role == role) return false;
    if (dependency.role != Role::kParameterServer) {
      return dependency.status == DependencyStatus::kComplete;
    }
    return role != Role::kParameterServer && StartsAfterEnd(spec, Role::kParameterServer);
  });
}

void ValidateDependency(const TrainingJobSpec& spec, const DependencySpec& dependency,
                        const std::string& path, Errors& errors) {
  if (!dependency.status) {
    errors.push_back({path + ".status", "found none, expected Ready or Complete"});
  }
  if (!dependency.role) {
    errors.push_back({path + ".role", "found none, expected Chief, Worker or PS"});
    return;
  }
  if (*dependency.role == Role::kEvaluator) {
    errors.push_back({path + ".role",
                      "found Evaluator, expected Chief, Worker or PS: the other replicas "
                      "do not need an Evaluator"});
    return;
  }
  if (!spec.replica_specs.contains(*dependency.role)) {
    errors.push_back({path + ".role", fmt::format("found {}, which the job does not have",
                                                  RoleKey(*dependency.role))});
    return;
  }
  if (dependency.status != DependencyStatus::kComplete) return;
  if (const auto why = WhyNeverComplete(spec, *dependency.role)) {
    errors.push_back({path + ".status", fmt::format("found Complete of {}, expected Ready: {}",
                                                    RoleKey(*dependency.role), *why)});
  }
}

}  // namespace

void ValidateStartOrder(const TrainingJobSpec& spec, Errors& errors) {
  for (const auto& [role, replicas] : spec.replica_specs) {
    const std::string path = fmt::format("spec.replicaSpecs.{}.dependsOn", RoleKey(role));
    std::set<Role> named;
    for (std::size_t i = 0; i < replicas.depends_on.size(); ++i) {
      const DependencySpec& dependency = replicas.depends_on[i];
      const std::string place = fmt::format("{}[{}]", path, i);
      ValidateDependency(spec, dependency, place, errors);
      if (dependency.role && !named.insert(*dependency.role).second) {
        errors.push_back({place, fmt::format("found {} a second time, expected roles to differ",
                                             RoleKey(*dependency.role))});
      }
    }
    if (WaitsForItself(spec, role)) {
      errors.push_back(
          {path, fmt::format("{} waits for itself, so it would never start", RoleKey(role))});
    }
  }
}

void ValidateWorld(const TrainingJobSpec& spec, Errors& errors) {
  const Role training[] = {Role::kChief, Role::kWorker};
  const bool counts_both = std::ranges::any_of(
      training, [&spec](Role role) { return HasContainerOfFramework(spec, role); });
  if (!counts_both) return;
  for (const Role role : training) {
    if (!StartsAfterEnd(spec, role)) continue;
    errors.push_back({fmt::format("spec.replicaSpecs.{}.dependsOn", RoleKey(role)),
                      "found Complete of the other role that trains, expected Ready, or no "
                      "container named tensorflow, pytorch or jax: the environment of such a "
                      "container counts the Chief and the workers together"});
  }
}

}  // namespace lockstep::api
