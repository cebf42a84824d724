#include "operator/controller/memory/seen_workers.h"

#include <cstddef>

#include "operator/controller/rules/parts/readiness.h"
#include "operator/controller/state/replicas.h"

namespace lockstep::controller {

std::vector<int> SeenWorkers::UpdateGone(const Observed& observed) {
  const api::TrainingJobStatus& status = observed.job.status;
  // A pod that is deleted before the workers have been up is simply recreated.
  const bool have_been_up = HasBeenUp(observed.job, api::Role::kWorker);
  if (attempt_ != status.attempt || !have_been_up) seen_.clear();
  attempt_ = status.attempt;
  const int count = observed.job.spec.elastic ? ReplicaCount(observed.job, api::Role::kWorker) : 0;
  std::vector<bool> present(static_cast<std::size_t>(count)), started(present.size());
  for (const ObservedPod& pod : observed.pods) {
    // Nobody misses one that was to go since the job had become smaller.
    const bool is_worker = pod.role == api::Role::kWorker && !IsObsolete(observed, pod);
    if (!is_worker || pod.index >= count) continue;
    const auto place = static_cast<std::size_t>(pod.index);
    present[place] = true;
    started[place] = MayHaveStarted(pod);
  }
  seen_.resize(present.size());  // a worker that was scaled away has not vanished
  std::vector<int> gone;
  for (std::size_t i = 0; i < present.size(); ++i) {
    const int index = static_cast<int>(i);
    const bool has_finished = ReplicaCompleted(observed.job, {api::Role::kWorker, index});
    if (seen_[i] && !present[i] && !has_finished) gone.push_back(index);
    if (started[i]) seen_[i] = true;
  }
  return gone;
}

std::vector<int> SeenWorkers::Started() const {
  std::vector<int> indexes;
  for (std::size_t i = 0; i < seen_.size(); ++i) {
    if (seen_[i]) indexes.push_back(static_cast<int>(i));
  }
  return indexes;
}

}  // namespace lockstep::controller
