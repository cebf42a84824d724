#include "api/v1/defaults.h"

#include <algorithm>

#include "api/v1/containers.h"
#include "api/v1/format_traits.h"
#include "api/v1/gpus.h"
#include "api/v1/strategy_traits.h"

namespace lockstep::api {
namespace {

// The bundled trainer's supervisors restart in place. Other programs usually cannot take a member
// back, so the whole gang restarts, unless parameter servers hold the state or the replicas do not
// work together.
RestartScope DefaultRestartScope(const TrainingJob& job) {
  if (UsesBundledTrainer(job)) return RestartScope::kInPlace;
  const auto& strategy = job.spec.strategy;
  return TraitsOf(strategy ? strategy->type : DefaultStrategy(job.spec)).restart_scope;
}

// One process per GPU of a container of the workers' or the chief's pod; without GPUs, one.
int DefaultProcessesPerPod(const TrainingJobSpec& spec) {
  int processes = 1;
  for (const Role role : {Role::kWorker, Role::kChief}) {
    for (const Json& container : ContainersOf(spec, role)) {
      processes = std::max(processes, GpusOf(container));
    }
  }
  return processes;
}

}  // namespace

StrategyType DefaultStrategy(const TrainingJobSpec& spec) {
  return spec.replica_specs.contains(Role::kParameterServer) ? StrategyType::kParameterServer
                                                             : StrategyType::kMultiWorkerMirrored;
}

bool UsesBundledTrainer(const TrainingJob& job) {
  return job.spec.training.has_value();
}

bool HasTrainingGroup(const TrainingJob& job) {
  return UsesBundledTrainer(job) && !TraitsOf(job.spec).trains_alone;
}

TrainingJob WithDefaults(TrainingJob job) {
  TrainingJobSpec& spec = job.spec;
  if (!spec.strategy && spec.training) {
    spec.strategy.emplace();
    spec.strategy->type = DefaultStrategy(spec);
  }
  if (spec.strategy) {
    StrategySpec& strategy = *spec.strategy;
    // A program of the user's that torchrun does not start is one process.
    if (spec.training && !strategy.processes_per_pod) {
      strategy.processes_per_pod = DefaultProcessesPerPod(spec);
    }
    if (TraitsOf(strategy.type).has_parameter_servers && !strategy.parameter_server) {
      strategy.parameter_server.emplace();
    }
  }
  if (!spec.restart_scope) spec.restart_scope = DefaultRestartScope(job);
  if (!spec.success_policy) spec.success_policy = TraitsOf(spec).success_policy;
  // The bundled trainer's exit codes tell what is worth a retry. Other programs exit with 1 for any
  // failure, a lost peer as well as a bug.
  const RestartPolicy policy = spec.training ? RestartPolicy::kExitCode : RestartPolicy::kOnFailure;
  for (auto& [role, replicas] : spec.replica_specs) {
    if (!replicas.restart_policy) replicas.restart_policy = policy;
  }
  if (spec.training && TraitsOf(spec.training->dataset).is_generated &&
      !spec.training->dataset.synthetic) {
    spec.training->dataset.synthetic.emplace();
  }
  return job;
}

}  // namespace lockstep::api
