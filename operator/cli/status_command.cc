#include "operator/cli/status_command.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "api/v1/conditions.h"
#include "api/v1/yaml.h"
#include "base/json_text.h"
#include "base/status.h"
#include "operator/cli/cluster/cluster_access.h"
#include "operator/cli/exit_codes.h"
#include "operator/cli/fail.h"
#include "operator/cli/text/console.h"
#include "operator/cli/text/job_table.h"
#include "operator/cli/text/screen.h"
#include "operator/controller/observe_job.h"
#include "operator/controller/state/kinds.h"

namespace lockstep::cli {
namespace {

using Jobs = std::vector<api::TrainingJob>;

constexpr Duration kPollPeriod = std::chrono::seconds(2);

// An invalid job is still shown, as the operator reports it.
api::TrainingJob ReadJob(const kube::Object& object) {
  return controller::ObserveJob(object).job;
}

// `namespace_name` is empty for all namespaces, here and below; `name` is empty for all jobs.
absl::StatusOr<Jobs> ReadJobs(kube::Client& client, const std::string& namespace_name,
                              const std::string& name) {
  Jobs jobs;
  if (!name.empty()) {
    LOCKSTEP_ASSIGN_OR_RETURN(const kube::Object object,
                              client.Get(controller::kTrainingJobKind, {namespace_name, name}));
    jobs.push_back(ReadJob(object));
    return jobs;
  }
  LOCKSTEP_RETURN_IF_ERROR(
      ForEachListed(client, controller::kTrainingJobKind, {.namespace_name = namespace_name},
                    [&](const kube::Object& object) { jobs.push_back(ReadJob(object)); }));
  std::ranges::sort(jobs, {}, [](const api::TrainingJob& job) {
    return std::tuple(job.metadata.namespace_name, job.metadata.name);
  });
  return jobs;
}

bool IsForPrograms(const StatusOptions& options) {
  return options.output == "json" || options.output == "yaml";
}

// Ends with a line feed.
std::string Document(const Jobs& jobs, const std::string& format) {
  using Json = nlohmann::ordered_json;
  Json list = Json::array();
  for (const api::TrainingJob& job : jobs) {
    const auto object = api::TrainingJobToJson(job);
    list.push_back(
        {{"namespace", job.metadata.namespace_name},
         {"name", job.metadata.name},
         {"status", object.contains("status") ? Json(object.at("status")) : Json::object()}});
  }
  const Json document = {{"jobs", std::move(list)}};
  return format == "json" ? AsciiJson(document) + '\n' : "---\n" + api::ToYaml(document);
}

std::string Table(const Jobs& jobs, const std::string& namespace_name, bool wide, Time now,
                  std::FILE* out) {
  if (jobs.empty()) {
    return namespace_name.empty()
               ? "No TrainingJobs.\n"
               : fmt::format("No TrainingJobs in namespace {}.\n", namespace_name);
  }
  const bool terminal = isatty(fileno(out)) != 0;
  return JobTable(jobs, now,
                  {.namespaces = namespace_name.empty(),
                   .wide = wide,
                   .bars = terminal,
                   .width = terminal ? TerminalColumns(out) : 0});
}

bool HaveEnded(const Jobs& jobs) {
  return std::ranges::all_of(
      jobs, [](const api::TrainingJob& job) { return api::IsTerminal(job.status); });
}

std::set<std::string> UidsOfEnded(const Jobs& jobs) {
  std::set<std::string> uids;
  for (const api::TrainingJob& job : jobs) {
    if (api::IsTerminal(job.status)) uids.insert(job.metadata.uid);
  }
  return uids;
}

// Returns Aborted, naming the jobs that have failed, if there are any whose uid is not in `but`.
absl::Status NoneFailed(const Jobs& jobs, const std::set<std::string>& but) {
  std::vector<std::string> failed;
  for (const api::TrainingJob& job : jobs) {
    const api::Condition* condition = api::FindCondition(job.status, api::kFailed);
    if (!api::IsTrue(job.status, api::kFailed) || but.contains(job.metadata.uid)) continue;
    failed.push_back(fmt::format("job {} failed: {}", job.metadata.name, condition->reason));
  }
  if (failed.empty()) return absl::OkStatus();
  return absl::AbortedError(fmt::format("{}", fmt::join(failed, "; ")));
}

}  // namespace

CLI::App* AddStatusCommand(CLI::App& app, StatusOptions& options) {
  CLI::App* command =
      app.add_subcommand("status", "Show the TrainingJobs of a cluster and their progress");
  CLI::Option* job = AddJobArgument(*command, options.job, "Show this job only, in more detail");
  AddClusterOptions(*command, options.cluster);
  command
      ->add_flag("-A,--all-namespaces", options.all_namespaces, "Show the jobs of all namespaces")
      ->excludes(job);
  command->add_flag_function(
      "-w,--watch,!--no-watch", [&options](std::int64_t count) { options.watch = count > 0; },
      "Keep the table up to date until all jobs have ended [if text goes to a terminal]");
  AddOutputOption(
      *command, options.output, {"text", "wide", "json", "yaml"},
      "wide: text with more columns; json, yaml: the jobs with their status, with --watch "
      "again whenever it differs");
  return command;
}

absl::Status ShowStatus(kube::Client& client, const std::string& namespace_name,
                        const StatusOptions& options, const Clock& clock, std::FILE* out,
                        const std::function<bool()>& wait) {
  const std::string space = options.all_namespaces ? "" : namespace_name;
  const bool document = IsForPrograms(options);
  const bool watch = options.watch.value_or(!document && isatty(fileno(out)) != 0);
  Screen screen(out, "--no-watch", /*in_place=*/watch && !document);
  const auto show = [&](const Jobs& jobs) {
    if (document) return screen.Show(Document(jobs, options.output));
    std::string text = Table(jobs, space, options.output == "wide", clock.Now(), out);
    if (!options.job.empty()) text += JobDetails(jobs.front());
    screen.Show(text);
  };
  LOCKSTEP_ASSIGN_OR_RETURN(Jobs jobs, ReadJobs(client, space, options.job));
  show(jobs);
  if (!watch) return absl::OkStatus();
  const std::set<std::string> ended_before =
      options.job.empty() ? UidsOfEnded(jobs) : std::set<std::string>();
  for (FailedLooks failed; !HaveEnded(jobs);) {
    if (!wait()) return absl::OkStatus();
    absl::StatusOr<Jobs> next = ReadJobs(client, space, options.job);
    if (failed.MayPass(next.status())) continue;
    if (!next.ok()) return next.status();
    jobs = *std::move(next);
    show(jobs);
  }
  screen.End();
  return NoneFailed(jobs, ended_before);
}

ExitCode RunStatus(const StatusOptions& options) {
  const auto access = ReachCluster(options.cluster);
  if (!access.ok()) return FailOnCluster(kExitUsage, access.status());
  const SystemClock clock;
  const absl::Status shown =
      ShowStatus(*access->client, access->namespace_name, options, clock, stdout, [] {
        std::this_thread::sleep_for(kPollPeriod);  // Ctrl-C ends the program at any time
        return true;
      });
  if (shown.ok()) return kExitDone;
  return FailOnCluster(absl::IsAborted(shown) ? kExitJobFailed : kExitNoAnswer, shown);
}

}  // namespace lockstep::cli
