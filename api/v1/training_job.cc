#include "api/v1/training_job.h"

#include "api/v1/enum_names.h"

namespace lockstep::api {

std::string_view RoleKey(Role role) {
  return NameOf(role);
}

std::string_view RoleName(Role role) {
  switch (role) {
    case Role::kChief:
      return "chief";
    case Role::kWorker:
      return "worker";
    case Role::kParameterServer:
      return "ps";
    case Role::kEvaluator:
      return "evaluator";
  }
  return "";
}

std::optional<Role> RoleFromKey(std::string_view key) {
  const Role* role = FindByName<Role>(key);
  return role == nullptr ? std::nullopt : std::optional(*role);
}

std::optional<Role> RoleFromName(std::string_view name) {
  for (const auto& [role, key] : kEnumNames<Role>) {
    if (RoleName(role) == name) return role;
  }
  return std::nullopt;
}

bool IsCrossentropy(LossType type) {
  return type == LossType::kSparseCategoricalCrossentropy ||
         type == LossType::kCategoricalCrossentropy || type == LossType::kBinaryCrossentropy;
}

BestMetric MetricOf(LossType type) {
  return IsCrossentropy(type) ? BestMetric::kAccuracy : BestMetric::kMeanAbsoluteError;
}

std::vector<TestMetric> TestMetricsOf(LossType type) {
  using enum TestMetric;
  if (!IsCrossentropy(type)) return {kMeanSquaredError, kRootMeanSquaredError};
  if (type == LossType::kBinaryCrossentropy) return {kAuc, kPrecision, kRecall};
  return {kTopKCategoricalAccuracy};
}

bool MultipliesMatrices(const OptimizerSpec& optimizer) {
  return optimizer.name == "Muon";
}

bool MeasuresTensors(const OptimizerSpec& optimizer) {
  return optimizer.name == "LARS" || optimizer.name == "LAMB";
}

bool NeedsWholeTensors(const OptimizerSpec& optimizer) {
  return MultipliesMatrices(optimizer) || MeasuresTensors(optimizer);
}

bool HasEvaluator(const TrainingJobSpec& spec) {
  const auto found = spec.replica_specs.find(Role::kEvaluator);
  return found != spec.replica_specs.end() && found->second.replicas > 0;
}

}  // namespace lockstep::api
