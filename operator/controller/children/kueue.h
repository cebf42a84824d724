// A job's Kueue Workload (kueue.x-k8s.io): what it requests and what was granted. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/v1/training_job.h"
#include "operator/controller/state/observed_workload.h"
#include "operator/controller/state/settings.h"
#include "operator/kube/object.h"

namespace lockstep::controller {

// The versions of Kueue's kinds, the newest first. Kueue before 0.15 serves only v1beta1, Kueue
// from 0.20 on only v1beta2. What is built here is v1beta2; see WorkloadIn. Members that differ are
// read in either version.
inline constexpr char kKueueGroup[] = "kueue.x-k8s.io";
inline constexpr char kKueueV1Beta1[] = "v1beta1", kKueueV1Beta2[] = "v1beta2";
inline const std::vector<std::string> kKueueVersions{kKueueV1Beta2, kKueueV1Beta1};

inline const kube::Kind kWorkloadKind{kKueueGroup, kKueueV1Beta2, "Workload", "workloads"};
inline const kube::Kind kFlavorKind{kKueueGroup, kKueueV1Beta2, "ResourceFlavor", "resourceflavors",
                                    /*namespaced=*/false};
inline const kube::Kind kWorkloadPriorityKind{kKueueGroup, kKueueV1Beta2, "WorkloadPriorityClass",
                                              "workloadpriorityclasses", /*namespaced=*/false};
inline const kube::Kind kPriorityKind{"scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses",
                                      /*namespaced=*/false};

// A Workload's condition, its reasons, and the message of kWaitForStart.
inline constexpr char kPodsReady[] = "PodsReady";
inline constexpr char kWaitForStart[] = "WaitForStart", kStarted[] = "Started",
                      kWaitForRecovery[] = "WaitForRecovery", kRecovered[] = "Recovered";
inline constexpr char kNotYetReady[] = "not all required replicas are ready yet";

// Returns the job's label kueue.x-k8s.io/queue-name; empty if Kueue does not manage the job.
std::string QueueName(const api::TrainingJob& job);

// Return true for the labels and annotations of a job that functions below read.
bool IsQueueingLabel(std::string_view key);
bool IsQueueingAnnotation(std::string_view key);

// Returns true if Settings enables Kueue and the job names a queue.
bool IsQueued(const api::TrainingJob& job, const Settings& settings);

// A priority class and the kind that has its value.
struct PriorityReference {
  kube::Kind kind;
  std::string name;
};
std::optional<PriorityReference> PriorityOf(const api::TrainingJob& job);

// Returns the job's label kueue.x-k8s.io/max-exec-time-seconds: for how long its Workload may be
// admitted, all admissions together, before Kueue deactivates it. Empty: for as long as it likes.
std::string MaxExecutionTime(const api::TrainingJob& job);

// Returns whether the Workload was made with another limit. That of an older operator, which knew
// of no limit, counts as made with the job's: an upgrade must neither end a job nor let one queue
// again.
bool HasOtherTimeLimit(const ObservedWorkload& workload, const api::TrainingJob& job);

std::string WorkloadName(const api::TrainingJob& job);
// Returns a hash that changes with the pod templates of the roles that have replicas. It is stored
// in Workloads. If the hash of an unedited job changed, a running job would lose its quota and a
// waiting one its place in the queue. So another way to compute it needs another kTemplatesScheme.
std::string TemplatesHash(const api::TrainingJob& job);
// Returns the fewest workers that the job can run with, 0 if all or none: it is not elastic.
int MinWorkers(const api::TrainingJob& job);
// Returns true if the Workload was not made for the job's pods as they are now. If its hash has
// another scheme, compares what the pods request instead.
bool IsForOtherPods(const ObservedWorkload& workload, const api::TrainingJob& job,
                    const Settings& settings);
// Returns a Workload with one pod set per role that has replicas, and with the topology that the
// role's template asks for. An elastic job's workers may be reduced to minReplicas. `priority` is
// the class's value. The job's annotations provreq.kueue.x-k8s.io/… go with it: of them Kueue makes
// the parameters of a ProvisioningRequest.
kube::Object BuildWorkload(const api::TrainingJob& job, const Settings& settings,
                           std::optional<std::int64_t> priority);
// Returns such a Workload with the fields of kind.version. See kube::ServedVersionClient.
kube::Object WorkloadIn(kube::Object workload, const kube::Kind& kind);

// Applies the grant to `pod`, one of this role. The grant's node selectors, labels and annotations
// override the template's where the keys are equal; its tolerations are appended if missing. If
// Kueue chooses the nodes, the pod waits behind Kueue's scheduling gate until it has.
void ApplyGrant(const PodSetGrant& grant, const api::TrainingJob& job, api::Role role,
                kube::Object& pod);

// Returns the workload with a condition set, as metav1.Condition.
kube::Object WithWorkloadCondition(kube::Object workload, const std::string& type, bool value,
                                   const std::string& reason, const std::string& message, Time now);
// Returns the workload with a number of workers whose quota Kueue may give to others. Kueue lets it
// grow only, until the Workload is released.
kube::Object WithReclaimableWorkers(kube::Object workload, int workers);
// Returns an evicted Workload, whose pods are gone, with its quota given back so that it queues
// again, and with the time for which it was admitted added to its total, unless it was evicted
// because that has reached its limit.
kube::Object Released(kube::Object workload, Time now);

}  // namespace lockstep::controller
