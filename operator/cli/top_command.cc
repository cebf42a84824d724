#include "operator/cli/top_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <map>
#include <thread>
#include <utility>

#include "api/v1/conditions.h"
#include "api/v1/defaults.h"
#include "base/json_text.h"
#include "base/status.h"
#include "operator/cli/cluster/cluster_access.h"
#include "operator/cli/exit_codes.h"
#include "operator/cli/fail.h"
#include "operator/cli/local/work_dir.h"
#include "operator/cli/text/job_table.h"
#include "operator/cli/text/screen.h"
#include "operator/controller/observe_job.h"
#include "operator/controller/state/kinds.h"

namespace lockstep::cli {
namespace {

using SeenJobs = std::vector<SeenJob>;

// A job's pods have at least so long, however many jobs there are: an answer through the API server
// of a distant cluster takes some tenths of a second.
constexpr Duration kLeastOfJob = std::chrono::seconds(1);

void SetRead(PodsRead read, SeenJob& seen) {
  seen.ranks = std::move(read.ranks);
  seen.top.unread = std::move(read.unread);
}

// Takes from `left` the time in which the job's pods were read, which is at most `most`.
absl::StatusOr<SeenJob> SeeJob(kube::RestClient& client, const api::TrainingJob& job, Duration most,
                               Duration& left) {
  SeenJob seen;
  seen.top.namespace_name = job.metadata.namespace_name;
  seen.top.name = job.metadata.name;
  seen.top.state = StateName(job.status);
  seen.top.ready = job.status.ready_replicas;
  seen.over = api::IsTerminal(job.status);
  if (!seen.over) {
    LOCKSTEP_ASSIGN_OR_RETURN(PodsRead read, ReadTrainerPods(client, job, most));
    left -= std::min(left, read.took);
    SetRead(std::move(read), seen);
  }
  SetProgress(seen.ranks, job.status, seen.top);
  if (seen.over) seen.top.remaining_seconds.reset();  // whatever its last report said
  return seen;
}

// Every rank's metrics at the look before, by namespace and job.
using Before = std::map<std::pair<std::string, std::string>, std::vector<RankMetrics>>;

void SetTimes(SeenJobs& jobs, Before& before) {
  Before now;
  for (SeenJob& job : jobs) {
    const std::pair key(job.top.namespace_name, job.top.name);
    job.top.times = TimesBetween(before[key], job.ranks);
    now[key] = job.ranks;
  }
  before = std::move(now);
}

std::string TextOf(const TopOptions& options, const SeenJobs& jobs) {
  std::string text;
  if (options.output == "json") {
    for (const SeenJob& job : jobs) text += AsciiJson(ToJson(job.top)) + '\n';
    return text;
  }
  if (!options.job.empty() || !options.work_dir.empty()) return TopOfJob(jobs.front().top);
  if (jobs.empty()) return "No TrainingJobs with the bundled trainer are running.\n";
  std::vector<JobTop> tops;
  for (const SeenJob& job : jobs) tops.push_back(job.top);
  return TopTable(tops);
}

absl::Status WasRead(const SeenJobs& jobs) {
  for (const SeenJob& job : jobs) {
    if (job.ranks.empty() && !job.top.unread.empty()) {
      return absl::UnavailableError(
          fmt::format("job {}: no replica's metrics could be read", job.top.name));
    }
  }
  return absl::OkStatus();
}

bool AllAreOver(const SeenJobs& jobs) {
  return std::ranges::all_of(jobs, [](const SeenJob& job) { return job.over; });
}

// Returns LookAtRun, which tells once a run was seen that it has ended.
std::function<absl::StatusOr<SeenJobs>()> LookAtRunToItsEnd(const std::string& work_dir) {
  return [&work_dir, was_seen = false]() mutable -> absl::StatusOr<SeenJobs> {
    absl::StatusOr<SeenJobs> seen = LookAtRun(work_dir);
    if (!seen.ok() && was_seen) {
      return SeenJobs{{.top = {.name = work_dir, .state = "Ended"}, .over = true}};
    }
    was_seen = true;
    return seen;
  };
}

}  // namespace

CLI::App* AddTopCommand(CLI::App& app, TopOptions& options) {
  CLI::App* command = app.add_subcommand(
      "top", "Show what the replicas of TrainingJobs spend their time on: input, compute, …");
  command->add_option("JOB", options.job, "Show this job only, and each of its replicas")
      ->type_name(kJobType);
  CLI::Option* work_dir =
      command
          ->add_option("--work-dir", options.work_dir,
                       "Show the `lockstep run` that uses this folder on this machine, and no "
                       "cluster's jobs")
          ->type_name(kFolderType);
  command->add_option("--interval", options.interval, "Seconds from one look to the next [2]")
      ->check(CLI::Range(1.0, 3600.0))
      ->type_name("SECONDS");
  command->add_flag("--once", options.once, "Show one interval, and end");
  AddOutputOption(*command, options.output, {"text", "json"},
                  "text, or json: a line with an object for each job and interval");
  AddClusterOptions(*command, options.cluster);
  for (const char* name : {"JOB", "--kubeconfig", "--context", "--namespace"}) {
    work_dir->excludes(command->get_option(name));
  }
  return command;
}

absl::StatusOr<SeenJobs> LookAtCluster(kube::RestClient& client, const std::string& namespace_name,
                                       const std::string& job, Duration most) {
  std::vector<api::TrainingJob> jobs;
  if (!job.empty()) {
    LOCKSTEP_ASSIGN_OR_RETURN(const kube::Object object,
                              client.Get(controller::kTrainingJobKind, {namespace_name, job}));
    jobs.push_back(controller::ObserveJob(object).job);
    if (!api::UsesBundledTrainer(jobs.front())) {
      return absl::FailedPreconditionError(
          fmt::format("job {} has no spec.training: only the bundled trainer serves the metrics "
                      "that `top` shows",
                      job));
    }
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
    const Duration part = std::max(left / static_cast<int>(jobs.size() - i), kLeastOfJob);
    LOCKSTEP_ASSIGN_OR_RETURN(SeenJob next, SeeJob(client, jobs[i], part, left));
    seen.push_back(std::move(next));
  }
  return seen;
}

absl::StatusOr<SeenJobs> LookAtRun(const std::string& work_dir) {
  LOCKSTEP_ASSIGN_OR_RETURN(const auto addresses, WorkDir::ReadMetricsAddresses(work_dir));
  SeenJob seen;
  seen.top.name = work_dir;
  seen.top.state = "Running";
  SetRead(ReadTrainerPods(addresses, kLookTime), seen);
  SetProgress(seen.ranks, {}, seen.top);
  return SeenJobs{std::move(seen)};
}

absl::Status ShowTop(const TopOptions& options,
                     const std::function<absl::StatusOr<SeenJobs>()>& look,
                     const std::function<bool()>& wait, std::FILE* out) {
  Screen screen(out, /*in_place=*/options.output == "text");
  Before before;
  LOCKSTEP_ASSIGN_OR_RETURN(SeenJobs jobs, look());
  SetTimes(jobs, before);
  if (screen.redraws() || AllAreOver(jobs)) screen.Show(TextOf(options, jobs));
  for (FailedLooks failed; !AllAreOver(jobs) && wait();) {
    absl::StatusOr<SeenJobs> next = look();
    if (failed.MayPass(next.status())) continue;
    if (!next.ok()) return next.status();
    jobs = *std::move(next);
    SetTimes(jobs, before);
    screen.Show(TextOf(options, jobs));
    if (options.once) return WasRead(jobs);
  }
  return absl::OkStatus();
}

ExitCode RunTop(const TopOptions& options) {
  const auto show = [&options](const std::function<absl::StatusOr<SeenJobs>()>& look) {
    const auto wait = [&options] {
      std::this_thread::sleep_for(std::chrono::duration<double>(options.interval));
      return true;  // Ctrl-C ends the program at any time
    };
    const absl::Status shown = ShowTop(options, look, wait, stdout);
    return shown.ok() ? kExitDone : FailOnCluster(kExitNoTimes, shown);
  };
  if (!options.work_dir.empty()) return show(LookAtRunToItsEnd(options.work_dir));
  const auto access = ReachCluster(options.cluster);
  if (!access.ok()) return FailOnCluster(kExitUsage, access.status());
  return show([&] { return LookAtCluster(*access->client, access->namespace_name, options.job); });
}

}  // namespace lockstep::cli
