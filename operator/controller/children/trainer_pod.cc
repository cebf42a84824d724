#include "operator/controller/children/trainer_pod.h"

#include <algorithm>
#include <string>

#include "api/v1/names.h"
#include "operator/controller/state/main_container.h"

namespace lockstep::controller {
namespace {

using kube::Object;

constexpr char kShmPath[] = "/dev/shm";
constexpr char kShmVolume[] = "lockstep-shm";
constexpr int kVolumeGroup = 65532;  // group of volumes, so that a non-root trainer can write

void SetDefault(Object& object, const char* key, Object value) {
  if (!object.contains(key)) object[key] = std::move(value);
}

// Returns the list at `key`, created if absent. A member of another type is left alone; the API
// server rejects it.
Object& ListAt(Object& object, const char* key) {
  SetDefault(object, key, Object::array());
  return object.at(key);
}

bool HasEntry(const Object& list, const char* key, const Object& value) {
  return std::ranges::any_of(list, [&](const Object& entry) {
    return entry.is_object() && entry.contains(key) && entry.at(key) == value;
  });
}

void AddSharedMemory(Object& spec, Object& container) {
  Object& mounts = ListAt(container, "volumeMounts");
  if (HasEntry(mounts, "mountPath", kShmPath)) return;
  mounts.push_back({{"name", kShmVolume}, {"mountPath", kShmPath}});
  ListAt(spec, "volumes").push_back({{"name", kShmVolume}, {"emptyDir", {{"medium", "Memory"}}}});
}

void AddPorts(int cluster_port, Object& container) {
  Object& ports = ListAt(container, "ports");
  if (!HasEntry(ports, "containerPort", cluster_port)) {
    ports.push_back({{"name", "cluster"}, {"containerPort", cluster_port}});
  }
  if (!HasEntry(ports, "name", "metrics")) {
    ports.push_back({{"name", "metrics"}, {"containerPort", api::kMetricsPort}});
  }
}

void ApplySecurity(Object& spec) {
  SetDefault(spec, "automountServiceAccountToken", false);
  Object& pod = spec["securityContext"];
  if (pod.is_null()) pod = Object::object();
  SetDefault(pod, "runAsNonRoot", true);
  SetDefault(pod, "fsGroup", kVolumeGroup);
  SetDefault(pod, "seccompProfile", {{"type", "RuntimeDefault"}});
  for (Object& container : spec.at("containers")) {
    Object& context = container["securityContext"];
    if (context.is_null()) context = Object::object();
    SetDefault(context, "allowPrivilegeEscalation", false);
    SetDefault(context, "capabilities", {{"drop", {"ALL"}}});
  }
}

}  // namespace

void ApplyTrainerDefaults(const Settings& settings, int cluster_port, Object& spec) {
  Object& containers = ListAt(spec, "containers");
  if (containers.empty()) containers.push_back({{"name", api::kTrainerContainer}});
  Object& main = *const_cast<Object*>(MainContainerOf(containers));
  SetDefault(main, "image", settings.trainer_image);
  SetDefault(main, "command", Object::array({"lockstep-trainer"}));
  // Puts the last log lines into status.failure without any permission to read logs.
  SetDefault(main, "terminationMessagePolicy", "FallbackToLogsOnError");
  AddSharedMemory(spec, main);
  AddPorts(cluster_port, main);
  ApplySecurity(spec);
}

}  // namespace lockstep::controller
