#include "operator/local/pod_checks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/str_split.h"
#include "api/v1/gpus.h"
#include "api/v1/names.h"
#include "api/v1/quantity.h"
#include "base/is_below.h"
#include "base/json_text.h"
#include "base/launch.h"
#include "base/status.h"
#include "operator/controller/state/main_container.h"

namespace lockstep::local {
namespace {

namespace fs = std::filesystem;
using kube::Object;

constexpr const char* kContainerLists[] = {"initContainers", "containers"};

// Returns the path of the job's field that defines the container; for a pod without a role, the
// path in the pod.
std::string JobFieldOf(const Object& pod, const Object& container) {
  const auto role = api::RoleFromName(kube::Label(pod, api::kLabelRole));
  std::string path = role ? fmt::format("spec.replicaSpecs.{}.template.spec", api::RoleKey(*role))
                          : fmt::format("pod {}: spec", kube::Name(pod));
  for (const char* list : kContainerLists) {
    const Object containers = pod["spec"].value(list, Object::array());
    const auto found = std::ranges::find_if(containers, [&](const Object& one) {
      return one.value("name", "") == container.value("name", "");
    });
    if (found != containers.end()) {
      return fmt::format("{}.{}[{}]", path, list, found - containers.begin());
    }
  }
  return path;
}

struct LimitRange {
  const char* resource;
  double per_unit;    // the units that a quantity of 1 stands for
  double most;        // beyond all that a machine has, and far from overflow
  const char* shown;  // `most` as a quantity
};
constexpr LimitRange kCpuRange{"cpu", 1000, 1e6, "1M"};
constexpr LimitRange kMemoryRange{"memory", 1, 0x1p60, "1Ei"};

absl::StatusOr<std::optional<std::int64_t>> LimitOf(const Object& pod, const Object& container,
                                                    const LimitRange& range) {
  const Object::json_pointer where(fmt::format("/resources/limits/{}", range.resource));
  if (!container.contains(where)) return std::nullopt;
  const auto limit = api::ParseQuantity(container[where]);
  const auto fault = [&](const std::string& what) {
    return absl::InvalidArgumentError(fmt::format(
        "{}.resources.limits.{}: {}", JobFieldOf(pod, container), range.resource, what));
  };
  if (!limit.ok()) return fault(std::string(limit.status().message()));
  if (*limit < 0 || *limit > range.most) {
    return fault(fmt::format("found {}, expected 0 (no limit) to {}", JsonText(container[where]),
                             range.shown));
  }
  if (*limit == 0) return std::nullopt;
  return static_cast<std::int64_t>(std::ceil(*limit * range.per_unit));
}

// A misspelt --volume would silently have no effect.
absl::Status CheckVolumeNames(const std::vector<Object>& pods,
                              const std::map<std::string, std::string>& folders) {
  std::set<std::string> known = ClaimsOf(pods);
  for (const Object& pod : pods) {
    for (const Object& volume : pod["spec"].value("volumes", Object::array())) {
      known.insert(volume.value("name", ""));
    }
  }
  for (const auto& [name, path] : folders) {
    if (known.contains(name)) continue;
    return absl::InvalidArgumentError(
        fmt::format("--volume {}={}: the job has no volume of this name; it has: {}", name, path,
                    known.empty() ? "none" : fmt::format("{}", fmt::join(known, ", "))));
  }
  return absl::OkStatus();
}

absl::Status CheckPod(const Object& pod, const VolumeOptions& options) {
  LOCKSTEP_ASSIGN_OR_RETURN(const auto locations, LocateVolumes(pod, options));
  for (const char* list : kContainerLists) {
    for (const Object& container : pod["spec"].value(list, Object::array())) {
      LOCKSTEP_RETURN_IF_ERROR(MapMounts(container, locations).status());
      LOCKSTEP_RETURN_IF_ERROR(CpuLimit(pod, container).status());
      LOCKSTEP_RETURN_IF_ERROR(MemoryLimit(pod, container).status());
    }
  }
  return absl::OkStatus();
}

constexpr char kNoImage[] = "lockstep run starts programs of this machine, not of the image";

// Says why the process cannot be started with what this machine has. `volumes`: the pod's folders,
// whose content may be made only when pods start.
absl::Status CheckProgram(const ProcessSpec& process,
                          const std::map<std::string, std::string>& volumes) {
  const auto may_come = [&volumes](const std::string& path) {
    const std::string normal = fs::path(path).lexically_normal().string();
    return std::ranges::any_of(volumes,
                               [&](const auto& volume) { return IsBelow(normal, volume.second); });
  };
  const std::string& folder = process.working_dir;
  if (may_come(folder)) return absl::OkStatus();
  std::error_code error;
  if (!fs::is_directory(folder, error)) {
    const std::string why = WhyAbsent(folder);
    return absl::InvalidArgumentError(
        fmt::format("workingDir: {} {}: {}", folder, why.empty() ? "is no folder" : why, kNoImage));
  }
  const std::string& program = process.argv.front();
  if (program.find('/') == std::string::npos) {
    const std::vector<std::string> folders = absl::StrSplit(process.env.at("PATH"), ':');
    if (std::ranges::any_of(folders, may_come)) return absl::OkStatus();
    const absl::Status found = FindProgram(program, process.env).status();
    if (found.ok()) return absl::OkStatus();
    return absl::InvalidArgumentError(
        fmt::format("{}: {}", std::string(found.message()), kNoImage));
  }
  const std::string path = (fs::path(folder) / program).string();
  if (may_come(path)) return absl::OkStatus();
  if (const std::string why = WhyAbsent(path); !why.empty()) {
    return absl::InvalidArgumentError(fmt::format("command: {} {}: {}", path, why, kNoImage));
  }
  if (fs::is_regular_file(path, error) && access(path.c_str(), X_OK) == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format("command: {} is no executable file", path));
}

// The outcome of a pod is that of its main container: others may lack on this machine what they
// need only in a cluster.
bool DecidesFromTheStart(const Object& pod, const Object& container) {
  const Object& spec = pod["spec"];
  return kube::ListMember(spec, "initContainers").empty() &&
         &container == controller::MainContainerOf(kube::Member(spec, "containers"));
}

absl::Status CheckStart(const Object& pod, const Object& container,
                        const std::map<std::string, std::string>& volumes, const HostFacts& host,
                        kube::Client& client) {
  LOCKSTEP_ASSIGN_OR_RETURN(const PathMap paths, MapMounts(container, volumes));
  const absl::StatusOr<ProcessSpec> process = MakeProcess(pod, container, paths, host, client);
  if (!process.ok()) return absl::InvalidArgumentError(std::string(process.status().message()));
  if (!DecidesFromTheStart(pod, container)) return absl::OkStatus();
  const absl::Status starts = CheckProgram(*process, volumes);
  if (starts.ok()) return starts;
  return absl::InvalidArgumentError(fmt::format("pod {}: container {}: {}", kube::Name(pod),
                                                container.value("name", ""),
                                                std::string(starts.message())));
}

}  // namespace

absl::Status CheckPods(const std::vector<Object>& pods, const VolumeOptions& options) {
  LOCKSTEP_RETURN_IF_ERROR(CheckVolumeNames(pods, options.folders));
  for (const Object& pod : pods) LOCKSTEP_RETURN_IF_ERROR(CheckPod(pod, options));
  return absl::OkStatus();
}

absl::Status CheckStarts(const std::vector<Object>& pods, const VolumeOptions& options,
                         const HostFacts& host, kube::Client& client) {
  LOCKSTEP_RETURN_IF_ERROR(CheckSources(pods, options, client));
  for (const Object& pod : pods) {
    LOCKSTEP_ASSIGN_OR_RETURN(const auto locations, LocateVolumes(pod, options));
    for (const char* list : kContainerLists) {
      for (const Object& container : kube::ListMember(pod["spec"], list)) {
        LOCKSTEP_RETURN_IF_ERROR(CheckStart(pod, container, locations, host, client));
      }
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::optional<std::int64_t>> CpuLimit(const Object& pod, const Object& container) {
  return LimitOf(pod, container, kCpuRange);
}

absl::StatusOr<std::optional<std::int64_t>> MemoryLimit(const Object& pod,
                                                        const Object& container) {
  return LimitOf(pod, container, kMemoryRange);
}

bool AsksForGpus(const std::vector<Object>& pods) {
  for (const Object& pod : pods) {
    for (const char* list : kContainerLists) {
      const Object containers = pod["spec"].value(list, Object::array());
      if (std::ranges::any_of(containers, [](const Object& c) { return api::GpusOf(c) > 0; })) {
        return true;
      }
    }
  }
  return false;
}

bool RunsOnAllCores(const Object& pod) {
  return kube::Label(pod, api::kLabelRole) == api::RoleName(api::Role::kParameterServer);
}

int PodsThatShareCores(const api::TrainingJob& job) {
  int pods = 0;
  for (const auto& [role, spec] : job.spec.replica_specs) {
    if (role != api::Role::kParameterServer) pods += spec.replicas;
  }
  return pods;
}

}  // namespace lockstep::local
