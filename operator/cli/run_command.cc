#include "operator/cli/run_command.h"

#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <set>
#include <system_error>
#include <utility>

#include "api/base/log.h"
#include "api/base/status.h"
#include "api/v1/names.h"
#include "operator/cli/console.h"
#include "operator/cli/inbox.h"
#include "operator/cli/job_file.h"
#include "operator/cli/local_run.h"
#include "operator/cli/progress_line.h"
#include "operator/cli/run_report.h"
#include "operator/cli/work_dir.h"
#include "operator/local/guardian.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;

absl::StatusOr<std::map<std::string, std::string>> ParseVolumes(
    const std::vector<std::string>& volumes) {
  std::map<std::string, std::string> folders;
  for (const std::string& volume : volumes) {
    const std::size_t equals = volume.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == volume.size()) {
      return absl::InvalidArgumentError(
          fmt::format("--volume {}: expected NAME=PATH, like data=/srv/mnist", volume));
    }
    const fs::path path = volume.substr(equals + 1);
    if (!fs::exists(path)) {
      return absl::InvalidArgumentError(
          fmt::format("--volume {}: {} does not exist", volume, path.string()));
    }
    folders[volume.substr(0, equals)] = fs::absolute(path).lexically_normal().string();
  }
  return folders;
}

// The newest complete checkpoint: the folder of the manifest that was written last.
std::string NewestCheckpoint(const std::string& folder) {
  std::string newest;
  fs::file_time_type at;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    const fs::path manifest = entry.path() / "manifest.json";
    const fs::file_time_type written = fs::last_write_time(manifest, error);
    if (error || (!newest.empty() && written <= at)) continue;
    newest = entry.path().string();
    at = written;
  }
  return newest;
}

// Drives one run: what to say about each message, and when it is over.
class Session {
 public:
  Session(const RunCommandOptions& options, const JobFile& file, const WorkDir& work_dir,
          LocalRun& run, Inbox& inbox, const Clock& clock)
      : options_(options),
        file_(file),
        work_dir_(work_dir),
        run_(run),
        inbox_(inbox),
        clock_(clock),
        console_(stdout, clock, options.json),
        start_(clock.SteadyNow()) {
    if (options.timeout_seconds) {
      deadline_ = start_ + std::chrono::duration_cast<Duration>(
                               std::chrono::duration<double>(*options.timeout_seconds));
    }
  }

  Console& console() { return console_; }

  RunReport Run() {
    while (!pods_stopped_) {
      const std::vector<Message> messages = inbox_.Wait(stopping_ ? std::nullopt : deadline_);
      if (messages.empty() && !stopping_) Stop(RunReport::End::kTimedOut);
      for (const Message& message : messages) {
        std::visit([this](const auto& m) { On(m); }, message);
      }
    }
    console_.EndProgress();
    return Report();
  }

 private:
  void On(const JobChanged& change) {
    if (change.deleted) {  // by its time to live; the last status stands
      if (!stopping_) Stop(RunReport::End::kFinished);
      return;
    }
    const absl::StatusOr<api::TrainingJob> job = api::TrainingJobFromJson(change.job);
    if (!job.ok()) {
      console_.Warn(std::string(job.status().message()));
      return;
    }
    status_ = job->status;
    if (status_.progress) console_.Progress(ProgressLine(*status_.progress));
    const bool over = status_.state == "Succeeded" || status_.state == "Failed";
    if (over && !stopping_) Stop(RunReport::End::kFinished);
  }

  void On(const EventSeen& seen) {
    // An event that repeats counts up the same object.
    const bool warning = seen.event.value("type", "") == "Warning";
    console_.Note(fmt::format("{}{}: {}", warning ? "! " : "", seen.event.value("reason", ""),
                              seen.event.value("note", "")));
  }

  void On(const PodsStopped&) { pods_stopped_ = true; }

  void On(const SignalReceived&) {
    if (std::exchange(signalled_, true)) {
      console_.Note("killing all pods");
      run_.Kill();
      return;
    }
    console_.Note("stopping: pods get their grace period to save; once more kills them");
    Stop(RunReport::End::kInterrupted);
  }

