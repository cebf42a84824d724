// What an operator sees of a group that gets another number of workers.
#include <utility>

#include "operator/controller/observer.h"
#include "operator/controller/rules/parts/group_size.h"
#include "operator/controller/state/replicas.h"

namespace lockstep::controller {
namespace {

// StatusWriter clears `from` once an event has told of the resize. If the group is told another
// number before that, `from` stays, and one event tells of both changes.
void NoteResize(Observed& observed, bool resizes, GroupResize& resize) {
  const std::optional<int>& answer = observed.group.workers;
  // Before its first answer, the leading pod may have a size that an earlier process told it.
  if (resizes && answer && !resize.is_untold) resize.from = answer;
  if (resizes) return;
  const std::optional<int> now = GroupWorkers(observed);
  resize.is_untold = now && (answer || resize.is_untold) && resize.from && resize.from != now;
  if (!resize.is_untold) resize.from.reset();
  observed.resized_from = resize.from;
}

}  // namespace

void Observer::ObserveGroupSize(ReconcileContext& context) const {
  Observed& observed = context.observed;
  observed.tells_workers = with_.progress.TellsWorkers();
  const int told = WorkersToTell(observed);
  if (observed.tells_workers) with_.progress.TellWorkers(observed.job.metadata.uid, told);
  GroupResize& resize = context.memory.resize;
  const bool resizes = IsResizing(observed);
  const int wanted = ReplicaCount(observed.job, api::Role::kWorker);
  if (!resizes || !resize.settled) resize.settled = wanted;
  observed.saw_scale = resize.settled != wanted;
  const bool was_told =
      resizes && told > 0 && observed.group.workers;  // a group that has answered has a leading pod
  const bool is_awaited = was_told || MustAskFirst(observed) || IsSilentForScale(observed);
  // Each number has its own time.
  if (std::exchange(resize.told, told) != told) resize.since.reset();
  // Not while rank 0 saves a checkpoint, or the group waits until one can be saved.
  const bool counts = is_awaited && !observed.group.AwaitsSave();
  if (!counts) resize.since.reset();
  if (counts && !resize.since) resize.since = context.moment.steady;
  observed.resizing_since = context.moment.TimeOf(resize.since);
  NoteResize(observed, resizes, resize);
}

}  // namespace lockstep::controller
