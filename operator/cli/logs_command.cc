#include "operator/cli/logs_command.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/printable.h"
#include "base/status.h"
#include "operator/cli/cluster/cluster_access.h"
#include "operator/cli/cluster/pod_state.h"
#include "operator/cli/exit_codes.h"
#include "operator/cli/fail.h"
#include "operator/cli/logs/log_printer.h"
#include "operator/cli/logs/merged_logs.h"
#include "operator/cli/text/job_table.h"
#include "operator/controller/children/addresses.h"
#include "operator/controller/observe_job.h"
#include "operator/controller/state/kinds.h"
#include "operator/controller/state/replicas.h"

namespace lockstep::cli {
namespace {

using controller::Replica;

using RoleCounts = std::map<api::Role, int>;

constexpr int kMaxCount = 1'000'000'000;  // of --index and --tail

// Counts the job's replicas by its spec or, if that is invalid, by its status.
RoleCounts CountsOf(const controller::ObservedJob& observed) {
  RoleCounts counts;
  if (observed.invalid) {
    for (const auto& [role, seen] : observed.job.status.replica_statuses) {
      counts[role] = seen.desired;
    }
    return counts;
  }
  for (const auto& [role, spec] : observed.job.spec.replica_specs) counts[role] = spec.replicas;
  return counts;
}

// "chief-0, worker-0 to worker-3"
std::string Describe(const RoleCounts& counts) {
  std::vector<std::string> roles;
  for (const auto& [role, count] : counts) {
    const std::string name(api::RoleName(role));
    if (count == 1) roles.push_back(name + "-0");
    if (count > 1) roles.push_back(fmt::format("{0}-0 to {0}-{1}", name, count - 1));
  }
  return roles.empty() ? "no replicas" : fmt::format("{}", fmt::join(roles, ", "));
}

absl::StatusOr<api::Role> ParseRole(const std::string& text) {
  if (const auto role = api::RoleFromName(text)) return *role;
  if (const auto key = api::RoleFromKey(text)) return *key;
  return absl::NotFoundError(
      fmt::format("--role: found \"{}\", expected chief, worker, ps or evaluator", text));
}

// The replica that the options name, and what is known of its job.
struct NamedReplica {
  controller::ObservedJob observed;
  Replica replica;
};

absl::StatusOr<Replica> ChooseReplica(const std::string& job, const RoleCounts& counts,
                                      const LogsOptions& options) {
  const auto count_of = [&counts](api::Role role) {
    const auto found = counts.find(role);
    return found == counts.end() ? 0 : found->second;
  };
  Replica replica{count_of(api::Role::kChief) > 0 ? api::Role::kChief : api::Role::kWorker, 0};
  if (!options.role.empty()) {
    LOCKSTEP_ASSIGN_OR_RETURN(replica.role, ParseRole(options.role));
  }
  replica.index = options.index;
  if (options.role.empty() && options.index > 0) replica.role = api::Role::kWorker;
  if (options.index < 0 || options.index >= count_of(replica.role)) {
    return absl::NotFoundError(fmt::format("job {} has no {}; it has: {}", job,
                                           controller::Describe(replica), Describe(counts)));
  }
  return replica;
}

absl::StatusOr<NamedReplica> FindReplica(kube::Client& client, const std::string& namespace_name,
                                         const LogsOptions& options) {
  LOCKSTEP_ASSIGN_OR_RETURN(const kube::Object object, client.Get(controller::kTrainingJobKind,
                                                                  {namespace_name, options.job}));
  NamedReplica named{controller::ObserveJob(object), {}};
  const RoleCounts counts = CountsOf(named.observed);
  if (named.observed.invalid && counts.empty()) {
    return absl::InvalidArgumentError(*named.observed.invalid);
  }
  LOCKSTEP_ASSIGN_OR_RETURN(named.replica, ChooseReplica(options.job, counts, options));
  return named;
}

// Reads a time as kubectl does, such as 1h30m or 1.5h, and also days. Nullopt: it is none.
std::optional<double> SecondsOf(std::string_view text) {
  static const auto* const kUnits = new std::map<std::string_view, double>{
      {"ms", 0.001}, {"s", 1}, {"m", 60}, {"h", 3600}, {"d", 86400}};
  constexpr std::string_view kDigits = "0123456789.";
  if (text.empty()) return std::nullopt;
  double seconds = 0;
  while (!text.empty()) {
    const std::string_view number = text.substr(0, text.find_first_not_of(kDigits));
    text.remove_prefix(number.size());
    const std::string_view unit = text.substr(0, text.find_first_of(kDigits));
    text.remove_prefix(unit.size());
    double count = 0;
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), count);
    const auto found = kUnits->find(unit);
    if (error != std::errc() || end != number.data() + number.size() || found == kUnits->end()) {
      return std::nullopt;
    }
    seconds += count * found->second;
  }
  return seconds;
}

// Replaces a time by its whole seconds. Returns what is wrong with it.
std::string ReplaceBySeconds(std::string& time) {
  const std::optional<double> seconds = SecondsOf(time);
  if (!seconds || *seconds <= 0 || *seconds > kMaxCount) {
    return fmt::format("found \"{}\", expected a time such as 30s, 10m, 1h30m or 1d",
                       Printable(time));
  }
  time = fmt::format("{:.0f}", std::ceil(*seconds));
  return "";
}

std::optional<std::chrono::seconds> SinceOf(const LogsOptions& options) {
  if (!options.since) return std::nullopt;
  return std::chrono::seconds(*options.since);
}

