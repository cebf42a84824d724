#include "operator/local/pod_checks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "api/v1/gpus.h"
#include "api/v1/names.h"
#include "api/v1/quantity.h"
#include "base/json_text.h"
#include "base/status.h"

namespace lockstep::local {
namespace {

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
      for (const Object& container : pod["spec"].value(list, Object::array())) {
        LOCKSTEP_ASSIGN_OR_RETURN(const PathMap paths, MapMounts(container, locations));
        const absl::Status made = MakeProcess(pod, container, paths, host, client).status();
        if (!made.ok()) return absl::InvalidArgumentError(std::string(made.message()));
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
