// A TrainingJob object as rules see it.
#pragma once

#include "operator/controller/observed.h"
#include "operator/kube/field_tree.h"

namespace lockstep::controller {

// Fills `job` and `invalid`. Of an object that is no well-formed TrainingJob, only metadata and
// what can be read of status are filled in.
void ObserveJob(const kube::Object& object, Observed& observed);

// What caches keep of each kind: the fields that this folder reads. An API server's
// objects come without metadata.managedFields (kube::ParseObject).
void TrimJob(kube::Object& job);
void TrimPod(kube::Object& pod);
void TrimService(kube::Object& service);
// Of pods and services: members that trimming drops, large ones, so that they need not be read.
kube::FieldTree PodFieldsNobodyReads();
kube::FieldTree ServiceFieldsNobodyReads();
// Keeps the spec whole: it is written back.
void TrimPodGroup(kube::Object& group);
// Keeps all that is written back: of the spec, only templates are dropped.
void TrimWorkload(kube::Object& workload);

}  // namespace lockstep::controller
