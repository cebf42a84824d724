#include "operator/controller/rules/parts/group_size.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "api/v1/strategy_traits.h"
#include "operator/controller/children/kueue.h"
#include "operator/controller/children/pod_revision.h"
#include "operator/controller/rules/parts/attempt.h"
#include "operator/controller/rules/parts/readiness.h"
#include "operator/controller/state/replicas.h"

namespace lockstep::controller {
namespace {

// Returns null unless the replica's pod runs.
const ObservedPod* RunningPod(const Observed& observed, const Replica& replica) {
  const ObservedPod* pod = FindPod(observed, replica);
  if (pod == nullptr || pod->phase != PodPhase::kRunning) return nullptr;
  return IsActive(*pod) && !IsObsolete(observed, *pod) ? pod : nullptr;
}

const ObservedPod* RunningLeader(const Observed& observed) {
  return RunningPod(observed, LeadingReplica(observed.job));
}

bool WorkerRuns(const Observed& observed, int index) {
  const ObservedPod* pod = RunningPod(observed, {api::Role::kWorker, index});
  return pod != nullptr && !pod->being_deleted;
}

// Returns true if the worker has run in this attempt, as far as this process has seen or the
// leading pod says: it misses a member.
bool HasRun(const Observed& observed, int index) {
  const std::string name = fmt::format("worker-{}", index);
  return std::ranges::find(observed.started_workers, index) != observed.started_workers.end() ||
         std::ranges::find(observed.group.missing, name) != observed.group.missing.end();
}

// Returns the numbers of workers that the attempt's pods were created for.
std::vector<int> NotedWorkers(const Observed& observed) {
  std::vector<int> noted;
  for (const ObservedPod& pod : observed.pods) {
    if (pod.attempt != observed.job.status.attempt) continue;
    const auto workers = WorkersOfShape(observed.job, pod.cluster_shape);
    if (workers) noted.push_back(*workers);
  }
  return noted;
}

// Returns how many workers have made up the group, at least: the number in the status, else the
// least that a pod was created for. nullopt: no pod notes one.
std::optional<int> FewestMembers(const Observed& observed) {
  if (observed.job.status.group_workers) return observed.job.status.group_workers;
  const std::vector<int> noted = NotedWorkers(observed);
  return noted.empty() ? std::nullopt : std::optional(std::ranges::min(noted));
}

// Returns true if this attempt has followed a change before: the status says so, or its pods were
// created for different numbers of workers, which only a trainer gets that follows.
bool HasFollowedBefore(const Observed& observed) {
  if (observed.job.status.group_workers) return true;
  const std::vector<int> noted = NotedWorkers(observed);
  return !noted.empty() && std::ranges::min(noted) != std::ranges::max(noted);
}

// Returns the first worker from `begin` to `end` that is no member, as far as is known: it neither
// runs nor has run; `end` if each does or has.
int FirstStranger(const Observed& observed, int begin, int end) {
  for (int index = begin; index < end; ++index) {
    if (!HasRun(observed, index) && !WorkerRuns(observed, index)) return index;
  }
  return end;
}

// Returns true if a worker was created from another template or training than the spec has by now:
// a process that joins with the new one would be refused.
bool HasOtherSpec(const Observed& observed) {
  const std::string hash = SpecHash(observed.job, api::Role::kWorker);
  return std::ranges::any_of(observed.pods, [&](const ObservedPod& pod) {
    return pod.role == api::Role::kWorker && pod.attempt == observed.job.status.attempt &&
           IsComparable(pod.spec_hash) && pod.spec_hash != hash;
  });
}

}  // namespace

bool HasTakenTooLong(const Observed& observed) {
  return observed.resizing_since && observed.now - *observed.resizing_since >= kFollowsWithin;
}

bool ResizesInPlace(const Observed& observed) {
  const api::TrainingJobSpec& spec = observed.job.spec;
  if (!observed.tells_workers || !spec.training || !spec.elastic) return false;
  if (spec.restart_scope != api::RestartScope::kInPlace) return false;
  if (!api::TraitsOf(spec).uses_collectives || spec.training->checkpoint.directory.empty()) {
    return false;
  }
  const Settings& settings = observed.settings;
  if (observed.workload || IsQueued(observed.job, settings)) return false;
  if (observed.pod_group || !settings.gang_scheduler_name.empty()) return false;
  // In this order: the last one reads the notes of all pods, and is asked for each of them.
  if (observed.group.resizes) return *observed.group.resizes;
  return RunningLeader(observed) != nullptr || HasFollowedBefore(observed);
}

std::optional<int> GroupWorkers(const Observed& observed) {
  const ObservedPod* leader = RunningLeader(observed);
  if (leader == nullptr || !ResizesInPlace(observed)) return std::nullopt;
  if (observed.group.workers) return observed.group.workers;
  const std::optional<int>& noted = observed.job.status.group_workers;
  return noted ? noted : WorkersOfShape(observed.job, leader->cluster_shape);
}

void NoteGroupWorkers(const Observed& observed, api::TrainingJobStatus& status) {
  const std::optional<int>& workers = observed.group.workers;
  if (!workers || !ResizesInPlace(observed) || RunningLeader(observed) == nullptr) return;
  const std::optional<int> fewest = FewestMembers(observed);
  if (!fewest || workers == fewest) return;
  // A leading pod that has replaced another one begins with the spec's number, whoever is there.
  if (FirstStranger(observed, *fewest, *workers) == *workers) status.group_workers = workers;
}

bool IsResizing(const Observed& observed) {
  const std::optional<int> workers = GroupWorkers(observed);
  return workers && *workers != ReplicaCount(observed.job, api::Role::kWorker);
}

bool MustAskFirst(const Observed& observed) {
  return !observed.group.resizes && !HasFollowedBefore(observed) && IsResizing(observed);
}

bool IsSilentForScale(const Observed& observed) {
  if (observed.group.workers || !HasFollowedBefore(observed)) return false;
  const bool must_follow = observed.saw_scale && IsResizing(observed);
  return must_follow || std::ranges::any_of(observed.pods, [&](const ObservedPod& pod) {
           return IsStillOfGroup(observed, pod);
         });
}

int WorkersToTell(const Observed& observed) {
  const std::optional<int> workers = GroupWorkers(observed);
  if (!workers) return 0;
  const int wanted = ReplicaCount(observed.job, api::Role::kWorker);
  for (int index = *workers; index < wanted; ++index) {
    if (!WorkerRuns(observed, index)) return 0;
  }
  // A leading pod that has replaced another one knows only the spec's number.
  const int claimed = std::min(*workers, wanted);
  const int members = FirstStranger(observed, FewestMembers(observed).value_or(claimed), claimed);
  if (members >= claimed) return wanted;
  // Only an answer tells which workers have been members.
  return observed.group.answers ? members : 0;
}

bool IsStillOfGroup(const Observed& observed, const ObservedPod& pod) {
  if (pod.role != api::Role::kWorker || IsMember(observed, pod)) return false;
  if (pod.attempt != observed.job.status.attempt) return false;
  const std::optional<int> workers = GroupWorkers(observed);
  return workers && (!observed.group.workers || pod.index < *workers);
}

bool FollowsInPlace(const Observed& observed) {
  if (!ResizesInPlace(observed) || HasTakenTooLong(observed)) return false;
  return !IsResizing(observed) || !HasOtherSpec(observed);
}

}  // namespace lockstep::controller
