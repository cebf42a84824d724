#include "operator/controller/observe_job.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "api/v1/conditions.h"
#include "api/v1/defaults.h"
#include "api/v1/names.h"
#include "api/v1/validate.h"
#include "api/v1/variants.h"
#include "base/shorten.h"
#include "operator/controller/children/kueue.h"
#include "operator/controller/state/held_metadata.h"

namespace lockstep::controller {
namespace {

using kube::Object;

constexpr std::size_t kLongestFault =
    16'384;  // bytes; a condition may have twice as many characters

bool IsReadableSpec(const Object& spec) {
  return api::TrainingJobFromServer(
             {{"apiVersion", api::kApiVersion}, {"kind", api::kKind}, {"spec", spec}})
      .ok();
}

// Copies the value at `path` if it is present and readable by itself. Returns false if it is
// unreadable.
bool CopyIfReadable(const Object& spec, const Object::json_pointer& path, Object& parts) {
  const auto parent = path.parent_pointer();
  if (!spec.contains(parent)) return true;
  if (!spec.at(parent).is_object()) return false;
  if (!spec.contains(path)) return true;
  Object alone = {{"replicaSpecs", Object::object()}};
  alone[path] = spec.at(path);
  if (!IsReadableSpec(alone)) return false;
  parts[path] = spec.at(path);
  return true;
}

// Copies the replica counts, without the templates, since no pod is created from them. Returns
// false if part of them is unreadable.
bool CopyReplicas(const Object& spec, Object& parts) {
  const Object& roles = kube::Member(spec, "replicaSpecs");
  if (!roles.is_object()) return false;
  bool readable = true;
  for (const auto& [role, replicas] : roles.items()) {
    const auto path = Object::json_pointer("/replicaSpecs") / role;
    parts[path] = Object::object();
    readable = replicas.is_object() && CopyIfReadable(spec, path / "replicas", parts) && readable;
  }
  return readable && IsReadableSpec(parts);
}

// Returns the readable ones of those parts of an unreadable spec that say who manages the job,
// whether and how long it may run, when it has succeeded, and when it may be deleted.
Object ReadableParts(const Object& object) {
  Object parts = {{"replicaSpecs", Object::object()}};
  const Object& spec = kube::Member(object, "spec");
  if (!spec.is_object()) return parts;
  for (const char* path : {"/managedBy", "/suspend", "/runPolicy/activeDeadlineSeconds",
                           "/runPolicy/ttlSecondsAfterFinished", "/runPolicy/cleanPodPolicy"}) {
    CopyIfReadable(spec, Object::json_pointer(path), parts);
  }
  Object success = parts;
  const bool knows_success =
      CopyIfReadable(spec, Object::json_pointer("/successPolicy"), success) &&
      CopyIfReadable(spec, Object::json_pointer("/strategy/type"), success) &&
      CopyReplicas(spec, success);
  // The success policy is known completely or not at all: a job without roles never succeeds.
  return knows_success ? success : parts;
}

// Drops metadata members of the wrong type: ParseObject replaces a member that is too large by a
// text (kube::kTooMany), which would make the whole job unreadable, including its status.
Object ReadableMetadata(const Object& object) {
  Object metadata = object.value("metadata", Object::object());
  for (const char* key : {"labels", "annotations", "ownerReferences"}) {
    const auto member = metadata.find(key);
    if (member != metadata.end() && !member->is_structured()) metadata.erase(member);
  }
  return metadata;
}

// Returns what can be read of the job. For a completely unreadable job these are only its name and
// uid, so that it can be reported; nothing else is done about it.
api::TrainingJob Unreadable(const Object& object) {
  Object bare = {{"apiVersion", api::kApiVersion},
                 {"kind", api::kKind},
                 {"metadata", ReadableMetadata(object)},
                 {"spec", ReadableParts(object)}};
  if (object.contains("status")) bare["status"] = object.at("status");
  auto job = api::TrainingJobFromServer(bare);
  if (job.ok()) return api::WithDefaults(*std::move(job));
  api::TrainingJob named;
  named.metadata.name = kube::Name(object);
  named.metadata.namespace_name = kube::Namespace(object);
  named.metadata.uid = kube::Uid(object);
  named.metadata.resource_version = kube::ResourceVersion(object);
  return named;
}

// Keeps what queueing systems are told: the rest is never read, and may be large.
void TrimMetadata(api::ObjectMeta& metadata) {
  std::erase_if(metadata.annotations,
                [](const auto& annotation) { return !IsQueueingAnnotation(annotation.first); });
  metadata.owner_references.clear();
  std::erase_if(metadata.labels, [](const auto& label) { return !IsQueueingLabel(label.first); });
}

// Replaces parsed JSON by text, which takes about as much memory as the API server's response.
void PackSpec(api::TrainingJobSpec& spec) {
  for (auto& [role, replicas] : spec.replica_specs) replicas.tmpl = replicas.tmpl.Packed();
  if (!spec.training) return;
  spec.training->model.layers = spec.training->model.layers.Packed();
  spec.training->variants = spec.training->variants.Packed();
}

// Returns the variants, at most kMostVariants of them, each reduced to its name, or to an empty
// object if its name is not valid.
api::Json NamesOf(const api::TrainingSpec& training) {
  api::Json names = api::Json::array();
  if (!training.variants->is_array()) return names;
  const int count = std::min(static_cast<int>(training.variants->size()), api::kMostVariants);
  for (int i = 0; i < count; ++i) {
    const std::string name = api::VariantName(training, i);
    names.push_back(api::IsVariantName(name) ? api::Json{{"name", name}} : api::Json::object());
  }
  return names;
}

// Drops what is needed only to create pods, since an invalid job gets none and may be invalid
// because it is too large. Keeps whether it has `training`, which decides how its existing pods are
// treated, and the names of variants, which may yet end.
void TrimSpec(api::TrainingJobSpec& spec) {
  for (auto& [role, replicas] : spec.replica_specs) replicas.tmpl = {};
  if (spec.training) {
    api::Json names = NamesOf(*spec.training);
    spec.training.emplace().variants = std::move(names);
  }
  spec.run_policy.scheduling_policy.reset();
}

// An autoscaler may choose a number of workers that the bounds allow and the rest of the spec does
// not: batchSize.global has fewer samples than they have GPUs, say. Such an edit must not keep the
// operator from replacing the pods of the job that runs. A job that is suspended or queued has no
// pods to lose, and no other number would be right for it. If the job is valid with the number in
// its status, sets that number and returns true.
bool KeepsItsSize(const std::string& fault, ObservedJob& observed) {
  const api::TrainingJob& job = observed.job;
  const auto known = job.status.replica_statuses.find(api::Role::kWorker);
  const auto workers = job.spec.replica_specs.find(api::Role::kWorker);
  if (!job.spec.elastic || known == job.status.replica_statuses.end()) return false;
  if (job.spec.suspend || api::IsTrue(job.status, api::kSuspended)) return false;
  if (workers == job.spec.replica_specs.end()) return false;
  const int asked = workers->second.replicas;
  const int kept = known->second.desired;
  api::TrainingJob sized = job;
  sized.spec.replica_specs[api::Role::kWorker].replicas = kept;
  if (kept == asked || !api::Validate(sized).empty()) return false;
  observed.job = std::move(sized);
  observed.kept_size =
      Shortened(fmt::format("the job goes on with {} workers; with {}: {}", kept, asked, fault),
                kLongestFault, " …");
  return true;
}

// With this finalizer, the garbage collector takes the job's children from it before it goes.
bool KeepsChildren(const Object& object) {
  return std::ranges::any_of(kube::ListMember(kube::Member(object, "metadata"), "finalizers"),
                             [](const Object& finalizer) { return finalizer == "orphan"; });
}

// Sets what is not in the spec.
void ObserveMetadata(const Object& object, ObservedJob& observed) {
  TrimMetadata(observed.job.metadata);
  observed.owned_metadata = HeldMetadata(object);
  observed.keeps_children = KeepsChildren(object);
}

}  // namespace

ObservedJob ObserveJobAgain(Object object, const ObservedJob& before) {
  const std::int64_t generation = kube::Int64Member(kube::Member(object, "metadata"), "generation");
  const bool is_same = generation > 0 && generation == before.job.metadata.generation &&
                       kube::Uid(object) == before.job.metadata.uid;
  // Whether a spec that is not valid as it stands is usable depends on the status, too.
  if (!is_same || before.invalid || before.kept_size) return ObserveJob(object);
  Object spec = std::exchange(object["spec"], {{"replicaSpecs", Object::object()}});
  auto read = api::TrainingJobFromServer(object);
  if (!read.ok()) {
    object["spec"] = std::move(spec);
    return ObserveJob(object);
  }
  ObservedJob observed;
  observed.job = *std::move(read);
  observed.job.spec = before.job.spec;
  ObserveMetadata(object, observed);
  return observed;
}

ObservedJob ObserveJob(const Object& object) {
  auto read = api::TrainingJobFromServer(object);
  ObservedJob observed;
  absl::Status valid = read.status();
  if (read.ok()) {
    observed.job = api::WithDefaults(*std::move(read));
    valid = ToStatus(api::Validate(observed.job));
    if (!valid.ok() && KeepsItsSize(std::string(valid.message()), observed)) {
      valid = absl::OkStatus();
    }
  } else {
    observed.job = Unreadable(object);
  }
  ObserveMetadata(object, observed);
  if (valid.ok()) {
    PackSpec(observed.job.spec);
  } else {
    observed.invalid = Shortened(std::string(valid.message()), kLongestFault, " …");
    TrimSpec(observed.job.spec);
  }
  return observed;
}

}  // namespace lockstep::controller
