// Kueue's Workload (kueue.x-k8s.io/v1beta1) of a job, as it was seen: what was asked for, and what
// was granted. Pure.
#pragma once

#include <map>
#include <set>
#include <string>

#include "api/v1/training_job.h"
#include "operator/kube/object.h"

namespace lockstep::controller {

// What a role's pods were granted. The members are those of a pod's spec and metadata.
struct PodSetGrant {
  int count = 0;
  std::set<std::string> flavors;  // ResourceFlavors; node_selector and tolerations hold theirs once
                                  // they have been read
  kube::Object node_selector = kube::Object::object();
  kube::Object tolerations = kube::Object::array();
  kube::Object labels = kube::Object::object(), annotations = kube::Object::object();
  bool operator==(const PodSetGrant&) const = default;
};

struct ObservedWorkload {
  std::string name, uid;
  std::string shape;      // of the job it was made from; WorkloadShape in children/kueue.h
  std::string templates;  // and TemplatesHash; empty of an older operator's
  std::string queue, priority_class;
  std::map<api::Role, int> counts;           // that were asked for
  std::map<api::Role, PodSetGrant> granted;  // with `admitted`
  bool reserved = false;                     // holds quota
  bool admitted = false, evicted = false, finished = false;
  bool pods_ready = false;
  std::string eviction;  // why
  bool operator==(const ObservedWorkload&) const = default;
};

// What is absent or of another type is left as it is in a new ObservedWorkload.
ObservedWorkload ReadWorkload(const kube::Object& workload);

// Adds a ResourceFlavor's node labels and tolerations.
void AddFlavor(const kube::Object& flavor, PodSetGrant& grant);

}  // namespace lockstep::controller
