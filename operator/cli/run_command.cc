#include "operator/cli/run_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "absl/strings/str_replace.h"
#include "api/v1/conditions.h"
#include "api/v1/defaults.h"
#include "api/v1/evaluation_numbers.h"
#include "api/v1/strategy_traits.h"
#include "base/json_text.h"
#include "base/log.h"
#include "base/signal_fd.h"
#include "base/status.h"
#include "operator/cli/exit_codes.h"
#include "operator/cli/fail.h"
#include "operator/cli/files/job_file.h"
#include "operator/cli/local/inbox.h"
#include "operator/cli/local/local_run.h"
#include "operator/cli/local/newest_checkpoint.h"
#include "operator/cli/local/run_report.h"
#include "operator/cli/local/wait_line.h"
#include "operator/cli/local/work_dir.h"
#include "operator/cli/text/console.h"
#include "operator/cli/text/curve.h"
#include "operator/cli/text/progress_line.h"
#include "operator/controller/rules/parts/pending_reason.h"
#include "operator/local/guardian.h"
#include "operator/local/plain_links.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;

constexpr Duration kLookPeriod = std::chrono::seconds(1);
constexpr Duration kViewPeriod = std::chrono::seconds(1);

// Returns the last line of a program's last words that has something in it. A progress
// bar rewrites its line after each \r, so a line also begins there.
std::string LastLine(std::string_view words) {
  constexpr std::string_view kSpaces = " \t\r\n";
  const std::size_t last = words.find_last_not_of(kSpaces);
  if (last == std::string_view::npos) return "";
  words = words.substr(0, last + 1);
  words.remove_prefix(words.find_last_of("\r\n") + 1);  // npos + 1 is 0
  return std::string(words);
}

// Returns the text as a shell needs it for one word.
std::string ShellWord(const std::string& text) {
  if (!local::HasShellCharacters(text)) return text;
  return fmt::format("'{}'", absl::StrReplaceAll(text, {{"'", "'\\''"}}));
}

// Drives one run: handles its messages and decides when it is over.
class Session {
 public:
  Session(const RunOptions& options, const JobFile& file, const WorkDir& work_dir, LocalRun& run,
          Inbox& inbox, const Clock& clock)
      : options_(options),
        file_(file),
        work_dir_(work_dir),
        run_(run),
        inbox_(inbox),
        clock_(clock),
        console_(stdout, clock, /*quiet=*/options.output == "json"),
        start_(clock.SteadyNow()),
        last_step_(start_) {
    const nlohmann::json before = WorkDir::ReadView(work_dir.path());
    has_run_before_ = kube::Name(kube::Member(before, "job")) == file.job.metadata.name;
    if (has_run_before_) {
      curve_ = CurveFromJson(kube::Member(before, "curve"));  // a job that is resumed goes on
    }
    resumes_from_ = Checkpoint();
    if (options.timeout_seconds) {
      deadline_ = start_ + std::chrono::duration_cast<Duration>(
                               std::chrono::duration<double>(*options.timeout_seconds));
    }
  }

  Console& console() { return console_; }

  // A user who has named no folder may be surprised that the job goes on where an earlier run has
  // ended.
  void NoteStart() {
    std::string line = fmt::format("job {} in {}", file_.job.metadata.name, work_dir_.shown());
    if (!resumes_from_.empty()) {
      line += fmt::format(", from its checkpoint {}",
                          fs::path(resumes_from_).lexically_relative(CheckpointFolder()).string());
    } else if (has_run_before_) {
      line += ", with the volumes of its last run";
    }
    if (options_.work_dir.empty() && (has_run_before_ || !resumes_from_.empty())) {
      line += " (--work-dir names another folder)";
    }
    if (!work_dir_.skipped().empty()) line += ": " + work_dir_.skipped();
    console_.Note(line);
    console_.Note(fmt::format("logs: tail -F {}/*/*.log", ShellWord(work_dir_.shown() + "/logs")));
  }

  RunReport Run() {
    while (!pods_stopped_) {
      for (const Message& message : inbox_.Wait(NextTurn())) {
        std::visit([this](const auto& m) { On(m); }, message);
        unseen_ = true;
      }
      if (unseen_ && clock_.SteadyNow() >= next_view_) WriteView();
      if (stopping_) continue;
      if (console_.is_unread()) {
        console_.Warn("nobody reads the output any more: stopping; pods have their grace period");
        Stop(RunReport::End::kInterrupted);
      } else if (deadline_ && clock_.SteadyNow() >= *deadline_) {
        Stop(RunReport::End::kTimedOut);
      } else {
        ShowWait();
      }
    }
    console_.EndProgress();
    WriteView();
    return Report();
  }

