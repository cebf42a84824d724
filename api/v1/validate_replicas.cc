#include "api/v1/validate_replicas.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <set>
#include <string>
#include <string_view>

#include "api/v1/defaults.h"
#include "api/v1/enum_names.h"
#include "api/v1/strategy_traits.h"
#include "api/v1/tf_config_size.h"
#include "api/v1/validate_pod_template.h"

namespace lockstep::api {
namespace {

using Errors = std::vector<FieldError>;

constexpr std::size_t kLongestLabel = 63;  // of a DNS label, hence of a pod's hostname
// Limits the free-form parts of a job. The operator keeps those of all jobs as text, and parses
// those of one job in each reconcile; a parsed value takes up to a hundred bytes.
constexpr std::size_t kMostValues = 16'384;
constexpr std::size_t kLongestJson = 256U << 10U;  // bytes
// As in the schema. Limited because the operator adds some 2 KB of variables to each container.
constexpr std::size_t kMostContainers = 256;
// Bytes of LOCKSTEP_CONFIG. Linux does not start a program with an environment variable longer than
// 128 KiB, and `lockstep run` may put longer paths into it.
constexpr std::size_t kLongestConfig = 128'000;

bool IsLowerOrDigit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

// RFC 1123; with `letter_first`, RFC 1035.
bool IsDnsLabel(std::string_view name, bool letter_first) {
  if (name.empty() || name.size() > kLongestLabel) return false;
  if (!IsLowerOrDigit(name.front()) || !IsLowerOrDigit(name.back())) return false;
  if (letter_first && name.front() >= '0' && name.front() <= '9') return false;
  return std::ranges::all_of(name, [](char c) { return IsLowerOrDigit(c) || c == '-'; });
}

// Returns what follows the job's name in the longest pod name: "-worker-11".
std::string LongestSuffix(const TrainingJob& job) {
  std::string longest;
  for (const auto& [role, replicas] : job.spec.replica_specs) {
    int most = std::max(1, replicas.replicas);
    if (role == Role::kWorker && job.spec.elastic) {
      most = std::max(most, job.spec.elastic->max_replicas);
    }
    const std::string suffix = fmt::format("-{}-{}", RoleName(role), most - 1);
    if (suffix.size() > longest.size()) longest = suffix;
  }
  return longest;
}

int ReplicasOf(const TrainingJobSpec& spec, Role role) {
  const auto found = spec.replica_specs.find(role);
  return found == spec.replica_specs.end() ? 0 : found->second.replicas;
}

std::string RolePath(Role role) {
  return fmt::format("spec.replicaSpecs.{}", RoleKey(role));
}

bool HasRole(const StrategyTraits& traits, Role role) {
  if (role == Role::kParameterServer) return traits.has_parameter_servers;
  return role == Role::kWorker || !traits.trains_alone;
}

void ValidateStrategyRoles(const TrainingJobSpec& spec, StrategyType strategy, Errors& errors) {
  const StrategyTraits traits = TraitsOf(strategy);
  for (const auto& [role, replicas] : spec.replica_specs) {
    if (HasRole(traits, role)) continue;
    errors.push_back({RolePath(role), fmt::format("found with strategy {}, which has no such role",
                                                  NameOf(strategy))});
  }
  const int trainers = ReplicasOf(spec, Role::kChief) + ReplicasOf(spec, Role::kWorker);
  if (traits.has_one_pod && trainers > 1) {
    errors.push_back({"spec.replicaSpecs",
                      fmt::format("found {} training replicas with strategy {}, expected 1; "
                                  "MultiWorkerMirrored trains on several",
                                  trainers, NameOf(strategy))});
  }
  if (traits.has_parameter_servers && ReplicasOf(spec, Role::kParameterServer) == 0) {
    errors.push_back({"spec.replicaSpecs",
                      fmt::format("found no PS replica, expected at least 1 with strategy {}",
                                  NameOf(strategy))});
  }
}

void ValidateContainer(const Json& container, const std::string& path, std::set<std::string>& names,
                       Errors& errors) {
  const auto name = container.find("name");
  if (name == container.end() || name->is_null() || name->get_ref<const std::string&>().empty()) {
    errors.push_back({path + ".name", "found none, expected a container name"});
  } else if (!names.insert(name->get<std::string>()).second) {
    errors.push_back({path + ".name", fmt::format("found \"{}\" a second time, expected names to "
                                                  "differ",
                                                  name->get<std::string>())});
  }
}

// A pod's init containers and other containers must all have different names.
void ValidateInitContainers(const Json& spec, const std::string& path, std::set<std::string>& names,
                            Errors& errors) {
  const auto list = spec.find("initContainers");
  if (list == spec.end() || list->is_null()) return;
  if (list->size() > kMostContainers) {
    errors.push_back({path, fmt::format("found {} containers, expected at most {}", list->size(),
                                        kMostContainers)});
    return;
  }
  for (std::size_t i = 0; i < list->size(); ++i) {
    ValidateContainer((*list)[i], fmt::format("{}[{}]", path, i), names, errors);
  }
}

std::size_t CountValues(const Json& json) {
  std::size_t count = 1;
  if (!json.is_structured()) return count;
  for (const Json& member : json) count += CountValues(member);
  return count;
}

void ValidateTemplate(const Json& tmpl, const std::string& path, bool may_lack_containers,
                      Errors& errors) {
  const std::size_t before = errors.size();
  ValidatePodTemplateTypes(tmpl, path, errors);
  if (errors.size() > before) return;  // the checks below rely on the types
  const auto spec = tmpl.find("spec");
  const bool has_spec = spec != tmpl.end() && !spec->is_null();
  const std::string containers_path = path + ".spec.containers";
  if (!has_spec || !spec->contains("containers")) {
    if (has_spec) {
      std::set<std::string> names;
      ValidateInitContainers(*spec, path + ".spec.initContainers", names, errors);
    }
    if (may_lack_containers) return;
    errors.push_back(
        {containers_path,
         "found none, expected at least 1: a job without `training` must define its containers"});
    return;
  }
  const Json& containers = (*spec)["containers"];
  if (!containers.is_array() || containers.empty()) {
    errors.push_back({containers_path, "expected a list of at least 1 container"});
    return;
  }
  if (containers.size() > kMostContainers) {
    errors.push_back({containers_path, fmt::format("found {} containers, expected at most {}",
                                                   containers.size(), kMostContainers)});
    return;
  }
  std::set<std::string> names;
  for (std::size_t i = 0; i < containers.size(); ++i) {
    ValidateContainer(containers[i], fmt::format("{}[{}]", containers_path, i), names, errors);
  }
  ValidateInitContainers(*spec, path + ".spec.initContainers", names, errors);
}

// Checks the names of a pod's containers as an API server does. `lockstep run` also makes paths of
// these names. Requires: ValidateTemplate has found no fault.
void ValidateContainerNames(const Json& tmpl, const std::string& path, Errors& errors) {
  const auto spec = tmpl.find("spec");
  if (spec == tmpl.end() || !spec->is_object()) return;
  for (const char* list : {"containers", "initContainers"}) {
    const Json containers = spec->value(list, Json());
    for (std::size_t i = 0; i < containers.size(); ++i) {
      const auto& name = containers[i]["name"].get_ref<const std::string&>();
      if (IsDnsLabel(name, false)) continue;
      errors.push_back({fmt::format("{}.spec.{}[{}].name", path, list, i),
                        fmt::format("found \"{}\", expected at most {} lower-case letters, digits "
                                    "and '-', and no '-' first or last",
                                    name, kLongestLabel)});
    }
  }
}

}  // namespace

std::int64_t TrainingProcesses(const TrainingJobSpec& spec) {
  const std::int64_t pods = ReplicasOf(spec, Role::kChief) + ReplicasOf(spec, Role::kWorker);
  return spec.strategy ? pods * spec.strategy->processes_per_pod.value_or(1) : pods;
}

void ValidateNames(const TrainingJob& job, Errors& errors) {
  const std::string& name = job.metadata.name;
  const std::size_t longest = kLongestLabel - LongestSuffix(job).size();
  if (!IsDnsLabel(name.substr(0, kLongestLabel), true)) {
    errors.push_back({"metadata.name",
                      fmt::format("found \"{}\", expected lower-case letters, digits and '-', a "
                                  "letter first and no '-' last",
                                  name)});
  } else if (name.size() > longest) {
    errors.push_back({"metadata.name",
                      fmt::format("found {} characters, expected at most {}, so that the pod name "
                                  "<job>{} fits {}",
                                  name.size(), longest, LongestSuffix(job), kLongestLabel)});
  }
  if (!IsDnsLabel(job.metadata.namespace_name, false)) {
    errors.push_back({"metadata.namespace",
                      fmt::format("found \"{}\", expected at most {} lower-case letters, digits "
                                  "and '-'",
                                  job.metadata.namespace_name, kLongestLabel)});
  }
}

void ValidateReplicas(const TrainingJob& job, Errors& errors) {
  const TrainingJobSpec& spec = job.spec;
  for (const Role role : {Role::kChief, Role::kEvaluator}) {
    if (const int replicas = ReplicasOf(spec, role); replicas > 1) {
      errors.push_back(
          {RolePath(role) + ".replicas", fmt::format("found {}, expected at most 1", replicas)});
    }
  }
  if (ReplicasOf(spec, Role::kChief) + ReplicasOf(spec, Role::kWorker) == 0) {
    errors.push_back(
        {"spec.replicaSpecs", "found no Worker and no Chief replica, expected at least 1 in all"});
  }
  if (spec.strategy) ValidateStrategyRoles(spec, spec.strategy->type, errors);
}

void ValidateEnvironment(const TrainingJob& job, Errors& errors) {
  for (const auto& [role, replicas] : job.spec.replica_specs) {
    if (!NeedsTfConfig(job, role)) continue;
    const std::size_t size = TfConfigSize(job, role);
    if (size <= kLongestTfConfig) continue;
    errors.push_back({RolePath(role), fmt::format("found replicas whose addresses make a TF_CONFIG "
                                                  "of about {} bytes, expected at most {}",
                                                  size, kLongestTfConfig)});
  }
  if (!job.spec.training) return;
  const std::size_t size = TrainingSpecToJson(*job.spec.training)
                               .dump(-1, ' ', false, Json::error_handler_t::replace)
                               .size();
  if (size <= kLongestConfig) return;
  errors.push_back({"spec.training", fmt::format("found {} bytes of JSON, expected at most {}: "
                                                 "the trainer gets it in a variable, "
                                                 "LOCKSTEP_CONFIG",
                                                 size, kLongestConfig)});
}

void ValidateSize(const TrainingJobSpec& spec, Errors& errors) {
  std::size_t values = 0, bytes = 0;
  const auto add = [&](const Json& json) {
    values += CountValues(json);
    bytes += json.dump(-1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace).size();
  };
  for (const auto& [role, replicas] : spec.replica_specs) add(*replicas.tmpl);
  if (spec.training) add(TrainingSpecToJson(*spec.training));
  if (spec.run_policy.scheduling_policy) add(spec.run_policy.scheduling_policy->min_resources);
  const std::string_view where = "in the pod templates, training and minResources together";
  if (values > kMostValues) {
    errors.push_back({"spec", fmt::format("found {} values {}, expected at most {}", values, where,
                                          kMostValues)});
  }
  if (bytes > kLongestJson) {
    errors.push_back(
        {"spec", fmt::format("found {} bytes of JSON {}, expected at most {}: files belong in a "
                             "volume",
                             bytes, where, kLongestJson)});
  }
}

void ValidateTemplates(const TrainingJob& job, Errors& errors) {
  for (const auto& [role, replicas] : job.spec.replica_specs) {
    const std::string path = RolePath(role) + ".template";
    const std::size_t before = errors.size();
    ValidateTemplate(*replicas.tmpl, path, UsesBundledTrainer(job), errors);
    // Not of a role without replicas, whose pods no API server has checked: such a job may be
    // running.
    const bool is_sound = errors.size() == before;
    if (is_sound && ReplicasOf(job.spec, role) > 0) {
      ValidateContainerNames(*replicas.tmpl, path, errors);
    }
  }
}

}  // namespace lockstep::api
