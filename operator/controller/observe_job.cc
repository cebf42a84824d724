#include "operator/controller/observe_job.h"

#include <utility>

#include "api/v1/defaults.h"
#include "api/v1/names.h"
#include "api/v1/validate.h"

namespace lockstep::controller {
namespace {

using kube::Object;

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

// A job that cannot be read at all still needs a name to be reported under, and is left alone once
// that has been done.
api::TrainingJob Unreadable(const Object& object) {
  Object bare = {{"apiVersion", api::kApiVersion},
                 {"kind", api::kKind},
                 {"metadata", object.value("metadata", Object::object())},
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

}  // namespace

ObservedJob ObserveJob(const Object& object) {
  auto job = api::TrainingJobFromServer(object);
  if (!job.ok()) return {Unreadable(object), std::string(job.status().message())};
  ObservedJob observed{api::WithDefaults(*std::move(job)), std::nullopt};
  // kubectl's copy of the whole job, which nobody here reads.
  observed.job.metadata.annotations.erase("kubectl.kubernetes.io/last-applied-configuration");
  const absl::Status valid = api::ToStatus(api::Validate(observed.job));
  if (!valid.ok()) observed.invalid = std::string(valid.message());
  return observed;
}

}  // namespace lockstep::controller