 private:
  void On(const JobChanged& change) {
    if (change.deleted) {  // its TTL expired; the last status stands
      if (!stopping_) Stop(RunReport::End::kFinished);
      return;
    }
    const absl::StatusOr<api::TrainingJob> job = api::TrainingJobFromJson(change.job);
    if (!job.ok()) {
      console_.Warn(std::string(job.status().message()));
      return;
    }
    const std::int64_t step = status_.progress ? status_.progress->step : 0;
    const std::optional<api::Failure> failure = std::exchange(status_, job->status).failure;
    if (status_.failure != failure) NoteFailure();
    job_uid_ = job->metadata.uid;
    if (status_.progress && status_.progress->step != step) {
      last_step_ = clock_.SteadyNow();
      curve_.Add({.time = clock_.Now(),
                  .step = status_.progress->step,
                  .loss = status_.progress->loss,
                  .examples_per_second = status_.progress->examples_per_second});
      console_.Progress(ProgressLine(*status_.progress));
    }
    const bool over = status_.state == "Succeeded" || status_.state == "Failed";
    if (over && !stopping_) Stop(RunReport::End::kFinished);
  }

  // The event of a restart has only the exit code. The report says why a job has failed.
  void NoteFailure() {
    if (!status_.failure || status_.state == "Failed") return;
    const std::string line = LastLine(status_.failure->message);
    if (line.empty()) return;
    console_.Note(fmt::format("  {}-{}: {}", status_.failure->role, status_.failure->index, line));
  }

  // Others, such as `lockstep ui`, show the run by this file; without it they show less.
  void WriteView() {
    unseen_ = false;
    next_view_ = clock_.SteadyNow() + kViewPeriod;
    kube::Object view = run_.Objects({file_.job.metadata.namespace_name, file_.job.metadata.name});
    view["curve"] = ToJson(curve_);
    const absl::Status written = work_dir_.WriteView(AsciiJson(view));
    if (!written.ok() && !std::exchange(warned_, true)) {
      console_.Warn(std::string(written.message()));
    }
  }

  std::optional<SteadyTime> NextTurn() const {
    const std::optional<SteadyTime> look = NextLook();
    if (!unseen_) return look;
    return look ? std::min(*look, next_view_) : next_view_;
  }

  // When to look again without a message; never, once the run is stopping.
  std::optional<SteadyTime> NextLook() const {
    if (stopping_) return std::nullopt;
    if (!api::HasTrainingGroup(file_.job)) return deadline_;
    const SteadyTime look = std::max(last_step_ + kPatience, clock_.SteadyNow() + kLookPeriod);
    return deadline_ ? std::min(look, *deadline_) : look;
  }

  void ShowWait() {
    if (!api::HasTrainingGroup(file_.job)) return;
    RunView view;
    view.state = status_.state;
    const api::Condition* running = api::FindCondition(status_, api::kRunning);
    if (running != nullptr && running->reason == controller::kWaitsForRole) {
      view.waits = running->message;
    }
    for (const auto& [role, replicas] : status_.replica_statuses) {
      view.desired += replicas.desired;
      view.active += replicas.active;
    }
    if (const auto group = run_.State(job_uid_)) {
      view.answers = true;
      view.missing = group->missing;
      view.activity = group->activity;
    }
    view.progress = status_.progress;
    view.quiet = clock_.SteadyNow() - last_step_;
    if (const std::string line = WaitLine(view); !line.empty()) console_.Progress(line);
  }

  void On(const EventSeen& seen) {
    // A repeated event arrives as an update of the same Event.
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
    console_.Note("stopping: pods have their grace period to save; interrupt again to kill them");
    Stop(RunReport::End::kInterrupted);
  }

  void Stop(RunReport::End end) {
    if (std::exchange(stopping_, true)) return;
    end_ = end;
    if (end == RunReport::End::kTimedOut) console_.Warn("the timeout has passed: stopping");
    run_.Stop();
  }

  RunReport Report() {
    RunReport report;
    report.end = end_;
    report.status = status_;
    report.seconds = std::chrono::duration<double>(clock_.SteadyNow() - start_).count();
    report.work_dir = work_dir_.shown();
    report.logs = work_dir_.shown() + "/logs";
    report.checkpoint = Shown(Checkpoint());
    report.resumed_from = Shown(resumes_from_);
    // No reconcile records what a program reports when it is told to end.
    if (end_ != RunReport::End::kFinished) {
      if (auto last = run_.LastReport(job_uid_)) report.status.progress = last;
    }
    if (file_.job.spec.training) {
      const api::TrainingSpec& training = *file_.job.spec.training;
      // If the run was interrupted, no reconcile has recorded the final progress.
      if (auto last = run_.TerminationProgress()) {
        // The leading replica does not know what an Evaluator has found.
        if (api::HasEvaluator(file_.job.spec) && status_.progress) {
          api::CopyEvaluation(*status_.progress, *last);
        }
        report.status.progress = last;
      }
      const std::string summaries = run_.OnThisMachine(training.summaries.directory);
      std::error_code unknown;
      if (!summaries.empty() && fs::exists(summaries, unknown)) report.summaries = Shown(summaries);
    }
    return report;
  }