absl::Status PrintOne(const ClusterAccess& access, const LogsOptions& options,
                      const kube::PodLogOptions& asked) {
  LOCKSTEP_ASSIGN_OR_RETURN(const LogSource source,
                            FindLog(*access.client, access.namespace_name, options));
  kube::PodLogOptions log = asked;
  log.container = source.container;
  if (source.is_init) ReportInitLog(source.pod.name, source.container);
  LogPrinter printer(stdout);
  const absl::Status read = access.client->ReadPodLog(
      source.pod, log, {}, [&printer](const std::string& text) { printer.Print(text); });
  printer.End();
  return read;
}

// Pods and containers that replace the replica's are followed, too.
absl::Status FollowOne(const ClusterAccess& access, const LogsOptions& options,
                       const kube::PodLogOptions& log) {
  LOCKSTEP_ASSIGN_OR_RETURN(const NamedReplica named,
                            FindReplica(*access.client, access.namespace_name, options));
  const MergedLogsOptions merged{.role = named.replica.role,
                                 .index = named.replica.index,
                                 .timestamps = options.timestamps,
                                 .log = log};
  return PrintMergedLogs(*access.client, {access.namespace_name, options.job}, merged, stdout);
}

absl::Status PrintAll(const ClusterAccess& access, const LogsOptions& options,
                      const kube::PodLogOptions& log) {
  MergedLogsOptions merged{.role = {}, .index = {}, .timestamps = options.timestamps, .log = log};
  if (!options.role.empty()) {
    LOCKSTEP_ASSIGN_OR_RETURN(merged.role, ParseRole(options.role));
  }
  return PrintMergedLogs(*access.client, {access.namespace_name, options.job}, merged, stdout);
}

}  // namespace

CLI::App* AddLogsCommand(CLI::App& app, LogsOptions& options) {
  CLI::App* command =
      app.add_subcommand("logs", "Print the log of a TrainingJob's replica, or of all replicas");
  AddJobArgument(*command, options.job)->required();
  command
      ->add_option("--role", options.role,
                   "The replica's role [the leading replica's, or worker if --index > 0; with "
                   "--all, every role]")
      ->type_name("chief|worker|ps|evaluator");
  CLI::Option* index =
      command->add_option("--index", options.index, "The replica's index within its role [0]")
          ->check(CLI::Range(0, kMaxCount));
  command
      ->add_flag("-a,--all", options.all,
                 "Print the logs of all replicas, or of all of --role, as one: each line with the "
                 "name of its replica, in the order of the lines' times")
      ->excludes(index);
  command
      ->add_option("-c,--container", options.container,
                   "The container [the main one, whose exit code decides the pod's outcome, or the "
                   "init container that has failed before it]")
      ->type_name("NAME");
  command->add_option("--tail", options.tail, "Print only this many of the last lines")
      ->check(CLI::Range(0, kMaxCount));
  command
      ->add_option("--since", options.since,
                   "Print only lines that are at most this old, for example 30s, 10m, 1h30m or 1d")
      ->type_name("TIME")
      ->transform(CLI::Validator(ReplaceBySeconds, ""));
  command->add_flag("--timestamps", options.timestamps, "Print each line's time before it");
  CLI::Option* follow = command->add_flag(
      "-f,--follow", options.follow,
      "Print new lines as they come, until the job and its containers have ended; also those of "
      "containers that start later");
  command
      ->add_flag("-p,--previous", options.previous,
                 "Print the log from before the container's last restart")
      ->excludes(follow);
  AddClusterOptions(*command, options.cluster);
  return command;
}

absl::StatusOr<LogSource> FindLog(kube::Client& client, const std::string& namespace_name,
                                  const LogsOptions& options) {
  LOCKSTEP_ASSIGN_OR_RETURN(const NamedReplica named, FindReplica(client, namespace_name, options));
  const auto& [observed, replica] = named;
  const kube::Key key{namespace_name,
                      controller::PodName(observed.job, replica.role, replica.index)};
  const auto pod = client.Get(kube::kPodKind, key);
  if (absl::IsNotFound(pod.status()) && observed.invalid) {
    return absl::NotFoundError(fmt::format(
        "pod {} does not exist, and the job's spec is invalid: {}", key.name, *observed.invalid));
  }
  if (absl::IsNotFound(pod.status())) {
    return absl::NotFoundError(fmt::format(
        "pod {} does not exist: the job is {}, and runPolicy.cleanPodPolicy may have deleted the "
        "pod",
        key.name, StateName(observed.job.status)));
  }
  if (!pod.ok()) return pod.status();
  if (!options.container.empty()) return LogSource{key, options.container};
  return LogSource{key, ContainerToBlame(*pod), !InitContainerToBlame(*pod).empty()};
}

ExitCode RunLogs(const LogsOptions& options) {
  const auto access = ReachCluster(options.cluster);
  if (!access.ok()) return FailOnCluster(kExitUsage, access.status());
  const kube::PodLogOptions log{.container = options.container,
                                .follow = options.follow,
                                .previous = options.previous,
                                .tail_lines = options.tail,
                                .since = SinceOf(options),
                                .timestamps = options.timestamps};
  const auto print = options.all ? PrintAll : options.follow ? FollowOne : PrintOne;
  const absl::Status printed = print(*access, options, log);
  return printed.ok() ? kExitDone : FailOnCluster(kExitNoLog, printed);
}

}  // namespace lockstep::cli
