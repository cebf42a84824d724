#include "api/v1/validate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include "api/v1/defaults.h"
#include "api/v1/enum_names.h"
#include "api/v1/format_traits.h"
#include "api/v1/quantity.h"
#include "api/v1/strategy_traits.h"
#include "api/v1/validate_evaluator.h"
#include "api/v1/validate_replicas.h"
#include "api/v1/validate_start_order.h"
#include "api/v1/variants.h"
#include "base/json_text.h"

namespace lockstep::api {
namespace {

using Errors = std::vector<FieldError>;

// Returns "Mirrored and MultiWorkerMirrored", say.
std::string StrategiesThat(bool StrategyTraits::* trait) {
  std::vector<std::string_view> names;
  for (const auto& [type, name] : kEnumNames<StrategyType>) {
    if (TraitsOf(type).*trait) names.push_back(name);
  }
  return fmt::format("{}", fmt::join(names, " and "));
}

void ValidateElasticBounds(const TrainingJobSpec& spec, Errors& errors) {
  const auto [min, max] = *spec.elastic;
  if (min > max) {
    errors.push_back({"spec.elastic.minReplicas",
                      fmt::format("found {}, expected at most maxReplicas, {}", min, max)});
    return;
  }
  const auto workers = spec.replica_specs.find(Role::kWorker);
  if (workers == spec.replica_specs.end()) {
    errors.push_back({"spec.replicaSpecs.Worker", "found none, expected one with elastic"});
  } else if (workers->second.replicas < min || workers->second.replicas > max) {
    errors.push_back({"spec.replicaSpecs.Worker.replicas",
                      fmt::format("found {}, expected {} to {}, the bounds of spec.elastic",
                                  workers->second.replicas, min, max)});
  }
}

void ValidateElastic(const TrainingJobSpec& spec, Errors& errors) {
  if (!spec.elastic) return;
  ValidateElasticBounds(spec, errors);
  if (spec.strategy && !TraitsOf(spec).may_be_elastic) {
    errors.push_back(
        {"spec.elastic",
         fmt::format("found with strategy {}, expected only with {}", NameOf(spec.strategy->type),
                     StrategiesThat(&StrategyTraits::may_be_elastic))});
  }
  if (spec.training && spec.training->checkpoint.directory.empty()) {
    errors.push_back({"spec.training.checkpoint.directory",
                      "found none, expected one with elastic: a job that changes its size goes on "
                      "from a checkpoint"});
  }
  if (spec.training && spec.training->batch_size.per_replica) {
    errors.push_back(
        {"spec.training.batchSize.perReplica",
         "found with elastic, expected global: a checkpoint counts steps of one global "
         "batch"});
  }
}

void ValidateFailureRule(const PodFailureRuleSpec& rule, const std::string& path, Errors& errors) {
  if (!rule.action) {
    errors.push_back({path + ".action", "found none, expected FailJob, Ignore or Count"});
  }
  if (std::ranges::find(rule.roles, Role::kEvaluator) != rule.roles.end()) {
    errors.push_back(
        {path + ".roles",
         "found Evaluator, expected Chief, Worker or PS: an Evaluator's failures do not "
         "end a job"});
  }
  if (!rule.on_exit_codes && rule.on_reasons.empty()) {
    errors.push_back({path, "found neither onExitCodes nor onReasons, expected one of them"});
  }
  if (rule.on_exit_codes && rule.on_exit_codes->values.empty()) {
    errors.push_back({path + ".onExitCodes.values", "found none, expected exit codes"});
  }
}

void ValidateFailurePolicy(const TrainingJobSpec& spec, Errors& errors) {
  const auto& policy = spec.run_policy.pod_failure_policy;
  if (!policy) return;
  const std::string path = "spec.runPolicy.podFailurePolicy.rules";
  if (policy->rules.empty()) errors.push_back({path, "found none, expected at least one"});
  for (std::size_t i = 0; i < policy->rules.size(); ++i) {
    ValidateFailureRule(policy->rules[i], fmt::format("{}[{}]", path, i), errors);
  }
}

void ValidateRunPolicy(const TrainingJobSpec& spec, Errors& errors) {
  ValidateFailurePolicy(spec, errors);
  if (!spec.run_policy.scheduling_policy) return;
  for (const auto& [resource, quantity] :
       spec.run_policy.scheduling_policy->min_resources.items()) {
    const auto value = ParseQuantity(quantity);
    const std::string path = "spec.runPolicy.schedulingPolicy.minResources." + resource;
    if (!value.ok()) {
      errors.push_back({path, std::string(value.status().message())});
    } else if (*value < 0) {
      errors.push_back({path, fmt::format("found {}, expected at least 0", JsonText(quantity))});
    }
  }
}

void ValidateStrategy(const TrainingJobSpec& spec, Errors& errors) {
  if (!spec.strategy) return;
  const Json fields = StrategySpecToJson(*spec.strategy);
  const std::string_view own = TraitsOf(spec).settings;
  for (const auto& [type, name] : kEnumNames<StrategyType>) {
    const std::string_view settings = TraitsOf(type).settings;
    if (settings.empty() || settings == own || !fields.contains(settings)) continue;
    errors.push_back({fmt::format("spec.strategy.{}", settings),
                      fmt::format("found with strategy {}, expected only with {}",
                                  NameOf(spec.strategy->type), name)});
  }
}

void ValidateStages(const TrainingJob& job, Errors& errors) {
  if (!job.spec.strategy || job.spec.strategy->stages == 1) return;
  const StrategySpec& strategy = *job.spec.strategy;
  const std::string path = "spec.strategy.stages";
  if (!TraitsOf(strategy.type).may_have_stages) {
    errors.push_back({path, fmt::format("found {} with strategy {}, expected only with {}",
                                        strategy.stages, NameOf(strategy.type),
                                        StrategiesThat(&StrategyTraits::may_have_stages))});
  }
  if (!UsesBundledTrainer(job)) {
    errors.push_back({path, fmt::format("found {} without training, expected 1: only the bundled "
                                        "trainer cuts a model into stages",
                                        strategy.stages)});
  }
  if (job.spec.elastic) errors.push_back({"spec.elastic", "not supported yet with stages"});
  const std::int64_t processes = TrainingProcesses(job.spec);
  if (processes % strategy.stages != 0) {
    errors.push_back(
        {path, fmt::format("found {}, expected a number that divides {}, the processes "
                           "that train: a pipeline has a process for each stage",
                           strategy.stages, processes)});
  }
}

void ValidateSharding(const TrainingJob& job, Errors& errors) {
  if (!job.spec.strategy || job.spec.strategy->sharding == Sharding::kNone) return;
  const StrategySpec& strategy = *job.spec.strategy;
  const std::string path = "spec.strategy.sharding";
  const std::string_view found = NameOf(strategy.sharding);
  if (!TraitsOf(strategy.type).may_shard_state) {
    errors.push_back({path, fmt::format("found {} with strategy {}, expected only with {}", found,
                                        NameOf(strategy.type),
                                        StrategiesThat(&StrategyTraits::may_shard_state))});
  }
  if (!UsesBundledTrainer(job)) {
    errors.push_back({path, fmt::format("found {} without training, expected None: only the "
                                        "bundled trainer shards the optimizer's state",
                                        found)});
  }
  if (strategy.stages != 1) {
    errors.push_back({path, fmt::format("found {} with {} stages, which is not supported yet; "
                                        "expected None",
                                        found, strategy.stages)});
  }
  if (job.spec.elastic) errors.push_back({"spec.elastic", "not supported yet with sharding"});
}

void ValidateRestartScope(const TrainingJob& job, Errors& errors) {
  if (job.spec.restart_scope != RestartScope::kInPlace || UsesBundledTrainer(job)) return;
  errors.push_back({"spec.restartScope",
                    "found InPlace without training, expected Gang or Pod: only the bundled "
                    "trainer takes a restarted member back"});
}

// Its group has another number of workers only after it has left together.
void ValidateScaling(const TrainingJob& job, Errors& errors) {
  const bool is_scaled_pod_by_pod =
      job.spec.elastic && UsesBundledTrainer(job) && job.spec.restart_scope == RestartScope::kPod;
  if (!is_scaled_pod_by_pod) return;
  errors.push_back({"spec.restartScope",
                    "found Pod with training and elastic, expected InPlace or Gang: the bundled "
                    "trainer's group would wait for ever for workers that come or go one by one"});
}

void ValidateParameterServer(const TrainingJob& job, const ParameterServerSpec& servers,
                             Errors& errors) {
  if (job.spec.training->precision == Precision::kFloat16) {
    errors.push_back({"spec.training.precision",
                      "Float16 is not supported yet with strategy ParameterServer, whose servers "
                      "do not scale the loss; expected Float32 or BFloat16"});
  }
  if (servers.backup_workers != 0) {
    errors.push_back({"spec.strategy.parameterServer",
                      "backupWorkers are not supported yet by the bundled trainer; expected 0"});
  }
  const OptimizerSpec& optimizer = job.spec.training->optimizer;
  if (MeasuresTensors(optimizer) && servers.placement == ParameterPlacement::kBySize) {
    errors.push_back({"spec.training.optimizer.name",
                      fmt::format("found {} with parameterServer.placement BySize, which may cut a "
                                  "tensor whose norms {} needs; expected RoundRobin",
                                  optimizer.name, optimizer.name)});
  }
  if (MultipliesMatrices(optimizer)) {
    errors.push_back({"spec.training.optimizer.name",
                      fmt::format("{} is not supported yet with strategy ParameterServer, whose "
                                  "servers do not know the shapes of tensors",
                                  optimizer.name)});
  }
  if (servers.mode == ParameterServerMode::kSync && optimizer.global_clip_norm != 0) {
    errors.push_back(
        {"spec.training.optimizer.globalClipNorm",
         "not supported yet with parameterServer.mode Sync, whose gradients no process "
         "has whole"});
  }
}

// Rejects what the schema allows but the trainer does not support yet, rather than ignoring it.
void ValidateSupportedByTrainer(const TrainingJob& job, Errors& errors) {
  if (!UsesBundledTrainer(job) || !job.spec.strategy) return;
  const StrategySpec& strategy = *job.spec.strategy;
  const StrategyTraits traits = TraitsOf(strategy.type);
  if (strategy.central_storage &&
      strategy.central_storage->controller_device == ControllerDevice::kGpu) {
    errors.push_back({"spec.strategy.centralStorage.controllerDevice",
                      "GPU is not supported yet by the bundled trainer; expected CPU"});
  }
  if (strategy.parameter_server) ValidateParameterServer(job, *strategy.parameter_server, errors);
  if (traits.has_parameter_servers && job.spec.elastic) {
    errors.push_back(
        {"spec.elastic", "not supported yet by the bundled trainer with strategy ParameterServer"});
  }
  const auto& stopping = job.spec.training->early_stopping;
  const bool has_directory = !job.spec.training->checkpoint.directory.empty();
  if (traits.has_parameter_servers && stopping && stopping->restore_best && !has_directory) {
    errors.push_back({"spec.training.earlyStopping.restoreBest",
                      "found with strategy ParameterServer and without checkpoint.directory, "
                      "expected one: only the leading process has the best parameters, and its "
                      "successor reads them there"});
  }
  if (strategy.communication == Communication::kNccl && !traits.uses_collectives) {
    errors.push_back({"spec.strategy.communication",
                      fmt::format("found NCCL with strategy {}, whose processes sum no gradients; "
                                  "expected Auto or Ring",
                                  NameOf(strategy.type))});
  }
}

// The most parts that a step's batch may have.
std::int64_t MostBatchParts(TrainingJobSpec spec) {
  const auto workers = spec.replica_specs.find(Role::kWorker);
  if (spec.elastic && workers != spec.replica_specs.end()) {
    workers->second.replicas = std::max(workers->second.replicas, spec.elastic->max_replicas);
  }
  return BatchParts(spec.strategy.value_or(StrategySpec{}), TrainingProcesses(spec));
}

void ValidateAutoShard(const TrainingJob& job, Errors& errors) {
  if (!UsesBundledTrainer(job)) return;
  const AutoShard found = job.spec.training->dataset.auto_shard;
  const StrategyTraits traits = TraitsOf(job.spec);
  const auto fault = [&](std::string_view why) {
    errors.push_back(
        {"spec.training.dataset.autoShard", fmt::format("found {} {}", NameOf(found), why)});
  };
  const bool has_own_samples = found == AutoShard::kFile || found == AutoShard::kOff;
  if (traits.has_parameter_servers && has_own_samples) {
    fault(
        "with strategy ParameterServer, whose workers get batches as they are free; expected "
        "Auto or Data");
  }
  if (job.spec.elastic && found == AutoShard::kOff) {
    fault("with elastic, which would change the length of an epoch; expected Auto, Data or File");
  }
  const DatasetSpec& dataset = job.spec.training->dataset;
  const std::int64_t parts = MostBatchParts(job.spec);
  if (found == AutoShard::kFile && TraitsOf(dataset).files == FormatFiles::kOne && parts > 1) {
    fault(
        fmt::format("with format {}, whose training samples are in one file, for {} replicas; "
                    "expected Auto or Data, or format {}",
                    NameOf(dataset.format), parts, NamesOfFormats(&MayHaveFiles)));
  }
}

// Every process or pipeline that has a part of each batch needs at least one sample of it.
void ValidateBatchSplit(const TrainingJob& job, Errors& errors) {
  if (!UsesBundledTrainer(job) || !job.spec.training->batch_size.global) return;
  const StrategySpec strategy = job.spec.strategy.value_or(StrategySpec{});
  const std::int64_t parts = BatchParts(strategy, TrainingProcesses(job.spec));
  const std::int64_t global = *job.spec.training->batch_size.global;
  if (global >= parts) return;
  errors.push_back({"spec.training.batchSize.global",
                    fmt::format("found {}, expected at least {}: one sample for each {}", global,
                                parts, strategy.stages == 1 ? "process" : "pipeline")});
}

}  // namespace

std::vector<FieldError> Validate(const TrainingJob& job) {
  Errors errors;
  ValidateNames(job, errors);
  ValidateReplicas(job, errors);
  ValidateStartOrder(job.spec, errors);
  ValidateSize(job.spec, errors);
  ValidateTemplates(job, errors);
  ValidateEnvironment(job, errors);
  ValidateStrategy(job.spec, errors);
  ValidateStages(job, errors);
  ValidateSharding(job, errors);
  ValidateRestartScope(job, errors);
  ValidateElastic(job.spec, errors);
  ValidateRunPolicy(job.spec, errors);
  ValidateSupportedByTrainer(job, errors);
  ValidateEvaluator(job, errors);
  ValidateAutoShard(job, errors);
  ValidateBatchSplit(job, errors);
  ValidateVariants(job, errors);
  if (job.spec.training) {
    for (FieldError& error : ValidateTraining(*job.spec.training, "spec.training")) {
      errors.push_back(std::move(error));
    }
  }
  return errors;
}

std::vector<FieldError> ValidateNew(const TrainingJob& job) {
  Errors errors = Validate(job);
  ValidateWorld(job.spec, errors);
  ValidateScaling(job, errors);
  return errors;
}

}  // namespace lockstep::api
