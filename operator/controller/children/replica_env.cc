#include "operator/controller/children/replica_env.h"

#include <fmt/format.h>

#include <algorithm>

#include "api/v1/defaults.h"
#include "api/v1/enum_names.h"
#include "api/v1/gpus.h"
#include "api/v1/names.h"
#include "api/v1/strategy_traits.h"
#include "api/v1/tf_config_size.h"
#include "operator/controller/state/dialects.h"
#include "operator/controller/state/main_container.h"
#include "operator/kube/object.h"

namespace lockstep::controller {
namespace {

void AddLockstep(const api::TrainingJob& job, const Replica& replica, int attempt,
                 std::vector<EnvVar>& env) {
  env.push_back({api::kEnvJob, job.metadata.name});
  env.push_back({api::kEnvNamespace, job.metadata.namespace_name});
  env.push_back({api::kEnvRole, api::RoleName(replica.role)});
  env.push_back({api::kEnvIndex, std::to_string(replica.index)});
  env.push_back({api::kEnvAttempt, std::to_string(attempt)});
}

// The trainer's default is the same as Kubernetes', so an unset value needs no variable.
void AddGrace(const api::Json& pod_template, std::vector<EnvVar>& env) {
  static const api::Json::json_pointer kGrace("/spec/terminationGracePeriodSeconds");
  if (!pod_template.contains(kGrace) || !pod_template.at(kGrace).is_number_integer()) return;
  env.push_back({api::kEnvGraceSeconds, pod_template.at(kGrace).dump()});
}

// Here, too, the trainer's default is that of Kubernetes.
void AddTerminationMessagePath(const api::Json& pod_template, std::vector<EnvVar>& env) {
  const api::Json* main = FindMainContainer(pod_template);
  if (main == nullptr) return;
  std::string path = kube::TextMember(*main, "terminationMessagePath");
  if (!path.empty()) env.push_back({api::kEnvTerminationMessagePath, std::move(path)});
}

// The GPUs of a pod of the role.
int GpusOf(const api::TrainingJob& job, api::Role role) {
  const api::Json* main = FindMainContainer(*job.spec.replica_specs.at(role).tmpl);
  return main == nullptr ? 0 : api::GpusOf(*main);
}

// What a replica's trainer reads: with an Evaluator, the others do not evaluate.
api::Json TrainingOf(const api::TrainingJob& job, api::Role role) {
  if (role == api::Role::kEvaluator || !api::HasEvaluator(job.spec)) {
    return api::TrainingSpecToJson(*job.spec.training);
  }
  api::TrainingSpec training = *job.spec.training;
  training.evaluation.enabled = false;
  return api::TrainingSpecToJson(training);
}

void AddTraining(const api::TrainingJob& job, api::Role role, std::vector<EnvVar>& env) {
  // An Evaluator's own container may have other GPUs than those that train, but it must know their
  // number: batchSize.perReplica counts it.
  const api::Role trains = role == api::Role::kEvaluator ? LeadingReplica(job).role : role;
  env.push_back({api::kEnvJobUid, job.metadata.uid});
  env.push_back({api::kEnvProcessesPerPod, std::to_string(ProcessesPerPod(job, trains))});
  if (const int gpus = GpusOf(job, role); gpus > 0) {
    env.push_back({api::kEnvGpus, std::to_string(gpus)});
  }
  env.push_back({api::kEnvPodIp, {{"fieldRef", {{"fieldPath", "status.podIP"}}}}});
  if (job.spec.restart_scope) {
    env.push_back({api::kEnvRestartScope, api::NameOf(*job.spec.restart_scope)});
  }
  AddGrace(*job.spec.replica_specs.at(role).tmpl, env);
  AddTerminationMessagePath(*job.spec.replica_specs.at(role).tmpl, env);
  env.push_back({api::kEnvConfig, TrainingOf(job, role).dump()});
  if (job.spec.strategy) {
    env.push_back({api::kEnvStrategy, api::StrategySpecToJson(*job.spec.strategy).dump()});
  }
}

// The processes of a pod if the job says so. A program that torchrun does not start may use all
// GPUs of its pod by itself, or start processes and multiply the numbers that it gets.
int StatedProcesses(const api::TrainingJob& job) {
  return job.spec.strategy ? job.spec.strategy->processes_per_pod.value_or(1) : 1;
}

// What torchrun reads of a group that it forms with others.
struct TorchGroup {
  Address leader;
  int rank = 0, nodes = 1;
};

// torchrun waits for all nodes that it is told of, so that one which trains alone is a group of
// itself. Requires: the replica trains.
TorchGroup TorchGroupOf(const ClusterSpec& cluster, const Replica& replica, int rank) {
  const api::TrainingJob& job = cluster.job();
  const bool alone = api::TraitsOf(job.spec).trains_alone;
  const Replica leading = alone ? replica : LeadingReplica(job);
  return {.leader = cluster.addresses().Of(job, leading.role, leading.index),
          .rank = alone ? 0 : rank,
          .nodes = alone ? 1 : NodeCount(job)};
}

// A script started without torchrun reads these. `leader` is null for a replica that trains alone:
// scripts divide their runs by rank and size, but some take a size above 1 for a group, and join it
// if they are told where. Then runs that have nothing to do with each other would train one model.
void AddPlainTorch(const api::TrainingJob& job, const Address* leader, int rank,
                   std::vector<EnvVar>& env) {
  if (leader != nullptr) {
    env.push_back({"MASTER_ADDR", leader->host});
    env.push_back({"MASTER_PORT", std::to_string(leader->port)});
  }
  env.push_back({"WORLD_SIZE", std::to_string(NodeCount(job) * StatedProcesses(job))});
  env.push_back({kEnvTorchRank, std::to_string(rank)});
}

void AddTorchrun(const api::TrainingJob& job, const TorchGroup& group, int processes,
                 std::vector<EnvVar>& env) {
  const auto& [leader, rank, nodes] = group;
  env.push_back({"PET_NPROC_PER_NODE", std::to_string(processes)});
  if (job.spec.elastic) {
    const api::ElasticSpec& elastic = *job.spec.elastic;
    const int chiefs = ReplicaCount(job, api::Role::kChief);  // torchrun counts its node too
    env.push_back({kEnvTorchNodes, fmt::format("{}:{}", elastic.min_replicas + chiefs,
                                               elastic.max_replicas + chiefs)});
    env.push_back({"PET_RDZV_BACKEND", "c10d"});
    env.push_back({"PET_RDZV_ENDPOINT", leader.HostPort()});
    env.push_back({"PET_RDZV_ID", job.metadata.uid});
    // Else torchrun compares the endpoint's host with its own full name, which has the cluster's
    // domain too, and with its addresses, which DNS may not have yet: then nobody would be the
    // host.
    env.push_back({kEnvTorchRendezvous, fmt::format("is_host={}", rank == 0)});
    return;
  }
  env.push_back({"PET_MASTER_ADDR", leader.host});
  env.push_back({"PET_MASTER_PORT", std::to_string(leader.port)});
  env.push_back({kEnvTorchNodes, std::to_string(nodes)});
  env.push_back({"PET_NODE_RANK", std::to_string(rank)});
}

// jax.distributed.initialize() reads the address itself; the program passes it the number of
// processes and the id. The others are those that Kubeflow sets. `leader` as for AddPlainTorch.
void AddJax(const api::TrainingJob& job, const Address* leader, int rank,
            std::vector<EnvVar>& env) {
  const std::string count = std::to_string(NodeCount(job));
  if (leader != nullptr) {
    env.push_back({"JAX_COORDINATOR_ADDRESS", leader->HostPort()});
    env.push_back({"COORDINATOR_ADDRESS", leader->host});
    env.push_back({"COORDINATOR_PORT", std::to_string(leader->port)});
  }
  env.push_back({"JAX_NUM_PROCESSES", count});
  env.push_back({"JAX_PROCESS_ID", std::to_string(rank)});
  env.push_back({"NUM_PROCESSES", count});
  env.push_back({"PROCESS_ID", std::to_string(rank)});
}

}  // namespace

int ProcessesPerPod(const api::TrainingJob& job, api::Role role) {
  if (job.spec.strategy && job.spec.strategy->processes_per_pod) {
    return *job.spec.strategy->processes_per_pod;
  }
  const auto spec = job.spec.replica_specs.find(role);
  if (spec == job.spec.replica_specs.end()) return 1;
  const api::Json* main = FindMainContainer(*spec->second.tmpl);
  if (main == nullptr) return 1;
  // The bundled trainer computes on NVIDIA's GPUs only.
  const bool bundled = api::UsesBundledTrainer(job);
  return std::max(bundled ? api::GpusOf(*main) : api::AcceleratorsOf(*main), 1);
}

bool TellsElasticBounds(const api::TrainingJob& job, api::Role role) {
  // Programs with the sparse TF_CONFIG of parameter servers are TensorFlow's.
  if (!job.spec.elastic || api::TraitsOf(job.spec).has_parameter_servers) return false;
  return NodeRank(job, {role, 0}).has_value() && DialectsOf(job, role).torch;
}

bool HasTfConfig(const api::TrainingJob& job, api::Role role) {
  return api::NeedsTfConfig(job, role) || api::TfConfigSize(job, role) <= api::kLongestTfConfig;
}

std::vector<EnvVar> SidecarEnv(const ClusterSpec& cluster, const Replica& replica, int attempt) {
  const api::TrainingJob& job = cluster.job();
  const Dialects dialects = DialectsOf(job, replica.role);
  std::vector<EnvVar> env;
  if (dialects.lockstep) AddLockstep(job, replica, attempt, env);
  if (const std::optional<int> rank = NodeRank(job, replica)) {
    const Replica leading = LeadingReplica(job);
    const Address address = cluster.addresses().Of(job, leading.role, leading.index);
    const Address* leader = api::TraitsOf(job.spec).trains_alone ? nullptr : &address;
    const int processes = ProcessesPerPod(job, replica.role);
    if (dialects.torch) {
      AddPlainTorch(job, leader, *rank, env);
      AddTorchrun(job, TorchGroupOf(cluster, replica, *rank), processes, env);
    }
    if (dialects.jax) AddJax(job, leader, *rank, env);
  }
  return env;
}

std::vector<EnvVar> ReplicaEnv(const ClusterSpec& cluster, const Replica& replica, int attempt) {
  const api::TrainingJob& job = cluster.job();
  std::vector<EnvVar> env = SidecarEnv(cluster, replica, attempt);
  if (DialectsOf(job, replica.role).tensorflow && HasTfConfig(job, replica.role)) {
    env.push_back({api::kEnvTfConfig, cluster.TfConfig(replica)});
  }
  if (api::UsesBundledTrainer(job)) AddTraining(job, replica.role, env);
  return env;
}

}  // namespace lockstep::controller
