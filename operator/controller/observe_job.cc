#include "operator/controller/observe_job.h"

#include <initializer_list>
#include <utility>

#include "api/v1/defaults.h"
#include "api/v1/names.h"
#include "api/v1/validate.h"
#include "operator/controller/main_container.h"

namespace lockstep::controller {
namespace {

using kube::Object;
using kube::TextMember;

// Keeps the named members only; anything but an object becomes empty.
void Keep(Object& object, std::initializer_list<const char*> keys) {
  Object kept = Object::object();
  if (object.is_object()) {
    for (const char* key : keys) {
      const auto it = object.find(key);
      if (it != object.end()) kept[key] = std::move(*it);
    }
  }
  object = std::move(kept);
}

void KeepOfEach(Object& list, std::initializer_list<const char*> keys) {
  if (!list.is_array()) {
    list = Object::array();
    return;
  }
  for (Object& entry : list) Keep(entry, keys);
}

// Of thousands of children each byte counts: whose they are, and our labels but the job's uid,
// which the owner has.
void KeepMetadata(Object& metadata) {
  Keep(metadata, {"name", "namespace", "uid", "resourceVersion", "labels", "annotations",
                  "ownerReferences", "deletionTimestamp", "deletionGracePeriodSeconds"});
  Keep(metadata["labels"],
       {api::kLabelJobName, api::kLabelRole, api::kLabelReplicaIndex, api::kLabelAttempt});
  KeepOfEach(metadata["ownerReferences"], {"uid", "controller"});
  if (!metadata.contains("annotations")) return;
  Keep(metadata["annotations"], {api::kAnnotationClusterShape, api::kAnnotationSpecHash});
  if (metadata["annotations"].empty()) metadata.erase("annotations");
}

// A condition that says nothing new is left out. Of several of a type the first counts, as for
// those who read them.
void KeepConditions(Object& status) {
  Object kept = Object::array();
  for (const char* type : {"Ready", "DisruptionTarget", "PodScheduled"}) {
    Object condition = kube::ConditionOf(status, type);
    if (condition.is_null()) continue;
    const std::string value = TextMember(condition, "status");
    if (condition.at("type") == "PodScheduled" && value != "False") continue;
    Keep(condition, {"type", "status", "reason", "message", "lastTransitionTime"});
    if (condition.at("type") == "Ready") {
      condition.erase("reason");
      condition.erase("message");
      if (value == "True") condition.erase("lastTransitionTime");
    }
    kept.push_back(std::move(condition));
  }
  status["conditions"] = std::move(kept);
}

void KeepContainerStatuses(const std::string& main, Object& statuses) {
  KeepOfEach(statuses, {"name", "restartCount", "state", "lastState"});
  Object kept = Object::array();
  for (Object& entry : statuses) {
    if (TextMember(entry, "name") != main) continue;
    for (const char* key : {"state", "lastState"}) {
      Object& state = entry[key];
      Keep(state, {"waiting", "terminated"});
      if (state.empty()) {
        entry.erase(key);
      } else if (state.contains("terminated")) {
        Keep(state["terminated"], {"exitCode", "signal", "reason", "message", "finishedAt"});
      }
    }
    kept.push_back(std::move(entry));
  }
  statuses = std::move(kept);
}

// What an unreadable spec still says about who owns the job and when it may go.
Object ReadableParts(const Object& object) {
  Object parts = {{"replicaSpecs", Object::object()}};
  const auto spec = object.find("spec");
  if (spec == object.end() || !spec->is_object()) return parts;
  const auto manager = spec->find("managedBy");
  if (manager != spec->end() && manager->is_string()) parts["managedBy"] = *manager;
  const auto policy = spec->find("runPolicy");
  if (policy == spec->end() || !policy->is_object()) return parts;
  for (const char* key : {"ttlSecondsAfterFinished", "cleanPodPolicy"}) {
    Object alone = {{"apiVersion", api::kApiVersion},
                    {"kind", api::kKind},
                    {"spec", {{"runPolicy", Object::object()}}}};
    if (!policy->contains(key)) continue;
    alone["spec"]["runPolicy"][key] = policy->at(key);
    if (api::TrainingJobFromJson(alone).ok()) parts["runPolicy"][key] = policy->at(key);
  }
  return parts;
}

// A job that cannot be read at all still needs a name to be reported under, and is left alone once
// that has been done.
api::TrainingJob Unreadable(const Object& object) {
  Object bare = {{"apiVersion", api::kApiVersion},
                 {"kind", api::kKind},
                 {"metadata", object.value("metadata", Object::object())},
                 {"spec", ReadableParts(object)}};
  if (object.contains("status")) bare["status"] = object.at("status");
  auto job = api::TrainingJobFromJson(bare);
  if (job.ok()) return *std::move(job);
  api::TrainingJob named;
  named.metadata.name = kube::Name(object);
  named.metadata.namespace_name = kube::Namespace(object);
  named.metadata.uid = kube::Uid(object);
  named.metadata.resource_version = kube::ResourceVersion(object);
  return named;
}

}  // namespace

void ObserveJob(const Object& object, Observed& observed) {
  auto job = api::TrainingJobFromJson(object);
  if (!job.ok()) {
    observed.job = Unreadable(object);
    observed.invalid = std::string(job.status().message());
    return;
  }
  observed.job = api::WithDefaults(*std::move(job));
  const absl::Status valid = api::ToStatus(api::Validate(observed.job));
  if (!valid.ok()) observed.invalid = std::string(valid.message());
}

void TrimJob(Object& job) {
  if (!job.is_object()) return;
  Object& metadata = job["metadata"];
  if (!metadata.is_object()) return;
  const auto annotations = metadata.find("annotations");
  if (annotations == metadata.end() || !annotations->is_object()) return;
  annotations->erase("kubectl.kubernetes.io/last-applied-configuration");
}

void TrimPod(Object& pod) {
  if (!pod.is_object()) return;
  KeepMetadata(pod["metadata"]);
  Object& spec = pod["spec"];
  Keep(spec, {"nodeName", "restartPolicy", "containers"});
  std::string main;
  Object kept = Object::array();
  if (const Object* container = MainContainerOf(spec["containers"])) {
    main = TextMember(*container, "name");
    kept.push_back({{"name", main}});
  }
  spec["containers"] = std::move(kept);
  Object& status = pod["status"];
  Keep(status, {"phase", "reason", "message", "podIP", "conditions", "containerStatuses"});
  KeepConditions(status);
  KeepContainerStatuses(main, status["containerStatuses"]);
  Keep(pod, {"metadata", "spec", "status"});
}

kube::FieldTree PodFieldsNobodyReads() {
  return {"spec.affinity",
          "spec.containers.args",
          "spec.containers.command",
          "spec.containers.env",
          "spec.containers.livenessProbe",
          "spec.containers.readinessProbe",
          "spec.containers.resources",
          "spec.containers.securityContext",
          "spec.containers.startupProbe",
          "spec.containers.volumeMounts",
          "spec.initContainers",
          "spec.securityContext",
          "spec.tolerations",
          "spec.topologySpreadConstraints",
          "spec.volumes"};
}

kube::FieldTree ServiceFieldsNobodyReads() {
  return {"spec", "status"};
}

void TrimPodGroup(Object& group) {
  if (!group.is_object()) return;
  group.erase("status");
}

void TrimWorkload(Object& workload) {
  if (!workload.is_object()) return;
  static const Object::json_pointer kPodSets("/spec/podSets");
  if (!workload.contains(kPodSets) || !workload.at(kPodSets).is_array()) return;
  for (Object& set : workload.at(kPodSets)) {
    if (set.is_object()) set.erase("template");
  }
}

void TrimService(Object& service) {
  if (!service.is_object()) return;
  KeepMetadata(service["metadata"]);
  Keep(service, {"metadata"});
}

}  // namespace lockstep::controller
