#include "trainer/control/identity.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "api/base/status.h"
#include "api/v1/names.h"

namespace lockstep::train {
namespace {

using nlohmann::json;

constexpr int kMaxIndex = 100'000;
constexpr int kMaxProcessesPerPod = 1024;

absl::Status Invalid(const std::string& message) {
  return absl::InvalidArgumentError(message);
}

std::optional<int> ParseInt(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

absl::StatusOr<json> ParseJson(const std::string& name, const std::string& text) {
  try {
    return json::parse(text);
  } catch (const json::parse_error& error) {
    return Invalid(fmt::format("{} is not JSON: {}", name, error.what()));
  }
}

bool IsHostCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
         c == '-' || c == '_';
}

bool IsHost(std::string_view host) {
  if (host.empty()) return false;
  if (host.front() == '[') {
    return host.size() > 2 && host.back() == ']' &&
           host.find_first_not_of("0123456789abcdefABCDEF:.%", 1) == host.size() - 1;
  }
  for (const char c : host) {
    if (!IsHostCharacter(c)) return false;
  }
  return true;
}

absl::Status CheckAddress(const std::string& field, const std::string& address) {
  const std::size_t colon = address.rfind(':');
  const std::string_view text = address;
  const bool has_port = colon != std::string::npos;
  const std::optional<int> port = has_port ? ParseInt(text.substr(colon + 1)) : std::nullopt;
  if (!port || *port < 1 || *port > 65535 || !IsHost(text.substr(0, colon))) {
    return Invalid(
        fmt::format("TF_CONFIG: {}: found \"{}\", expected host:port with a port of 1 to "
                    "65535 (IPv6 in brackets)",
                    field, address));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> ParseAddress(const std::string& field, const json& value) {
  if (!value.is_string()) {
    return Invalid(fmt::format("TF_CONFIG: {}: found {}, expected a string \"host:port\"", field,
                               value.dump()));
  }
  const std::string address = value.get<std::string>();
  LOCKSTEP_RETURN_IF_ERROR(CheckAddress(field, address));
  return address;
}

// One role's addresses: a list, or a sparse map from index to address.
absl::StatusOr<std::vector<std::string>> ParseAddresses(const std::string& field,
                                                        const json& value) {
  std::vector<std::string> addresses;
  if (!value.is_array() && !value.is_object()) {
    return Invalid(fmt::format("TF_CONFIG: {}: found {}, expected a list of \"host:port\"", field,
                               value.dump()));
  }
  for (const auto& [key, item] : value.items()) {
    const std::optional<int> index = ParseInt(key);
    if (!index || *index < 0 || *index > kMaxIndex) {
      return Invalid(
          fmt::format("TF_CONFIG: {}: found the key \"{}\", expected an index of 0 to {}", field,
                      key, kMaxIndex));
    }
    const auto at = static_cast<std::size_t>(*index);
    if (addresses.size() <= at) addresses.resize(at + 1);
    LOCKSTEP_ASSIGN_OR_RETURN(addresses[at], ParseAddress(fmt::format("{}[{}]", field, key), item));
  }
  return addresses;
}

template <typename Spec>
auto* AddressesOf(Spec& spec, api::Role role) {
  switch (role) {
    case api::Role::kChief:
      return &spec.chief;
    case api::Role::kWorker:
      return &spec.worker;
    case api::Role::kParameterServer:
      return &spec.ps;
    case api::Role::kEvaluator:
      break;
  }
  return &spec.evaluator;
}

absl::Status ParseCluster(const json& config, ClusterSpec& spec) {
  if (!config.contains("cluster")) return Invalid("TF_CONFIG: cluster is missing");
  const json& cluster = config["cluster"];
  if (!cluster.is_object() || cluster.empty()) {
    return Invalid(
        fmt::format("TF_CONFIG: cluster: found {}, expected an object with one list of "
                    "addresses for each of chief, worker, ps, evaluator",
                    cluster.dump()));
  }
  std::map<std::string, std::string> seen;  // address -> field
  for (const auto& [name, value] : cluster.items()) {
    const std::string field = "cluster." + name;
    const std::optional<api::Role> role = api::RoleFromName(name);
    if (!role) {
      return Invalid(fmt::format(
          "TF_CONFIG: {}: unknown role, expected chief, worker, ps or evaluator", field));
    }
    LOCKSTEP_ASSIGN_OR_RETURN(auto addresses, ParseAddresses(field, value));
    for (std::size_t i = 0; i < addresses.size(); ++i) {
      if (addresses[i].empty()) continue;  // left out of a sparse map
      const auto [at, fresh] = seen.emplace(addresses[i], fmt::format("{}[{}]", field, i));
      if (!fresh) {
        return Invalid(fmt::format("TF_CONFIG: {}[{}] and {} are both {}; addresses must differ",
                                   field, i, at->second, addresses[i]));
      }
    }
    *AddressesOf(spec, *role) = std::move(addresses);
  }
  if (spec.chief.size() > 1) {
    return Invalid(fmt::format("TF_CONFIG: cluster.chief has {} addresses, at most one is allowed",
                               spec.chief.size()));
  }
  return absl::OkStatus();
}

absl::Status ParseTask(const json& config, ClusterSpec& spec) {
  const json task = config.value("task", json());
  if (!task.is_object()) {
    return Invalid(fmt::format(
        "TF_CONFIG: task: found {}, expected {{\"type\": role, \"index\": number}}", task.dump()));
  }
  const json type = task.value("type", json());
  const auto role =
      type.is_string() ? api::RoleFromName(type.get<std::string>()) : std::optional<api::Role>();
  if (!role) {
    return Invalid(fmt::format(
        "TF_CONFIG: task.type: found {}, expected chief, worker, ps or evaluator", type.dump()));
  }
  const json index_value = task.value("index", json());
  const std::optional<int> index =
      ParseInt(index_value.is_string() ? index_value.get<std::string>() : index_value.dump());
  const std::vector<std::string>& peers = *AddressesOf(spec, *role);
  if (!index || *index < 0 || static_cast<std::size_t>(*index) >= peers.size() ||
      peers[static_cast<std::size_t>(*index)].empty()) {
    return Invalid(
        fmt::format("TF_CONFIG: task.index: found {}, expected the index of one of the {} "
                    "addresses of cluster.{}",
                    index_value.dump(), peers.size(), api::RoleName(*role)));
  }
  spec.task_role = *role;
  spec.task_index = *index;
  return absl::OkStatus();
}

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

// The role and index of LOCKSTEP_* and those of TF_CONFIG must say the same.
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

// Collectives need every peer's place, so TF_CONFIG must not be sparse for those who take part.
absl::Status CheckPeers(const Identity& id) {
  if (id.Pods() == 0) return Invalid("TF_CONFIG: cluster has neither a chief nor a worker");
  if (id.strategy.type == api::StrategyType::kParameterServer) return absl::OkStatus();
  for (std::size_t i = 0; i < id.cluster.worker.size(); ++i) {
    if (id.cluster.worker[i].empty()) {
      return Invalid(fmt::format("TF_CONFIG: cluster.worker lacks index {} of {}", i,
                                 id.cluster.worker.size()));
    }
  }
  return absl::OkStatus();
}

// FNV-1a, 64 bits (RFC draft-eastlake-fnv): tells texts apart, no defence against an adversary.
std::uint64_t Digest(const std::string& text) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

}  // namespace

absl::StatusOr<ClusterSpec> ParseTfConfig(const std::string& text) {
  LOCKSTEP_ASSIGN_OR_RETURN(const json config, ParseJson(api::kEnvTfConfig, text));
  if (!config.is_object()) {
    return Invalid(fmt::format("TF_CONFIG: found {}, expected an object", config.dump()));
  }
  ClusterSpec spec;
  LOCKSTEP_RETURN_IF_ERROR(ParseCluster(config, spec));
  LOCKSTEP_RETURN_IF_ERROR(ParseTask(config, spec));
  return spec;
}

int Identity::Pods() const {
  return static_cast<int>(cluster.chief.size() + cluster.worker.size());
}

int Identity::World() const {
  return Pods() * processes_per_pod;
}

int Identity::PodRank() const {
  if (role == api::Role::kChief) return 0;
  if (role == api::Role::kWorker) return static_cast<int>(cluster.chief.size()) + index;
  return -1;
}

std::string Identity::LeaderAddress() const {
  return cluster.chief.empty() ? cluster.worker.front() : cluster.chief.front();
}

bool Identity::IsLeader() const {
  return PodRank() == 0;
}

std::string Identity::ClusterHash() const {
  return fmt::format(
      "uid={} attempt={} chief={} worker={} ps={} processesPerPod={} training={:016x}", job_uid,
      attempt, cluster.chief.size(), cluster.worker.size(), cluster.ps.size(), processes_per_pod,
      Digest(api::TrainingSpecToJson(training).dump()));
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
  LOCKSTEP_RETURN_IF_ERROR(ReadInt(env, api::kEnvAttempt, 0, 1'000'000'000, id.attempt));
  id.processes_per_pod = id.strategy.processes_per_pod.value_or(1);
  LOCKSTEP_RETURN_IF_ERROR(
      ReadInt(env, api::kEnvProcessesPerPod, 1, kMaxProcessesPerPod, id.processes_per_pod));
  LOCKSTEP_RETURN_IF_ERROR(ReadInt(env, kEnvLocalRank, 0, id.processes_per_pod - 1, id.local_rank));
  return id;
}

}  // namespace lockstep::train
