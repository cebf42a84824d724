// A job's Kueue Workload as the cache has it, in any of kKueueVersions (children/kueue.h): what was
// requested and what was granted. Pure.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "api/v1/training_job.h"
#include "operator/kube/field_mask.h"
#include "operator/kube/object.h"

namespace lockstep::controller {

// What Kueue granted a role's pods. The members are those of a pod's spec and metadata.
struct PodSetGrant {
  int count = 0;
  std::set<std::string> flavors;  // names of ResourceFlavors; AddFlavor merges their content
  kube::Object node_selector = kube::Object::object();
  kube::Object tolerations = kube::Object::array();
  kube::Object labels = kube::Object::object(), annotations = kube::Object::object();
  bool has_topology = false;  // Kueue chooses the nodes of each pod
  bool operator==(const PodSetGrant&) const = default;
};

// What TemplatesHash begins with. A hash without this prefix is of an older operator, and not
// collision-resistant: a tenant could find two jobs with the same one.
inline constexpr std::string_view kTemplatesScheme = "sha256:";
inline bool IsOfPresentScheme(std::string_view templates) {
  return templates.starts_with(kTemplatesScheme);
}

// A Workload's annotation with the job's label of the same name that it was made from, or with an
// empty text. Kueue before 0.9 drops the field that it sets.
inline constexpr char kMaxExecutionAnnotation[] = "kueue.x-k8s.io/max-exec-time-seconds";

struct ObservedWorkload {
  // TemplatesHash (children/kueue.h) of the job that it was created from. An older operator's has
  // another scheme or is empty.
  std::string templates;
  std::string resources;  // ResourcesHash of its pod sets, unless `templates` tells more
  std::string queue, priority_class;
  std::optional<std::string> max_execution_time;  // see MaxExecutionTime; absent: not known
  std::map<api::Role, int> counts;                // requested
  std::optional<int> min_workers;                 // requested; absent: unknown. See MinWorkers
  std::map<api::Role, PodSetGrant> granted;  // only if `reserved`: also before and after `admitted`
  int reclaimable_workers = 0;               // whose quota Kueue has been told to use for others
  bool reserved = false;                     // holds quota
  bool admitted = false, evicted = false, finished = false;
  bool pods_ready = false;
  std::string readiness;  // the reason of the condition PodsReady; empty if it is absent
  // Why it was evicted (reason and message), or why its admission is ignored.
  std::string eviction;
  bool operator==(const ObservedWorkload&) const = default;
};

// How many workers a job had asked for, and how many Kueue has granted it.
struct WorkerGrant {
  int asked = 0, granted = 0;
  bool operator==(const WorkerGrant&) const = default;
};

// Returns a hash of what Kueue counts of the pods: names and resources of containers, overhead,
// claims and node selectors. Equal quantities give equal hashes however they are written, and
// defaults that the API server adds change nothing.
std::string ResourcesHash(const kube::Object& pod_sets);

// Members that are absent or of another type keep their default. Whoever may write Workloads
// decides how long texts are, so they are cut; an admission that grants more than 8 KiB of flavors,
// labels and the like, which pods must get completely or not at all, counts as none.
ObservedWorkload ReadWorkload(const kube::Object& workload);
// The members of a Workload that ReadWorkload and a store read, so that the rest is not parsed.
kube::FieldMask WorkloadFields();

// Adds a ResourceFlavor's node labels and tolerations to `grant`.
void AddFlavor(const kube::Object& flavor, PodSetGrant& grant);

}  // namespace lockstep::controller
