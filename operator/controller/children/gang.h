// PodGroups, which make a scheduler place all of a gang's pods at once, or none. Pure.
#pragma once

#include <string>

#include "api/v1/training_job.h"
#include "operator/controller/state/observed_pod_group.h"
#include "operator/controller/state/replicas.h"
#include "operator/controller/state/settings.h"
#include "operator/kube/object.h"

namespace lockstep::controller {

// Returns kNone for "" and kVolcano for "volcano". Anything else is the schedulerName of an
// instance of scheduler-plugins' Coscheduling ("scheduler-plugins" means its usual name,
// scheduler-plugins-scheduler).
GangScheduler GangSchedulerOf(const Settings& settings);

// Returns scheduling.volcano.sh/v1beta1 or scheduling.x-k8s.io/v1alpha1. Requires: a gang
// scheduler.
const kube::Kind& PodGroupKind(const Settings& settings);

// Returns the job's PodGroup, which has the job's name and is owned by it. minMember is
// schedulingPolicy.minAvailable, else the number of replicas that must be up for the job to run;
// minResources is what those request. Neither counts roles that still wait for others: they are
// placed together when their time comes. Sets no member of `spec` that ReadPodGroup does not read,
// and notes which ones it sets. Requires: a gang scheduler.
kube::Object BuildPodGroup(const api::TrainingJob& job, const Settings& settings);
// Updates `group`, the job's PodGroup, to `built`. Members of its spec that others have set stay,
// such as a queue that Volcano has filled in. Requires: `group` and its spec are objects.
void UpdatePodGroupTo(const kube::Object& built, kube::Object& group);

// Adds `pod` to the PodGroup: group name, and schedulerName unless the template sets it. An
// Evaluator's pod gets only the latter. Does nothing without a gang scheduler.
void JoinPodGroup(const api::TrainingJob& job, const Settings& settings, api::Role role,
                  kube::Object& pod);

}  // namespace lockstep::controller
