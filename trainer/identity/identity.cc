#include "trainer/identity/identity.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <utility>

#include "api/v1/enum_names.h"
#include "api/v1/gpus.h"
#include "api/v1/names.h"
#include "base/digest.h"
#include "base/status.h"
#include "trainer/identity/parse_text.h"

namespace lockstep::train {
namespace {

using nlohmann::json;

constexpr int kMaxProcessesPerPod = 1024;

constexpr int kMostGraceSeconds = 1'000'000'000;

absl::Status ReadInt(const GetEnv& env, const char* name, int least, int most, int& value) {
  const auto text = env(name);
  if (!text) return absl::OkStatus();
  const std::optional<int> number = ParseInt(*text);
  if (!number || *number < least || *number > most) {
    return Invalid(
        fmt::format("{}: found \"{}\", expected an integer of {} to {}", name, *text, least, most));
  }
  value = *number;
  return absl::OkStatus();
}

absl::Status ReadCount(const GetEnv& env, const char* name, const char* of, std::int64_t& value) {
  const auto text = env(name);
  if (!text) return absl::OkStatus();
  const std::optional<std::int64_t> number = ParseInt64(*text);
  if (!number || *number < 0) {
    return Invalid(fmt::format("{}: found \"{}\", expected {}", name, *text, of));
  }
  value = *number;
  return absl::OkStatus();
}

absl::Status ReadIncarnation(const GetEnv& env, Incarnation& incarnation) {
  LOCKSTEP_RETURN_IF_ERROR(
      ReadCount(env, kEnvPodStarted, "nanoseconds since 1970", incarnation.pod_started));
  return ReadCount(env, kEnvProcessNumber, "a count of processes", incarnation.process_number);
}

absl::Status ReadSections(const GetEnv& env, Identity& id) {
  const auto config = env(api::kEnvConfig);
  if (!config) {
    return Invalid(fmt::format("{} is not set; it holds the job's `training` section as JSON",
                               api::kEnvConfig));
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const json training, ParseJson(api::kEnvConfig, *config));
  auto spec = api::TrainingSpecFromJson(training);
  if (!spec.ok()) {
    return Invalid(fmt::format("{}: {}", api::kEnvConfig, std::string(spec.status().message())));
  }
  id.training = *std::move(spec);
  if (const auto text = env(api::kEnvStrategy)) {
    LOCKSTEP_ASSIGN_OR_RETURN(const json strategy, ParseJson(api::kEnvStrategy, *text));
    auto parsed = api::StrategySpecFromJson(strategy);
    if (!parsed.ok()) {
      return Invalid(
          fmt::format("{}: {}", api::kEnvStrategy, std::string(parsed.status().message())));
    }
    id.strategy = *std::move(parsed);
  }
  return absl::OkStatus();
}

// Checks that LOCKSTEP_ROLE and LOCKSTEP_INDEX agree with TF_CONFIG.
absl::Status ReadTask(const GetEnv& env, Identity& id) {
  const auto role = env(api::kEnvRole);
  const auto index = env(api::kEnvIndex);
  const auto tf_config = env(api::kEnvTfConfig);
  if (!tf_config) {
    if (role || index) {
      return Invalid(fmt::format("{} is not set, but {} says that this is {} {} of a job",
                                 api::kEnvTfConfig, role ? api::kEnvRole : api::kEnvIndex,
                                 role.value_or("replica"), index.value_or("?")));
    }
    id.cluster.worker = {"127.0.0.1:0"};
    return absl::OkStatus();
  }
  LOCKSTEP_ASSIGN_OR_RETURN(id.cluster, ParseTfConfig(*tf_config));
  id.role = id.cluster.task_role;
  id.index = id.cluster.task_index;
  if (role && api::RoleFromName(*role) != id.role) {
    return Invalid(fmt::format("{} is \"{}\", but TF_CONFIG's task.type is \"{}\"", api::kEnvRole,
                               *role, api::RoleName(id.role)));
  }
  int told = id.index;
  LOCKSTEP_RETURN_IF_ERROR(ReadInt(env, api::kEnvIndex, 0, kMaxIndex, told));
  if (told != id.index) {
    return Invalid(
        fmt::format("{} is {}, but TF_CONFIG's task.index is {}", api::kEnvIndex, told, id.index));
  }
  return absl::OkStatus();
}

absl::Status CheckComplete(const char* role, const std::vector<std::string>& addresses) {
  const auto gap = std::ranges::find(addresses, "");
  if (gap == addresses.end()) return absl::OkStatus();
  return Invalid(fmt::format("TF_CONFIG: cluster.{} lacks index {} of {}", role,
                             gap - addresses.begin(), addresses.size()));
}

// Collectives need every peer's address. With parameter servers a worker needs only theirs, and so
// may get a sparse list of workers.
absl::Status CheckPeers(const Identity& id) {
  if (id.Pods() == 0) return Invalid("TF_CONFIG: cluster has neither a chief nor a worker");
  if (!id.Traits().has_parameter_servers) return CheckComplete("worker", id.cluster.worker);
  if (id.cluster.ps.empty()) {
    return Invalid("TF_CONFIG: cluster has no ps, expected one at least with ParameterServer");
  }
  if (id.role == api::Role::kEvaluator && id.LeaderAddress().empty()) {
    return Invalid("TF_CONFIG: cluster.worker lacks index 0, to which an Evaluator reports");
  }
  return CheckComplete("ps", id.cluster.ps);
}

absl::Status ReadWorkers(const GetEnv& env, Identity& id) {
  int workers = static_cast<int>(id.cluster.worker.size());
  LOCKSTEP_RETURN_IF_ERROR(ReadInt(env, kEnvWorkers, 1, kMaxIndex + 1, workers));
  if (workers == static_cast<int>(id.cluster.worker.size())) return absl::OkStatus();
  const bool is_out = id.role == api::Role::kWorker && id.index >= workers;
  if (is_out || !id.IsResizable()) {
    return Invalid(fmt::format("{} is {}, but TF_CONFIG has {} workers, and this is {} {}",
                               kEnvWorkers, workers, id.cluster.worker.size(),
                               api::RoleName(id.role), id.index));
  }
  id = id.WithWorkers(workers);
  return absl::OkStatus();
}

// An operator checks this too; a pod may also be written by hand.
absl::Status CheckStages(const Identity& id) {
  if (id.Stages() == 1) return absl::OkStatus();
  if (!id.Traits().may_have_stages) {
    return Invalid(fmt::format("{}: found {} stages with strategy {}, which has none",
                               api::kEnvStrategy, id.Stages(), api::NameOf(id.strategy.type)));
  }
  if (id.World() % id.Stages() == 0) return absl::OkStatus();
  return Invalid(fmt::format(
      "{}: found {} stages, expected a number that divides {}, the processes that train",
      api::kEnvStrategy, id.Stages(), id.World()));
}

absl::Status CheckSharding(const Identity& id) {
  const api::StrategySpec& strategy = id.strategy;
  if (strategy.sharding == api::Sharding::kNone) return absl::OkStatus();
  if (id.Traits().may_shard_state && id.Stages() == 1) return absl::OkStatus();
  return Invalid(fmt::format(
      "{}: found sharding {} with strategy {} and {} stages, expected Mirrored or "
      "MultiWorkerMirrored, and 1",
      api::kEnvStrategy, api::NameOf(strategy.sharding), api::NameOf(strategy.type), id.Stages()));
}

// Clears the paths: pods may mount their data in different places, not all of them may have a
// cache, and only the leading pod needs the initial weights, and places for checkpoints, the
// exported model and summaries.
api::TrainingSpec WithoutPaths(api::TrainingSpec training) {
  training.dataset.path.clear();
  training.dataset.cache_directory.clear();
  training.initial_weights.path.clear();
  training.checkpoint.directory.clear();
  training.checkpoint.export_to.clear();
  training.summaries.directory.clear();
  return training;
}

}  // namespace

std::string HostPort(const std::string& ip, const std::string& port) {
  const bool bare_ipv6 = ip.find(':') != std::string::npos && !ip.starts_with('[');
  return fmt::format("{}:{}", bare_ipv6 ? "[" + ip + "]" : ip, port);
}

int Identity::Pods() const {
  return static_cast<int>(cluster.chief.size() + cluster.worker.size());
}

api::StrategyTraits Identity::Traits() const {
  return api::TraitsOf(strategy.type);
}

// For pods that do not train, processes_per_pod is that of the pods that do.
int Identity::Processes() const {
  return role == api::Role::kEvaluator ? 1 : processes_per_pod;
}

int Identity::BatchParts() const {
  return static_cast<int>(api::BatchParts(strategy, World()));
}

int Identity::World() const {
  return Traits().trains_alone ? 1 : Pods() * processes_per_pod;
}

int Identity::PodRank() const {
  if (role == api::Role::kChief) return 0;
  if (role == api::Role::kWorker) return static_cast<int>(cluster.chief.size()) + index;
  return -1;
}

int Identity::RankOf(int local) const {
  const int pod_rank = PodRank();
  return pod_rank < 0 ? -1 : pod_rank * processes_per_pod + local;
}

int Identity::Stages() const {
  return strategy.stages;
}

int Identity::StageOf(int rank) const {
  return rank % Stages();
}

api::Role Identity::LeaderRole() const {
  return cluster.chief.empty() ? api::Role::kWorker : api::Role::kChief;
}

std::string Identity::LeaderAddress() const {
  return LeaderRole() == api::Role::kChief ? cluster.chief.front() : cluster.worker.front();
}

std::string Identity::LeaderHost() const {
  const std::string address = LeaderAddress();
  return address.substr(0, address.rfind(':'));
}

bool Identity::IsLeader() const {
  return PodRank() == 0 && !Traits().trains_alone;
}

std::string Identity::ClusterHash() const {
  // A trainer that knows no stages or no sharding refuses a job that has them; of others it may be
  // a member.
  std::string stages = Stages() == 1 ? "" : fmt::format(" stages={}", Stages());
  if (strategy.sharding != api::Sharding::kNone) {
    stages += fmt::format(" sharding={}", api::NameOf(strategy.sharding));
  }
  return fmt::format(
      "protocol={} uid={} attempt={} chief={} worker={} ps={} processesPerPod={}{} "
      "training={:016x}",
      kProtocol, job_uid, attempt, cluster.chief.size(), cluster.worker.size(), cluster.ps.size(),
      processes_per_pod, stages, TrainingDigest());
}

bool Identity::IsResizable() const {
  const api::StrategyTraits traits = Traits();
  const bool is_divided = Stages() > 1 || strategy.sharding != api::Sharding::kNone;
  return traits.uses_collectives && traits.may_be_elastic && !is_divided &&
         !cluster.worker.empty() && !training.checkpoint.directory.empty();
}

Identity Identity::WithWorkers(int workers) const {
  Identity other = *this;
  const std::string first = cluster.worker.front();
  const std::string mark = "-worker-0.";
  const std::size_t at = first.find(mark);
  other.cluster.worker.resize(static_cast<std::size_t>(workers));
  for (std::size_t worker = cluster.worker.size(); worker < other.cluster.worker.size(); ++worker) {
    if (at == std::string::npos) break;
    other.cluster.worker[worker] =
        fmt::format("{}-worker-{}.{}", first.substr(0, at), worker, first.substr(at + mark.size()));
  }
  return other;
}

std::uint64_t Identity::TrainingDigest() const {
  return Digest(api::TrainingSpecToJson(WithoutPaths(training)).dump());
}

std::optional<std::string> ProcessEnv(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  return value ? std::optional<std::string>(value) : std::nullopt;
}

absl::StatusOr<Identity> ReadIdentity(const GetEnv& env) {
  Identity id;
  id.job = env(api::kEnvJob).value_or("local");
  id.job_uid = env(api::kEnvJobUid).value_or("");
  id.namespace_name = env(api::kEnvNamespace).value_or("default");
  id.pod_ip = env(api::kEnvPodIp).value_or("");
  id.rendezvous_address = env(kEnvRendezvousAddress).value_or("");
  LOCKSTEP_RETURN_IF_ERROR(ReadSections(env, id));
  LOCKSTEP_RETURN_IF_ERROR(ReadTask(env, id));
  LOCKSTEP_RETURN_IF_ERROR(CheckPeers(id));
  LOCKSTEP_RETURN_IF_ERROR(ReadWorkers(env, id));
  LOCKSTEP_RETURN_IF_ERROR(ReadInt(env, api::kEnvAttempt, 0, 1'000'000'000, id.attempt));
  id.processes_per_pod = id.strategy.processes_per_pod.value_or(1);
  LOCKSTEP_RETURN_IF_ERROR(
      ReadInt(env, api::kEnvProcessesPerPod, 1, kMaxProcessesPerPod, id.processes_per_pod));
  LOCKSTEP_RETURN_IF_ERROR(ReadInt(env, api::kEnvGpus, 0, api::kMostGpus, id.gpus));
  LOCKSTEP_RETURN_IF_ERROR(ReadIncarnation(env, id.incarnation));
  LOCKSTEP_RETURN_IF_ERROR(
      ReadInt(env, api::kEnvGraceSeconds, 0, kMostGraceSeconds, id.grace_seconds));
  if (id.role == api::Role::kParameterServer) id.processes_per_pod = 1;  // of the workers' pods
  LOCKSTEP_RETURN_IF_ERROR(CheckStages(id));
  LOCKSTEP_RETURN_IF_ERROR(CheckSharding(id));
  id.operated = env(api::kEnvRestartScope).has_value();
  if (const auto file = env(api::kEnvTokenFile)) {
    LOCKSTEP_ASSIGN_OR_RETURN(id.token, api::JobToken::ReadFile(*file));
  }
  LOCKSTEP_RETURN_IF_ERROR(ReadInt(env, kEnvLocalRank, 0, id.processes_per_pod - 1, id.local_rank));
  return id;
}

}  // namespace lockstep::train
