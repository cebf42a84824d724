#include "operator/cli/describe_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <set>
#include <stop_token>
#include <utility>
#include <vector>

#include "api/v1/names.h"
#include "api/v1/yaml.h"
#include "base/json_text.h"
#include "base/rfc3339.h"
#include "base/status.h"
#include "operator/cli/cluster/cluster_access.h"
#include "operator/cli/cluster/job_pods.h"
#include "operator/cli/cluster/pod_state.h"
#include "operator/cli/exit_codes.h"
#include "operator/cli/fail.h"
#include "operator/cli/text/job_description.h"
#include "operator/controller/children/addresses.h"
#include "operator/controller/observe_job.h"
#include "operator/controller/state/kinds.h"
#include "operator/controller/state/main_container.h"
#include "operator/controller/state/replicas.h"
#include "operator/kube/rest/timer_thread.h"

namespace lockstep::cli {
namespace {

using kube::Object;

constexpr int kMostTail = 100'000;

// Of the job, and of pods by their names, since pods that are gone have events too. Those of an
// earlier job of the same name are older than this one.
absl::StatusOr<std::vector<Object>> ReadEvents(kube::Client& client, const JobFacts& facts) {
  const api::TrainingJob& job = facts.job;
  std::set<std::string> pods;
  for (const Object& pod : facts.pods) pods.insert(kube::Name(pod));
  for (const controller::Replica& replica : controller::AllReplicas(job)) {
    pods.insert(controller::PodName(job, replica.role, replica.index));
  }
  const auto is_of_job = [&](const Object& event) {
    const Object& regarding = kube::Member(event, "involvedObject");
    if (kube::TextMember(regarding, "uid") == job.metadata.uid) return true;
    if (kube::TextMember(regarding, "kind") != kube::kPodKind.kind) return false;
    const auto created =
        ParseRfc3339(kube::TextMember(kube::Member(event, "metadata"), "creationTimestamp"));
    return pods.contains(kube::TextMember(regarding, "name")) &&
           !(created && job.metadata.creation_time && *created < *job.metadata.creation_time);
  };
  std::vector<Object> events;
  LOCKSTEP_RETURN_IF_ERROR(ForEachListed(client, kube::kCoreEventKind,
                                         {.namespace_name = job.metadata.namespace_name},
                                         [&](const Object& event) {
                                           if (is_of_job(event)) events.push_back(event);
                                         }));
  return events;
}

// Of the pods with a failure to show, that of the replica that the status blames, else the first;
// null: none. The failure in the status may be long past, and the pod a healthy successor.
const Object* PodToBlame(const JobFacts& facts) {
  const std::optional<api::Failure>& failure = facts.job.status.failure;
  const auto has_failure = [](const Object& pod) {
    return IsInTrouble(pod) || KubeletRestarts(pod) > 0;
  };
  const auto is_blamed = [&](const Object& pod) {
    return failure && has_failure(pod) && kube::Label(pod, api::kLabelRole) == failure->role &&
           kube::Label(pod, api::kLabelReplicaIndex) == std::to_string(failure->index);
  };
  auto found = std::ranges::find_if(facts.pods, is_blamed);
  if (found == facts.pods.end()) found = std::ranges::find_if(facts.pods, IsInTrouble);
  if (found == facts.pods.end()) found = std::ranges::find_if(facts.pods, has_failure);
  return found == facts.pods.end() ? nullptr : &*found;
}

// A container that was restarted, and has not failed again, has told its trouble before.
std::optional<ReplicaLog> ReadLog(const JobFacts& facts, const LogReader& read_log) {
  const Object* pod = PodToBlame(facts);
  if (pod == nullptr) return std::nullopt;
  ReplicaLog log{.replica = ReplicaName(*pod), .text = {}, .error = {}};
  const bool previous = KubeletRestarts(*pod) > 0 && !MainHasEnded(*pod);
  absl::StatusOr<std::string> text =
      read_log(kube::KeyOf(*pod), controller::MainContainerName(*pod), previous);
  if (!text.ok()) {
    log.error = std::string(text.status().message());
    return log;
  }
  log.text = *std::move(text);
  if (!log.text.empty() && !log.text.ends_with('\n')) log.text += '\n';
  return log;
}

}  // namespace

CLI::App* AddDescribeCommand(CLI::App& app, DescribeOptions& options) {
  CLI::App* command = app.add_subcommand(
      "describe", "Explain a TrainingJob: what it waits for, why it failed, its replicas, events");
  AddJobArgument(*command, options.job);
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
  LOCKSTEP_ASSIGN_OR_RETURN(const Object object, client.Get(controller::kTrainingJobKind, job));
  const controller::ObservedJob observed = controller::ObserveJob(object);
  JobFacts facts{.job = observed.job,
                 .invalid = observed.invalid.value_or(""),
                 .pods = {},
                 .events = {},
                 .events_error = {},
                 .log = {}};
  LOCKSTEP_ASSIGN_OR_RETURN(facts.pods, ReadPods(client, facts.job));
  absl::StatusOr<std::vector<Object>> events = ReadEvents(client, facts);
  if (events.ok()) {
    facts.events = *std::move(events);
  } else {
    facts.events_error = std::string(events.status().message());
  }
  facts.log = ReadLog(facts, read_log);
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
