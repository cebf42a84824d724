// PodGroups: all of a gang's pods are placed at once, or none is. Pure.
#pragma once

#include <map>
#include <string>

#include "api/v1/training_job.h"
#include "operator/controller/state/replicas.h"
#include "operator/controller/state/settings.h"
#include "operator/kube/object.h"

namespace lockstep::controller {

enum class GangScheduler { kNone, kVolcano, kSchedulerPlugins };

// "": none; "volcano"; anything else is the name under which a scheduler with scheduler-plugins'
// Coscheduling runs ("scheduler-plugins" means its usual one, scheduler-plugins-scheduler).
GangScheduler GangSchedulerOf(const Settings& settings);

// scheduling.volcano.sh/v1beta1 or scheduling.x-k8s.io/v1alpha1. Expects a gang scheduler.
const kube::Kind& PodGroupKind(const Settings& settings);

// The job's PodGroup: named like the job, owned by it. minMember is schedulingPolicy.minAvailable,
// else every replica that must be up for the job to run; minResources what those ask for.
kube::Object BuildPodGroup(const api::TrainingJob& job, const Settings& settings);

// What a cache keeps of a PodGroup: all that is written back.
kube::Object TrimmedPodGroup(kube::Object group);

// Makes `pod` a member: group name, and schedulerName unless the template sets it. Nothing without
// a gang scheduler.
void JoinPodGroup(const api::TrainingJob& job, const Settings& settings, api::Role role,
                  kube::Object& pod);

// What one pod of this spec asks for (requests, else limits), as schedulers count it: the sum over
// its containers and sidecars (init containers that run on), or what the largest init container and
// the sidecars before it need if that is more; `resources` of the pod itself instead, where they
// are set; and `overhead`. Quantities that cannot be read count as nothing. A RuntimeClass's
// overhead, which the API server adds when it creates the pod, is not in the spec, so not counted.
std::map<std::string, double> PodRequests(const api::Json& pod_spec);

}  // namespace lockstep::controller
