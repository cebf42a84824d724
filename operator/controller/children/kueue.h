// Kueue's Workload (kueue.x-k8s.io/v1beta1) of a job: what it asks for, and what was granted. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "api/v1/training_job.h"
#include "operator/controller/state/observed_workload.h"
#include "operator/controller/state/settings.h"
#include "operator/kube/object.h"

namespace lockstep::controller {

inline const kube::Kind kWorkloadKind{"kueue.x-k8s.io", "v1beta1", "Workload", "workloads"};
inline const kube::Kind kFlavorKind{"kueue.x-k8s.io", "v1beta1", "ResourceFlavor",
                                    "resourceflavors", /*namespaced=*/false};
inline const kube::Kind kWorkloadPriorityKind{"kueue.x-k8s.io", "v1beta1", "WorkloadPriorityClass",
                                              "workloadpriorityclasses", /*namespaced=*/false};
inline const kube::Kind kPriorityKind{"scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses",
                                      /*namespaced=*/false};

// The job's label kueue.x-k8s.io/queue-name; empty: Kueue has no part in it.
std::string QueueName(const api::TrainingJob& job);

// True if Settings and the job both say that Kueue decides when it runs.
bool IsQueued(const api::TrainingJob& job, const Settings& settings);

// A class's name and where to look its value up; nothing if the job names none.
struct PriorityReference {
  kube::Kind kind;
  std::string name;
};
std::optional<PriorityReference> PriorityOf(const api::TrainingJob& job);

std::string WorkloadName(const api::TrainingJob& job);
// Differs when a Workload made from the job would: its roles' counts and pods.
std::string WorkloadShape(const api::TrainingJob& job);
// Differs when its roles' pod templates do, for any version of the operator.
std::string TemplatesHash(const api::TrainingJob& job);
// A pod set for each role that has replicas; an elastic job's workers may be fewer, down to
// minReplicas. `priority` is the class's value.
kube::Object BuildWorkload(const api::TrainingJob& job, const Settings& settings,
                           std::optional<std::int64_t> priority);

// What a cache keeps of a Workload: all that is written back to its status, and of the spec all but
// the templates.
kube::Object TrimmedWorkload(kube::Object workload);

// What the template says itself stays; a node selector of Kueue's comes on top.
void ApplyGrant(const PodSetGrant& grant, kube::Object& pod);

// With a condition set, as metav1.Condition.
kube::Object WithWorkloadCondition(kube::Object workload, const std::string& type, bool value,
                                   const std::string& reason, const std::string& message, Time now);
// An evicted Workload whose pods are gone gives its quota back and queues again.
kube::Object Released(kube::Object workload, Time now);

}  // namespace lockstep::controller
