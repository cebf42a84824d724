#include "operator/cli/suspend_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <thread>

#include "api/v1/conditions.h"
#include "base/json_text.h"
#include "base/printable.h"
#include "base/status.h"
#include "operator/cli/cluster/cluster_access.h"
#include "operator/cli/fail.h"
#include "operator/cli/text/job_table.h"
#include "operator/controller/children/kueue.h"
#include "operator/controller/observe_job.h"
#include "operator/controller/state/kinds.h"
#include "operator/kube/change_object.h"

namespace lockstep::cli {
namespace {

constexpr Duration kPatience = std::chrono::seconds(30);
constexpr Duration kInterval = std::chrono::milliseconds(500);

ExitCode RunSetSuspend(const SuspendOptions& options, bool suspend) {
  const auto access = ReachCluster(options.cluster);
  if (!access.ok()) return FailOnCluster(kExitUsage, access.status());
  const kube::Key key{access->namespace_name, options.job};
  if (!suspend && !AwaitNoticed(*access->client, key, kPatience, kInterval)) {
    fmt::print(
        stderr,
        "the operator has not noticed in 30 s that job {} was suspended: it may keep its pods "
        "as they are\n",
        Printable(options.job));
  }
  const auto report = SetSuspend(*access->client, key, suspend);
  if (!report.ok()) return FailOnCluster(kExitNoAnswer, report.status());
  fmt::print("{}\n", Printable(report->text));
  if (!report->note.empty()) fmt::print(stderr, "{}\n", Printable(report->note));
  return kExitDone;
}

std::string NoteOn(const api::TrainingJob& job) {
  if (api::IsTerminal(job.status)) {
    return fmt::format("job {} has ended ({}): suspend is without effect", job.metadata.name,
                       StateName(job.status));
  }
  const std::string queue = controller::QueueName(job);
  if (queue.empty()) return "";
  return fmt::format(
      "job {} is in the queue {}: if the operator uses Kueue, the queue decides when the job runs, "
      "and suspend follows its decision",
      job.metadata.name, queue);
}

}  // namespace

CLI::App* AddSuspendCommand(CLI::App& app, SuspendOptions& options) {
  CLI::App* command =
      app.add_subcommand("suspend", "Stop the pods of a TrainingJob until it is resumed");
  AddJobArgument(*command, options.job)->required();
  AddClusterOptions(*command, options.cluster);
  return command;
}

CLI::App* AddResumeCommand(CLI::App& app, SuspendOptions& options) {
  CLI::App* command =
      app.add_subcommand("resume", "Start the pods of a suspended TrainingJob again");
  AddJobArgument(*command, options.job)->required();
  AddClusterOptions(*command, options.cluster);
  return command;
}

bool AwaitNoticed(kube::Client& client, const kube::Key& job, Duration patience,
                  Duration interval) {
  const auto end = std::chrono::steady_clock::now() + patience;
  while (true) {
    const auto object = client.Get(controller::kTrainingJobKind, job);
    if (!object.ok()) return true;  // whoever writes the job will say why
    const api::TrainingJob found = controller::ObserveJob(*object).job;
    const api::TrainingJobStatus& status = found.status;
    const bool may_have_pods =
        api::FindCondition(status, api::kCreated) != nullptr && !api::IsTerminal(status);
    const bool is_noticed = api::IsTrue(status, api::kSuspended);
    if (!found.spec.suspend || !may_have_pods || is_noticed) return true;
    if (std::chrono::steady_clock::now() >= end) return false;
    std::this_thread::sleep_for(interval);
  }
}

absl::StatusOr<SuspendReport> SetSuspend(kube::Client& client, const kube::Key& job, bool suspend) {
  SuspendReport report;
  LOCKSTEP_RETURN_IF_ERROR(
      kube::ChangeObject(client, controller::kTrainingJobKind, job, [&](kube::Object& object) {
        const kube::Object before = kube::Member(kube::Member(object, "spec"), "suspend");
        // Absent means false.
        const bool is_so = suspend ? before == true : before.is_null() || before == false;
        if (is_so) {
          report.text = fmt::format("job {}: suspend is already {}", job.name, suspend);
        } else {
          object["spec"]["suspend"] = suspend;
          report.text = fmt::format("job {}: suspend is now {}; it was {}", job.name, suspend,
                                    before.is_null() ? "absent" : JsonText(before));
        }
        report.note = NoteOn(controller::ObserveJob(object).job);
      }));
  return report;
}

ExitCode RunSuspend(const SuspendOptions& options) {
  return RunSetSuspend(options, true);
}

ExitCode RunResume(const SuspendOptions& options) {
  return RunSetSuspend(options, false);
}

}  // namespace lockstep::cli
