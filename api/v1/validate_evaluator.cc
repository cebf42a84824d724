#include "api/v1/validate_evaluator.h"

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "api/v1/defaults.h"
#include "api/v1/enum_names.h"

namespace lockstep::api {
namespace {

// Returns the member of an object; null if there is none.
const Json* Member(const Json& object, const char* name) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(name);
  return found == object.end() ? nullptr : &*found;
}

// Returns true if `path` is `folder` or in it. Both are absolute.
bool IsWithin(std::string_view path, std::string_view folder) {
  while (folder.ends_with('/')) folder.remove_suffix(1);
  if (!path.starts_with(folder)) return false;
  return path.size() == folder.size() || path[folder.size()] == '/';
}

bool ContainerMounts(const Json& container, std::string_view path) {
  const Json* mounts = Member(container, "volumeMounts");
  if (mounts == nullptr || !mounts->is_array()) return false;
  for (const Json& mount : *mounts) {
    const Json* at = Member(mount, "mountPath");
    if (at != nullptr && at->is_string() && IsWithin(path, at->get_ref<const std::string&>())) {
      return true;
    }
  }
  return false;
}

// Returns true if a container of the role's pods has a volume at `path` or above it.
bool Mounts(const TrainingJobSpec& spec, Role role, std::string_view path) {
  const auto replicas = spec.replica_specs.find(role);
  if (replicas == spec.replica_specs.end() || replicas->second.replicas == 0) return false;
  const Json* pod = Member(*replicas->second.tmpl, "spec");
  const Json* containers = pod == nullptr ? nullptr : Member(*pod, "containers");
  if (containers == nullptr || !containers->is_array()) return false;
  for (const Json& container : *containers) {
    if (ContainerMounts(container, path)) return true;
  }
  return false;
}

// Without any volume, `lockstep run` has both use the directory of this machine.
void ValidateMount(const TrainingJob& job, std::vector<FieldError>& errors) {
  const std::string& directory = job.spec.training->checkpoint.directory;
  const auto chief = job.spec.replica_specs.find(Role::kChief);
  const bool has_chief = chief != job.spec.replica_specs.end() && chief->second.replicas > 0;
  const Role leading = has_chief ? Role::kChief : Role::kWorker;
  if (directory.empty() || !Mounts(job.spec, leading, directory)) return;
  if (Mounts(job.spec, Role::kEvaluator, directory)) return;
  errors.push_back(
      {"spec.replicaSpecs.Evaluator.template.spec.containers",
       fmt::format(
           "found no volume mounted at {} or above it, expected that of {}, which holds the "
           "checkpoints",
           directory, RoleKey(leading))});
}

}  // namespace

void ValidateEvaluator(const TrainingJob& job, std::vector<FieldError>& errors) {
  if (!UsesBundledTrainer(job)) return;
  const TrainingSpec& training = *job.spec.training;
  if (!HasEvaluator(job.spec)) {
    if (training.checkpoint.keep_best) {
      errors.push_back({"spec.training.checkpoint.keepBest",
                        "found without an Evaluator, expected one in spec.replicaSpecs: only an "
                        "Evaluator keeps the best checkpoint"});
    }
    return;
  }
  const BestMetric metric = MetricOf(training.loss.type);
  const BestMetric best = training.checkpoint.keep_best.value_or(metric);
  if (best != metric && best != BestMetric::kLoss) {
    errors.push_back({"spec.training.checkpoint.keepBest",
                      fmt::format("found {} with loss {}, expected {} or Loss", NameOf(best),
                                  NameOf(training.loss.type), NameOf(metric))});
  }
  if (training.checkpoint.directory.empty()) {
    errors.push_back({"spec.training.checkpoint.directory",
                      "found none, expected one with an Evaluator: it evaluates checkpoints"});
  }
  if (!training.evaluation.enabled) {
    errors.push_back({"spec.training.evaluation.enabled",
                      "found false with an Evaluator, which does nothing else; expected true"});
  }
  ValidateMount(job, errors);
}

}  // namespace lockstep::api
