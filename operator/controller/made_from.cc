#include "operator/controller/made_from.h"

#include <fmt/format.h>

#include "api/base/digest.h"

namespace lockstep::controller {

namespace {

// Workers of an elastic job that may come and go while the others run.
bool TakesWorkersIn(const api::TrainingJob& job) {
  const bool sparse = api::HasStrategy(job.spec, api::StrategyType::kParameterServer);
  return job.spec.elastic && (sparse || job.spec.restart_scope == api::RestartScope::kPod);
}

}  // namespace

std::string ClusterShape(const api::TrainingJob& job) {
  const bool independent = api::HasStrategy(job.spec, api::StrategyType::kIndependent);
  if (independent || TakesWorkersIn(job)) return "";
  std::string shape;
  for (const auto& [role, spec] : job.spec.replica_specs) {
    if (role == api::Role::kEvaluator) continue;  // nobody's peer
    shape += fmt::format("{}{}={}", shape.empty() ? "" : ",", api::RoleName(role), spec.replicas);
  }
  return shape;
}

std::string SpecHash(const api::TrainingJob& job, api::Role role) {
  std::string text;
  const auto spec = job.spec.replica_specs.find(role);
  if (spec != job.spec.replica_specs.end()) text = spec->second.tmpl->dump();
  if (job.spec.training) text += '\n' + api::TrainingSpecToJson(*job.spec.training).dump();
  if (job.spec.strategy) text += '\n' + api::StrategySpecToJson(*job.spec.strategy).dump();
  return fmt::format("{:016x}", Digest(text));
}

}  // namespace lockstep::controller
