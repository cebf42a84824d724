#include "operator/cli/top_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "base/json_text.h"
#include "base/status.h"
#include "operator/cli/cluster/cluster_access.h"
#include "operator/cli/exit_codes.h"
#include "operator/cli/fail.h"
#include "operator/cli/text/screen.h"

namespace lockstep::cli {
namespace {

using SeenJobs = std::vector<SeenJob>;

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
  AddJobArgument(*command, options.job, "Show this job only, and each of its replicas");
  CLI::Option* work_dir =
      command
          ->add_option("--work-dir", options.work_dir,
                       "Show the `lockstep run` that uses this folder on this machine, and no "
                       "cluster's jobs")
          ->type_name(kFolderType);
  command
      ->add_option("--interval", options.interval,
                   "Seconds from one look to the next, 1 to 3600 [2]")
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

absl::Status ShowTop(const TopOptions& options,
                     const std::function<absl::StatusOr<SeenJobs>()>& look,
                     const std::function<bool()>& wait, std::FILE* out) {
  Screen screen(out, "--once", /*in_place=*/options.output == "text", /*repeats=*/true);
  RanksBefore before;
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
    if (!options.once) continue;
    screen.End();
    return WasRead(jobs);
  }
  screen.End();
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