  // Returns the bundled trainer's checkpoint folder on this machine; empty if there is none.
  std::string CheckpointFolder() const {
    const auto& training = file_.job.spec.training;
    return training ? run_.OnThisMachine(training->checkpoint.directory) : "";
  }
  // Returns its newest checkpoint, of the job or of one of its variants; empty if there is none.
  std::string Checkpoint() const {
    const std::string folder = CheckpointFolder();
    if (folder.empty()) return "";
    return NewestCheckpoint(folder, api::TraitsOf(file_.job.spec).trains_alone);
  }

  // Returns the path as the user would write it, if it lies in the work directory.
  std::string Shown(const std::string& path) const {
    if (!path.starts_with(work_dir_.path() + "/")) return path;
    return work_dir_.shown() + path.substr(work_dir_.path().size());
  }

  const RunOptions& options_;
  const JobFile& file_;
  const WorkDir& work_dir_;
  LocalRun& run_;
  Inbox& inbox_;
  const Clock& clock_;
  Console console_;
  const SteadyTime start_;
  SteadyTime last_step_;  // when the last step was seen
  std::string job_uid_;
  bool has_run_before_ = false;  // in this folder
  std::string resumes_from_;     // as Checkpoint, before the run
  Curve curve_;
  bool unseen_ = true;  // something has come since the view was written
  SteadyTime next_view_{};
  std::optional<SteadyTime> deadline_;
  api::TrainingJobStatus status_;
  RunReport::End end_ = RunReport::End::kFinished;
  bool stopping_ = false, signalled_ = false, pods_stopped_ = false, warned_ = false;
};

absl::StatusOr<RunReport> RunToEnd(const RunOptions& options) {
  LOCKSTEP_ASSIGN_OR_RETURN(const JobFile file, LoadJobFile(options.job));
  if (file.job.spec.suspend) {
    return absl::InvalidArgumentError(fmt::format(
        "{}: spec.suspend: found true, expected false: a suspended job does not run", file.source));
  }
  LocalRunOptions run_options;
  LOCKSTEP_ASSIGN_OR_RETURN(run_options.volumes, ParseVolumes(options.volumes));
  LOCKSTEP_ASSIGN_OR_RETURN(const WorkDir work_dir,
                            WorkDir::Open(options.work_dir, file.job.metadata.name));
  run_options.work_dir = work_dir.path();
  work_dir.RemoveMetricsAddresses();  // of a run that was killed
  run_options.mark = local::MarkOfThisRun();
  LOCKSTEP_ASSIGN_OR_RETURN(run_options.links, local::LinksFolder(work_dir.path()));
  const local::Guardian guardian(run_options.mark, run_options.links);
  const SystemClock clock;
  Inbox inbox;
  LOCKSTEP_ASSIGN_OR_RETURN(const auto run, LocalRun::Start(file, run_options, inbox, clock));
  work_dir.RemoveReport();  // of the run before; a job that is refused above leaves it there
  Session session(options, file, work_dir, *run, inbox, clock);
  session.NoteStart();
  const absl::Status noted = work_dir.WriteMetricsAddresses(run->MetricsAddresses(file.job));
  if (!noted.ok()) session.console().Warn(std::string(noted.message()));
  RunReport report = session.Run();
  work_dir.RemoveMetricsAddresses();
  const absl::Status written = work_dir.WriteReport(AsciiJson(ToJson(report)));
  if (!written.ok()) session.console().Warn(std::string(written.message()));
  return report;
}

}  // namespace

CLI::App* AddRunCommand(CLI::App& app, RunOptions& options) {
  CLI::App* command =
      app.add_subcommand("run", "Run a TrainingJob on this machine, without a cluster");
  AddJobFileOptions(*command, options.job);
  command
      ->add_option("--work-dir", options.work_dir,
                   "Folder for volumes, checkpoints and logs [the first of runs/<job>, "
                   "runs/<job>.2, ... that is not in use and that no job has succeeded in]; a job "
                   "that is run again in "
                   "the same folder resumes from its checkpoint")
      ->type_name(kFolderType);
  AddOutputOption(*command, options.output, {"text", "json"},
                  "text, or json: one object on stdout at the end");
  AddVolumeOption(*command, options.volumes);
  command->add_option("--timeout", options.timeout_seconds, "Stop the job after this many seconds")
      ->check(CLI::Range(0.001, 1e9))
      ->type_name("SECONDS");
  command->footer("Ctrl-C asks the pods to save a checkpoint and end; a second one kills them.");
  return command;
}

ExitCode RunRun(const RunOptions& options) {
  SetLogLevel(LogLevel::kWarning);  // reconcile results are shown as events
  // A reader that ends, such as head or, at Ctrl-C, tee, must not end the run before pods can save.
  IgnoreBrokenPipes();
  const absl::StatusOr<RunReport> report = RunToEnd(options);
  if (!report.ok()) return Fail(kExitUsage, report.status());
  const bool json = options.output == "json";
  const std::string text = json ? AsciiJson(ToJson(*report)) + '\n' : ToText(*report);
  std::fputs(text.c_str(), stdout);  // does not throw if nobody reads it
  return ExitCodeOfRun(*report);
}

}  // namespace lockstep::cli