  void Stop(RunReport::End end) {
    if (std::exchange(stopping_, true)) return;
    end_ = end;
    if (end == RunReport::End::kTimedOut) console_.Warn("time is up: stopping");
    run_.Stop();
  }

  RunReport Report() {
    RunReport report;
    report.end = end_;
    report.status = status_;
    report.seconds = std::chrono::duration<double>(clock_.SteadyNow() - start_).count();
    report.work_dir = work_dir_.shown();
    report.logs = work_dir_.shown() + "/logs";
    if (file_.job.spec.training) {
      const api::TrainingSpec& training = *file_.job.spec.training;
      // A run that was cut short has no reconcile any more that would have noted it.
      if (const auto last = run_.LastWord()) report.status.progress = last;
      if (!training.checkpoint.directory.empty()) {
        report.checkpoint =
            Shown(NewestCheckpoint(run_.OnThisMachine(training.checkpoint.directory)));
      }
      const std::string summaries = run_.OnThisMachine(training.summaries.directory);
      if (!summaries.empty() && fs::exists(summaries)) report.summaries = Shown(summaries);
    }
    return report;
  }

  // Relative to where the user is, if it lies in the work directory as they wrote it.
  std::string Shown(const std::string& path) const {
    if (!path.starts_with(work_dir_.path() + "/")) return path;
    return work_dir_.shown() + path.substr(work_dir_.path().size());
  }

  const RunCommandOptions& options_;
  const JobFile& file_;
  const WorkDir& work_dir_;
  LocalRun& run_;
  Inbox& inbox_;
  const Clock& clock_;
  Console console_;
  const SteadyTime start_;
  std::optional<SteadyTime> deadline_;
  api::TrainingJobStatus status_;
  RunReport::End end_ = RunReport::End::kFinished;
  bool stopping_ = false, signalled_ = false, pods_stopped_ = false;
};

absl::StatusOr<RunReport> RunToEnd(const RunCommandOptions& options) {
  LOCKSTEP_ASSIGN_OR_RETURN(const JobFile file, LoadJobFile(options.file, options.sets));
  if (file.job.spec.suspend) {
    return absl::InvalidArgumentError(
        fmt::format("{}: spec.suspend: found true, so nothing would run", options.file));
  }
  LocalRunOptions run_options;
  LOCKSTEP_ASSIGN_OR_RETURN(run_options.volumes, ParseVolumes(options.volumes));
  LOCKSTEP_ASSIGN_OR_RETURN(const WorkDir work_dir,
                            WorkDir::Open(options.work_dir, file.job.metadata.name));
  run_options.work_dir = work_dir.path();
  work_dir.RemoveReport();
  run_options.mark = local::MarkOfThisRun();
  const local::Guardian guardian(run_options.mark);
  const SystemClock clock;
  Inbox inbox;
  LOCKSTEP_ASSIGN_OR_RETURN(const auto run, LocalRun::Start(file, run_options, inbox, clock));
  Session session(options, file, work_dir, *run, inbox, clock);
  session.console().Note(
      fmt::format("job {} in {}{}", file.job.metadata.name, work_dir.shown(),
                  work_dir.skipped().empty() ? "" : fmt::format(": {}", work_dir.skipped())));
  RunReport report = session.Run();
  const absl::Status written = work_dir.WriteReport(ToJson(report).dump());
  if (!written.ok()) session.console().Warn(std::string(written.message()));
  return report;
}

}  // namespace

int RunJob(const RunCommandOptions& options) {
  SetLogLevel(LogLevel::kWarning);  // what the reconciles say is said in events
  const absl::StatusOr<RunReport> report = RunToEnd(options);
  if (!report.ok()) {
    fmt::print(stderr, "{}\n", std::string(report.status().message()));
    return api::kExitUsage;
  }
  if (options.json) {
    fmt::print("{}\n", ToJson(*report).dump());
  } else {
    fmt::print("{}", ToText(*report));
  }
  return ExitCode(*report);
}

}  // namespace lockstep::cli
