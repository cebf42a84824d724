#include "operator/cli/describe_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <stop_token>

#include "api/v1/yaml.h"
#include "base/json_text.h"
#include "base/status.h"
#include "operator/cli/cluster/cluster_access.h"
#include "operator/cli/exit_codes.h"
#include "operator/cli/fail.h"
#include "operator/cli/text/job_description.h"
#include "operator/kube/rest/timer_thread.h"

namespace lockstep::cli {
namespace {

constexpr int kMostTail = 100'000;

}  // namespace

CLI::App* AddDescribeCommand(CLI::App& app, DescribeOptions& options) {
  CLI::App* command = app.add_subcommand(
      "describe", "Explain a TrainingJob: what it waits for, why it failed, its replicas, events");
  AddJobArgument(*command, options.job)->required();
  command
      ->add_option("--tail", options.tail,
                   "Print this many of the last lines of the log of the "
                   "replica that failed or was restarted [10]")
      ->check(CLI::Range(1, kMostTail));
  AddClusterOptions(*command, options.cluster);
  AddOutputOption(*command, options.output, {"text", "json", "yaml"},
                  "json, yaml: one object, with every replica and event");
  return command;
}

absl::StatusOr<std::string> Describe(kube::Client& client, const kube::Key& job, const Clock& clock,
                                     const LogReader& read_log, const std::string& output) {
  LOCKSTEP_ASSIGN_OR_RETURN(JobFacts facts, ReadJobFacts(client, job));
  ReadEvents(client, facts);
  ReadLogToBlame(read_log, facts);
  if (output == "json") return AsciiJson(JobDocument(facts)) + '\n';
  if (output == "yaml") return api::ToYaml(JobDocument(facts));
  return DescribeJob(facts, clock.Now());
}

ExitCode RunDescribe(const DescribeOptions& options) {
  const auto access = ReachCluster(options.cluster);
  if (!access.ok()) return FailOnCluster(kExitUsage, access.status());
  const SystemClock clock;
  kube::TimerThread timer;
  const LogReader read_log = [&](const kube::Key& pod, const std::string& container,
                                 bool previous) -> absl::StatusOr<std::string> {
    std::string text;
    std::stop_source limit;
    timer.Set(clock.SteadyNow() + options.patience, [limit]() mutable { limit.request_stop(); });
    LOCKSTEP_RETURN_IF_ERROR(access->client->ReadPodLog(
        pod, {.container = container, .previous = previous, .tail_lines = options.tail},
        limit.get_token(), [&text](const std::string& piece) { text += piece; }));
    if (!limit.stop_requested()) return text;
    return absl::DeadlineExceededError(
        fmt::format("found no end of the log within {:.0f} s: its node may not answer",
                    std::chrono::duration<double>(options.patience).count()));
  };
  const auto text = Describe(*access->client, {access->namespace_name, options.job}, clock,
                             read_log, options.output);
  if (!text.ok()) return FailOnCluster(kExitNoAnswer, text.status());
  fmt::print("{}", *text);
  return kExitDone;
}

}  // namespace lockstep::cli
