// An attempt: the time from the creation of a gang's pods to the loss of one of them. Pure.
#pragma once

#include <optional>
#include <string>

#include "operator/controller/state/observed.h"

namespace lockstep::controller {

// Returns the restarts that the status counts plus the kubelets' restarts in pods that it has not
// counted yet. The status takes these over once the pods are lost, which does not change the sum.
api::RestartCounts RestartsSoFar(const Observed& observed);

// Forgets which replicas have completed, and the results of variants, except of Independent
// replicas, which do not run again.
void ForgetCompleted(const api::TrainingJob& job, api::TrainingJobStatus& status);

// Forgets them whatever the strategy.
void ForgetAllCompleted(api::TrainingJobStatus& status);

// For Independent replicas whose job was edited while it was suspended. Forgets each
// that has not left a result for every variant that its index now stands for. If then all the
// workers that the edit has left have completed, forgets them all: otherwise the job would succeed
// at once, and could never train again.
void RecheckCompleted(const api::TrainingJob& job, api::TrainingJobStatus& status);

// Returns how many of the job's workers have completed for good: replicas that train alone do so
// once, and others start again whenever one of them does.
int CompletedWorkers(const api::TrainingJob& job, const api::TrainingJobStatus& status);
// Returns how many of those no longer need resources, because no sidecar runs in their pods,
// either. Counts only what the written status says, so that a new operator counts the same.
int WorkersThatAreDone(const Observed& observed);

// Returns true if the pod is of the present attempt and notes its shape (ClusterShape). An
// Evaluator's does not count, and one that an older operator created may have no note.
bool NotesShape(const Observed& observed, const ObservedPod& pod);

// Returns whether the replicas of the present attempt train independently; nullopt if none of its
// pods notes its shape.
std::optional<bool> IsIndependentAttempt(const Observed& observed);

// Returns true if the present attempt trains independently and the job's replicas are to train
// together, or the reverse: the strategy was edited, and no operator has closed the attempt since.
// What has completed in it is no part of what the job is to train now.
bool HasOtherStrategy(const Observed& observed);

// Ends the present attempt and increments the number, so that its pods can be told from the next
// attempt's. The next attempt keeps only what Independent replicas have completed, and nothing if
// the present one has another strategy. Charges the kubelet's restarts of its pods, which are not
// known once these are gone, and nothing else.
void CloseAttempt(const Observed& observed, api::TrainingJobStatus& status);

// Says in the conditions, with `reason` and `message`, that the attempt that was closed is followed
// by the next one, once its pods are deleted.
void AnnounceNextAttempt(const Observed& observed, const std::string& reason,
                         const std::string& message, api::TrainingJobStatus& status);

}  // namespace lockstep::controller
