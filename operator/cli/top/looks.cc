#include "operator/cli/top/looks.h"

#include <fmt/format.h>

#include <algorithm>

#include "api/v1/conditions.h"
#include "api/v1/defaults.h"
#include "base/status.h"
#include "operator/cli/cluster/cluster_access.h"
#include "operator/cli/cluster/job_pods.h"
#include "operator/cli/local/work_dir.h"
#include "operator/cli/text/job_table.h"
#include "operator/controller/observe_job.h"
#include "operator/controller/state/kinds.h"

namespace lockstep::cli {
namespace {

using SeenJobs = std::vector<SeenJob>;

// The least time to read one job's pods, however many jobs there are: an answer through the API
// server of a distant cluster takes some tenths of a second.
constexpr Duration kLeastTimeOfJob = std::chrono::seconds(1);

void SetRead(PodsRead read, SeenJob& seen) {
  seen.ranks = std::move(read.ranks);
  seen.top.unread = std::move(read.unread);
}

// Subtracts from `left` the time that reading the job's pods took. They are read for at most
// `most`.
absl::StatusOr<SeenJob> SeeJob(kube::RestClient& client, const api::TrainingJob& job, Duration most,
                               Duration& left) {
  std::vector<kube::Object> pods;
  if (!api::IsTerminal(job.status)) {
    LOCKSTEP_ASSIGN_OR_RETURN(pods, ReadPods(client, job));
  }
  SeenJob seen = LookAtJob(client, job, pods, most);
  left -= std::min(left, seen.took);
  return seen;
}

absl::Status ServesNoMetrics(const std::string& job) {
  return absl::FailedPreconditionError(fmt::format(
      "{} has no spec.training: only the bundled trainer serves the metrics that `top` shows",
      job));
}

}  // namespace

absl::StatusOr<SeenJobs> LookAtCluster(kube::RestClient& client, const std::string& namespace_name,
                                       const std::string& job, Duration most) {
  std::vector<api::TrainingJob> jobs;
  if (!job.empty()) {
    LOCKSTEP_ASSIGN_OR_RETURN(const kube::Object object,
                              client.Get(controller::kTrainingJobKind, {namespace_name, job}));
    jobs.push_back(controller::ObserveJob(object).job);
    if (!api::UsesBundledTrainer(jobs.front())) return ServesNoMetrics("job " + job);
  } else {
    LOCKSTEP_RETURN_IF_ERROR(
        ForEachListed(client, controller::kTrainingJobKind, {.namespace_name = namespace_name},
                      [&](const kube::Object& object) {
                        const api::TrainingJob listed = controller::ObserveJob(object).job;
                        const bool runs = !api::IsTerminal(listed.status);
                        if (runs && api::UsesBundledTrainer(listed)) jobs.push_back(listed);
                      }));
    std::ranges::sort(jobs, {}, [](const api::TrainingJob& one) { return one.metadata.name; });
  }
  SeenJobs seen;
  Duration left = most;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    // Silent pods of one job must leave time for the others.
    const Duration part = std::max(left / static_cast<int>(jobs.size() - i), kLeastTimeOfJob);
    LOCKSTEP_ASSIGN_OR_RETURN(SeenJob next, SeeJob(client, jobs[i], part, left));
    seen.push_back(std::move(next));
  }
  return seen;
}

SeenJob LookAtJob(kube::RestClient& client, const api::TrainingJob& job,
                  const std::vector<kube::Object>& pods, Duration most) {
  SeenJob seen;
  seen.top.namespace_name = job.metadata.namespace_name;
  seen.top.name = job.metadata.name;
  seen.top.state = StateName(job.status);
  seen.top.ready = job.status.ready_replicas;
  seen.over = api::IsTerminal(job.status);
  if (!seen.over && api::UsesBundledTrainer(job)) {
    PodsRead read = ReadTrainerPods(client, job, pods, most);
    seen.took = read.took;
    SetRead(std::move(read), seen);
  }
  SetProgress(seen.ranks, job.status, seen.top);
  if (seen.over) seen.top.remaining_seconds.reset();  // whatever its last report said
  return seen;
}

absl::StatusOr<SeenJobs> LookAtRun(const std::string& work_dir) {
  LOCKSTEP_ASSIGN_OR_RETURN(const auto addresses, WorkDir::ReadMetricsAddresses(work_dir));
  if (addresses.empty()) return ServesNoMetrics("the job of the run in " + work_dir);
  SeenJob seen;
  seen.top.name = work_dir;
  seen.top.state = "Running";
  SetRead(ReadTrainerPods(addresses, kLookTime), seen);
  SetProgress(seen.ranks, {}, seen.top);
  return SeenJobs{std::move(seen)};
}

void SetTimes(SeenJobs& jobs, RanksBefore& before) {
  RanksBefore now;
  for (SeenJob& job : jobs) {
    const std::pair key(job.top.namespace_name, job.top.name);
    job.top.times = TimesBetween(before[key], job.ranks);
    now[key] = job.ranks;
  }
  before = std::move(now);
}

}  // namespace lockstep::cli
