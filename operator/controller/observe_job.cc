#include "operator/controller/observe_job.h"

#include <initializer_list>

#include "api/v1/defaults.h"
#include "api/v1/validate.h"
#include "operator/controller/main_container.h"

namespace lockstep::controller {
namespace {

using kube::Object;

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

void KeepMetadata(Object& object) {
  Keep(object["metadata"], {"name", "namespace", "uid", "resourceVersion", "labels",
                            "ownerReferences", "deletionTimestamp"});
}

// A job that cannot be read at all still needs a name to be reported under, and is left alone once
// that has been done.
api::TrainingJob Unreadable(const Object& object) {
  Object bare = {{"apiVersion", "training.lockstep.dev/v1"},
                 {"kind", "TrainingJob"},
                 {"metadata", object.value("metadata", Object::object())},
                 {"spec", {{"replicaSpecs", Object::object()}}}};
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
  Object& metadata = job["metadata"];
  if (!metadata.is_object()) return;
  metadata.erase("managedFields");
  const auto annotations = metadata.find("annotations");
  if (annotations == metadata.end() || !annotations->is_object()) return;
  annotations->erase("kubectl.kubernetes.io/last-applied-configuration");
}

void TrimPod(Object& pod) {
  KeepMetadata(pod);
  Keep(pod["spec"], {"nodeName", "restartPolicy", "containers"});
  KeepOfEach(pod["spec"]["containers"], {"name"});
  Object& status = pod["status"];
  Keep(status, {"phase", "reason", "message", "podIP", "conditions", "containerStatuses"});
  KeepOfEach(status["conditions"], {"type", "status"});
  KeepOfEach(status["containerStatuses"], {"name", "restartCount", "state"});
  Keep(pod, {"metadata", "spec", "status"});
}

void TrimService(Object& service) {
  KeepMetadata(service);
  Keep(service, {"metadata"});
}

}  // namespace lockstep::controller
