#include "operator/controller/children/trainer_pod.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "api/v1/gpus.h"
#include "api/v1/names.h"
#include "base/is_below.h"
#include "operator/controller/children/addresses.h"
#include "operator/controller/state/main_container.h"
#include "operator/controller/state/replicas.h"

namespace lockstep::controller {
namespace {

using kube::Object;

constexpr char kShmPath[] = "/dev/shm";
constexpr char kShmVolume[] = "lockstep-shm";
constexpr int kVolumeGroup = 65532;  // group of volumes, so that a non-root trainer can write

// Leaves alone what is no object; the API server rejects it.
void SetDefault(Object& object, const char* key, Object value) {
  if (object.is_object() && !object.contains(key)) object[key] = std::move(value);
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

Object& SecurityContextOf(Object& object) {
  Object& context = object["securityContext"];
  if (context.is_null()) context = Object::object();
  return context;
}

bool IsPrivileged(const Object& context) {
  return kube::Member(context, "privileged") == Object(true);
}

bool IsRoot(const Object& context) {
  return kube::Member(context, "runAsUser") == Object(0);
}

void RestrictContainer(Object& container) {
  if (!container.is_object()) return;  // the API server rejects it
  Object& context = SecurityContextOf(container);
  if (IsPrivileged(context)) return;  // the API server rejects it with what follows
  SetDefault(context, "allowPrivilegeEscalation", false);
  SetDefault(context, "capabilities", {{"drop", {"ALL"}}});
}

void ApplySecurity(Object& spec) {
  SetDefault(spec, "automountServiceAccountToken", false);
  Object& pod = SecurityContextOf(spec);
  SetDefault(pod, "runAsNonRoot", true);
  if (pod.is_object() && !pod.contains("fsGroup")) {
    pod["fsGroup"] = kVolumeGroup;
    // Else a kubelet gives every file of a volume to the group each time that a pod starts, which
    // takes minutes for a data set of a million files.
    SetDefault(pod, "fsGroupChangePolicy", "OnRootMismatch");
  }
  SetDefault(pod, "seccompProfile", {{"type", "RuntimeDefault"}});
  for (Object& container : spec.at("containers")) RestrictContainer(container);
  if (!kube::Member(spec, "initContainers").is_array()) return;
  for (Object& container : spec.at("initContainers")) {
    if (!IsRoot(kube::Member(container, "securityContext"))) RestrictContainer(container);
  }
}

// Returns true if nothing that the trainer writes is on its root file system: decoded samples; and
// checkpoints, the exported model and summaries, by the leading replica alone. It writes no
// temporary files, and kubelets mount /dev/termination-log.
bool WritesOnlyToVolumes(const api::TrainingJob& job, api::Role role, const Object& container) {
  const auto is_elsewhere = [&container](const std::string& path) {
    return path.empty() ||
           std::ranges::any_of(kube::ListMember(container, "volumeMounts"),
                               [&path](const Object& mount) {
                                 return IsBelow(path, kube::TextMember(mount, "mountPath"));
                               });
  };
  const api::TrainingSpec& training = *job.spec.training;
  if (!is_elsewhere(training.dataset.cache_directory)) return false;
  if (LeadingReplica(job).role != role) return true;
  return is_elsewhere(training.checkpoint.directory) &&
         is_elsewhere(training.checkpoint.export_to) && is_elsewhere(training.summaries.directory);
}

}  // namespace

void ApplyTrainerDefaults(const api::TrainingJob& job, const Settings& settings, api::Role role,
                          Object& spec) {
  Object& containers = ListAt(spec, "containers");
  if (containers.empty()) containers.push_back({{"name", api::kTrainerContainer}});
  Object& main = *MainContainerOf(containers);
  const bool is_ours = !main.contains("image") && !main.contains("command");
  const TrainerImages& images = settings.trainer_images;
  SetDefault(main, "image", api::GpusOf(main) > 0 ? images.gpu : images.cpu);
  SetDefault(main, "command", Object::array({"lockstep-trainer"}));
  AddSharedMemory(spec, main);
  AddPorts(ClusterPort(job, role), main);
  ApplySecurity(spec);
  Object& context = SecurityContextOf(main);
  if (is_ours && !IsPrivileged(context) && WritesOnlyToVolumes(job, role, main)) {
    SetDefault(context, "readOnlyRootFilesystem", true);
  }
}

}  // namespace lockstep::controller
