// The roles of a job's replicas.
#pragma once

#include <optional>
#include <string_view>

namespace lockstep::api {

enum class Role { kChief, kWorker, kParameterServer, kEvaluator };
// Returns the key in replicaSpecs: "Chief", "Worker", "PS" or "Evaluator".
std::string_view RoleKey(Role role);
// Returns the name in labels, pod names and TF_CONFIG: "chief", "worker", "ps" or "evaluator".
std::string_view RoleName(Role role);
std::optional<Role> RoleFromKey(std::string_view key);
std::optional<Role> RoleFromName(std::string_view name);

}  // namespace lockstep::api
