// A job's Kueue Workload (kueue.x-k8s.io/v1beta1) as the cache has it: what was requested and what
// was granted. Pure.
#pragma once

#include <map>
#include <set>
#include <string>

#include "api/v1/training_job.h"
#include "operator/kube/object.h"

namespace lockstep::controller {

// What Kueue granted a role's pods. The members are those of a pod's spec and metadata.
struct PodSetGrant {
  int count = 0;
  std::set<std::string> flavors;  // names of ResourceFlavors; AddFlavor merges their content
  kube::Object node_selector = kube::Object::object();
  kube::Object tolerations = kube::Object::array();
  kube::Object labels = kube::Object::object(), annotations = kube::Object::object();
  bool operator==(const PodSetGrant&) const = default;
};

struct ObservedWorkload {
  std::string name, uid;
  // TemplatesHash (children/kueue.h) of the job it was created from; empty, so unknown, if an older
  // operator created it.
  std::string templates;
  std::string queue, priority_class;
  std::map<api::Role, int> counts;           // requested
  std::map<api::Role, PodSetGrant> granted;  // only if `admitted`
  bool reserved = false;                     // holds quota
  bool admitted = false, evicted = false, finished = false;
  bool pods_ready = false;
  std::string eviction;  // reason and message of the eviction
  bool operator==(const ObservedWorkload&) const = default;
};

// Members that are absent or of another type keep their default.
ObservedWorkload ReadWorkload(const kube::Object& workload);

// Adds a ResourceFlavor's node labels and tolerations to `grant`.
void AddFlavor(const kube::Object& flavor, PodSetGrant& grant);

}  // namespace lockstep::controller
