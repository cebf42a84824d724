#include "operator/controller/rules/seen_completions.h"

#include <algorithm>

#include "operator/controller/rules/status.h"
#include "operator/controller/state/replicas.h"

namespace lockstep::controller {

void SeenCompletions::Note(Observed& observed) {
  api::TrainingJobStatus& status = observed.job.status;
  if (attempt_ != status.attempt) seen_.clear();
  attempt_ = status.attempt;
  std::set<int> staying;
  for (const ObservedPod& pod : observed.pods) {
    if (pod.role != api::Role::kWorker || !IsMember(observed, pod) || !HasSucceeded(pod)) continue;
    seen_.insert(pod.index);
    if (!pod.being_deleted) staying.insert(pod.index);
  }
  for (const int index : seen_) {
    if (!staying.contains(index)) AddCompletedIndex(index, status);
  }
}

}  // namespace lockstep::controller
