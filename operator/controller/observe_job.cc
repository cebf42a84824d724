#include "operator/controller/observe_job.h"

#include <utility>

#include "api/base/shorten.h"
#include "api/v1/defaults.h"
#include "api/v1/names.h"
#include "api/v1/validate.h"
#include "operator/controller/held_metadata.h"

namespace lockstep::controller {
namespace {

using kube::Object;

constexpr char kKueuePrefix[] = "kueue.x-k8s.io/";  // of the labels that a Workload is made by
constexpr std::size_t kLongestFault = 16'384;  // bytes; a condition takes twice as many characters

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
    if (api::TrainingJobFromServer(alone).ok()) parts["runPolicy"][key] = policy->at(key);
  }
  return parts;
}

// A member of which more was there than was read stands as a text, and would take the status along.
Object ReadableMetadata(const Object& object) {
  Object metadata = object.value("metadata", Object::object());
  for (const char* key : {"labels", "annotations", "ownerReferences"}) {
    const auto member = metadata.find(key);
    if (member != metadata.end() && !member->is_structured()) metadata.erase(member);
  }
  return metadata;
}

// A job that cannot be read at all still needs a name to be reported under, and is left alone once
// that has been done.
api::TrainingJob Unreadable(const Object& object) {
  Object bare = {{"apiVersion", api::kApiVersion},
                 {"kind", api::kKind},
                 {"metadata", ReadableMetadata(object)},
                 {"spec", ReadableParts(object)}};
  if (object.contains("status")) bare["status"] = object.at("status");
  auto job = api::TrainingJobFromServer(bare);
  if (job.ok()) return *std::move(job);
  api::TrainingJob named;
  named.metadata.name = kube::Name(object);
  named.metadata.namespace_name = kube::Namespace(object);
  named.metadata.uid = kube::Uid(object);
  named.metadata.resource_version = kube::ResourceVersion(object);
  return named;
}

// Nobody here reads the rest of it, and it may be as large as an object can be.
void TrimMetadata(api::ObjectMeta& metadata) {
  metadata.annotations.clear();
  metadata.owner_references.clear();
  std::erase_if(metadata.labels,
                [](const auto& label) { return !label.first.starts_with(kKueuePrefix); });
}

}  // namespace

ObservedJob ObserveJob(const Object& object) {
  auto read = api::TrainingJobFromServer(object);
  ObservedJob observed;
  absl::Status valid = read.status();
  if (read.ok()) {
    observed.job = api::WithDefaults(*std::move(read));
    valid = api::ToStatus(api::Validate(observed.job));
  } else {
    observed.job = Unreadable(object);
  }
  TrimMetadata(observed.job.metadata);
  observed.owned_metadata = HeldMetadata(object);
  if (valid.ok()) return observed;
  observed.invalid = Shortened(std::string(valid.message()), kLongestFault, " …");
  // No pods are made of it, and it may be invalid because they are too large to be held.
  for (auto& [role, replicas] : observed.job.spec.replica_specs) replicas.tmpl = {};
  return observed;
}

}  // namespace lockstep::controller
