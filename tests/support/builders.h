// Builds jobs for tests in one line: Job("mnist").Workers(2).Training().Build().
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "api/v1/defaults.h"
#include "api/v1/training_job.h"

namespace lockstep::testing {

// Returns a pod template with one container, as written by a user with their own image.
inline api::Json Template(const std::string& container = "tensorflow",
                          const std::string& image = "example.com/train:1") {
  return {{"spec", {{"containers", {{{"name", container}, {"image", image}}}}}}};
}

// Returns a valid training section: core-cnn on MNIST, two epochs, batches of 128.
inline api::TrainingSpec MnistTraining() {
  api::TrainingSpec training;
  training.model.name = "core-cnn";
  training.dataset.path = "/data/mnist";
  training.batch_size.global = 128;
  training.epochs = 2;
  return training;
}

// Builds a valid job by default. Roles get a one-container template, or none with Training().
class JobBuilder {
 public:
  explicit JobBuilder(std::string name) {
    job_.metadata.name = std::move(name);
    job_.metadata.uid = job_.metadata.name + "-uid";
    job_.metadata.generation = 1;
  }

  JobBuilder& Namespace(std::string name) {
    job_.metadata.namespace_name = std::move(name);
    return *this;
  }
  JobBuilder& Uid(std::string uid) {
    job_.metadata.uid = std::move(uid);
    return *this;
  }
  JobBuilder& Chief(int replicas = 1) { return Replicas(api::Role::kChief, replicas); }
  JobBuilder& Workers(int replicas) { return Replicas(api::Role::kWorker, replicas); }
  JobBuilder& ParameterServers(int replicas) {
    return Replicas(api::Role::kParameterServer, replicas);
  }
  JobBuilder& Evaluator(int replicas = 1) { return Replicas(api::Role::kEvaluator, replicas); }
  JobBuilder& Replicas(api::Role role, int replicas) {
    api::ReplicaSpec& spec = job_.spec.replica_specs[role];
    spec.replicas = replicas;
    if (!job_.spec.training && spec.tmpl->empty()) spec.tmpl = Template();
    return *this;
  }
  JobBuilder& PodTemplate(api::Role role, api::Json tmpl) {
    job_.spec.replica_specs[role].tmpl = std::move(tmpl);
    return *this;
  }
  // A worker's program is torchrun's, which forms a group of any number in the bounds.
  JobBuilder& ElasticTorch(int min, int max) {
    job_.spec.elastic = api::ElasticSpec{min, max};
    return PodTemplate(api::Role::kWorker, Template("pytorch"));
  }
  JobBuilder& RestartPolicy(api::Role role, api::RestartPolicy policy) {
    job_.spec.replica_specs[role].restart_policy = policy;
    return *this;
  }
  JobBuilder& DependsOn(api::Role role, api::Role other, api::DependencyStatus status) {
    job_.spec.replica_specs[role].depends_on.push_back({other, status});
    return *this;
  }
  // Uses the bundled trainer. Drops the templates that Workers() and the like have set.
  JobBuilder& Training(api::TrainingSpec training = MnistTraining()) {
    job_.spec.training = std::move(training);
    for (auto& [role, replicas] : job_.spec.replica_specs) {
      if (*replicas.tmpl == Template()) replicas.tmpl = api::Json::object();
    }
    return *this;
  }
  JobBuilder& Strategy(api::StrategyType type) {
    if (!job_.spec.strategy) job_.spec.strategy.emplace();
    job_.spec.strategy->type = type;
    return *this;
  }
  JobBuilder& ProcessesPerPod(int processes) {
    if (!job_.spec.strategy) job_.spec.strategy.emplace();
    job_.spec.strategy->processes_per_pod = processes;
    return *this;
  }
  JobBuilder& Stages(int stages) {
    if (!job_.spec.strategy) job_.spec.strategy.emplace();
    job_.spec.strategy->stages = stages;
    return *this;
  }
  JobBuilder& ShardsState() {
    if (!job_.spec.strategy) job_.spec.strategy.emplace();
    job_.spec.strategy->sharding = api::Sharding::kZero1;
    return *this;
  }
  JobBuilder& RestartScope(api::RestartScope scope) {
    job_.spec.restart_scope = scope;
    return *this;
  }
  JobBuilder& SuccessPolicy(api::SuccessPolicy policy) {
    job_.spec.success_policy = policy;
    return *this;
  }
  JobBuilder& CleanPodPolicy(api::CleanPodPolicy policy) {
    job_.spec.run_policy.clean_pod_policy = policy;
    return *this;
  }
  JobBuilder& BackoffLimit(int limit) {
    job_.spec.run_policy.backoff_limit = limit;
    return *this;
  }
  JobBuilder& ActiveDeadlineSeconds(std::int64_t seconds) {
    job_.spec.run_policy.active_deadline_seconds = seconds;
    return *this;
  }
  JobBuilder& PendingDeadlineSeconds(std::int64_t seconds) {
    job_.spec.run_policy.pending_deadline_seconds = seconds;
    return *this;
  }
  JobBuilder& ProgressDeadlineSeconds(std::int64_t seconds) {
    job_.spec.run_policy.progress_deadline_seconds = seconds;
    return *this;
  }
  JobBuilder& TtlSecondsAfterFinished(std::int64_t seconds) {
    job_.spec.run_policy.ttl_seconds_after_finished = seconds;
    return *this;
  }
  JobBuilder& Suspended(bool suspend = true) {
    job_.spec.suspend = suspend;
    return *this;
  }
  // Makes any other change.
  JobBuilder& With(const std::function<void(api::TrainingJob&)>& change) {
    change(job_);
    return *this;
  }

  api::TrainingJob Build() const { return job_; }
  // Returns the job with defaults, as the operator's rules see it.
  api::TrainingJob BuildWithDefaults() const { return api::WithDefaults(job_); }

 private:
  api::TrainingJob job_;
};

inline JobBuilder Job(std::string name) {
  return JobBuilder(std::move(name));
}

}  // namespace lockstep::testing
