// How the group of an elastic job of the bundled trainer gets another number of workers while it
// trains: its processes leave with a checkpoint and start again in their pods. Pure.
#pragma once

#include <optional>

#include "operator/controller/state/observed.h"

namespace lockstep::controller {

// After this time a group that has not followed is restarted as the next attempt.
inline constexpr Duration kFollowsWithin = std::chrono::minutes(2);

// Returns true if the job's group can follow a change of the number of workers: a
// MultiWorkerMirrored job with `training`, scope InPlace and a folder for checkpoints, whose
// leading pod this operator can tell. It is not known of a trainer that has not answered: a leading
// pod that runs is given the time to, and pods of one attempt that were created for different
// numbers show that it has followed before. A gang's scheduler and Kueue place all pods of an
// attempt together.
bool ResizesInPlace(const Observed& observed);

// Returns the number of workers that the group has: what its leading pod says or, until that has
// answered, what the status says, else what that pod was created for. nullopt: ResizesInPlace is
// false, or no leading pod runs; then nobody misses workers that are too many.
std::optional<int> GroupWorkers(const Observed& observed);

// Notes in the status how many workers the leading pod says that the group has, once that is
// another number than the attempt's pods were created for: after the group has shrunk, all pods
// that are left note the number before. A number that is greater counts once all of them have been
// there.
void NoteGroupWorkers(const Observed& observed, api::TrainingJobStatus& status);

// Returns true while the group has another number of workers than the spec.
bool IsResizing(const Observed& observed);

// Returns true if no worker may be created yet: an earlier trainer would refuse one that knows of
// another number of workers for good.
bool MustAskFirst(const Observed& observed);

// Returns true if a group that has followed before must follow once more, by what this process has
// seen or since there are workers that are too many, and its leading pod has not answered yet.
bool IsSilentForScale(const Observed& observed);

// Returns the number of workers that the leading pod is to be told; 0: none. New ones are told of
// once all of their pods run, so that the others do not wait for an image or for a node. If the
// leading pod was replaced before that, and so begins with the spec's number, it is told the number
// that can be there.
int WorkersToTell(const Observed& observed);

// Returns true if the pod is a worker's that the spec no longer has, but the group still does: it
// must not go before the group has left it behind with a checkpoint. While a leading pod that runs
// has not answered, any may be: the group may have got another number since that pod was created.
bool IsStillOfGroup(const Observed& observed, const ObservedPod& pod);

// Returns true if the group should have followed by now (kFollowsWithin).
bool HasTakenTooLong(const Observed& observed);

// Returns true if the group follows, or has followed, a change of the number of workers, so that
// pods that were created for another number stay. False once it has taken too long, and if an edit
// has changed more than the number: then the group would refuse the new workers.
bool FollowsInPlace(const Observed& observed);

}  // namespace lockstep::controller
