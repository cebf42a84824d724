#include "operator/cli/logs/merged_logs.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_split.h"
#include "api/v1/conditions.h"
#include "api/v1/names.h"
#include "base/printable.h"
#include "base/rfc3339.h"
#include "base/status.h"
#include "operator/cli/cluster/job_pods.h"
#include "operator/cli/cluster/pod_state.h"
#include "operator/cli/logs/followed_log.h"
#include "operator/cli/logs/log_merge.h"
#include "operator/cli/logs/log_printer.h"
#include "operator/cli/text/job_table.h"
#include "operator/controller/observe_job.h"
#include "operator/controller/state/kinds.h"

namespace lockstep::cli {
namespace {

using kube::Object;

// Lines of different pods are printed in the order of their times if they arrive within this time.
constexpr Duration kPatience = std::chrono::milliseconds(300);
// Looks that fail in a row before the job's pods are not looked at any more.
constexpr int kMostFailures = 30;
// Cyan, green, yellow, magenta, blue, red.
constexpr std::array<int, 6> kColors = {36, 32, 33, 35, 34, 31};

// Reads the logs of a job's pods, each by a thread of its own.
class LogCollector {
 public:
  LogCollector(kube::RestClient& client, kube::Key job, const MergedLogsOptions& options,
               LogMerge& merge)
      : client_(client), job_(std::move(job)), options_(options), merge_(merge) {}

  // Starts to read each log that is new. Returns whether there may be further logs. Errors: those
  // of the client; NotFound also if the job was replaced by one of the same name.
  absl::StatusOr<bool> Look();
  // Returns the replica whose log the source is.
  std::string NameOf(int source);
  bool HasLogs();
  const std::string& state() const { return state_; }  // of the job, at the latest look
  // Waits for the ends of all logs. Returns the first failure to read one.
  absl::Status Finish();

 private:
  struct Reading {
    int source = 0;  // of the merge
    bool goes_on = false;
    std::unique_ptr<FollowedLog> log;
  };

  std::string ContainerOf(const Object& pod) const;
  void ReportNoLog(const Object& pod) const;
  void Begin(const Object& pod, const std::string& container);
  std::unique_ptr<FollowedLog> MakeLog(const Object& pod, const std::string& container,
                                       int restarts, Reading& reading);
  void Read(Reading& reading, int restarts);
  // Requires mutex_.
  void End(Reading& reading, const absl::Status& read);

  kube::RestClient& client_;
  const kube::Key job_;
  const MergedLogsOptions& options_;
  LogMerge& merge_;
  bool looked_ = false;
  std::string uid_, state_;
  std::mutex mutex_;  // guards what follows, except each `log`
  std::map<std::pair<std::string, std::string>, Reading> readings_;  // by the pod's uid, container
  std::vector<std::string> names_;                                   // by source
  absl::Status failure_;
  std::vector<std::jthread> readers_;
};

absl::StatusOr<bool> LogCollector::Look() {
  LOCKSTEP_ASSIGN_OR_RETURN(const Object object, client_.Get(controller::kTrainingJobKind, job_));
  const api::TrainingJob job = controller::ObserveJob(object).job;
  if (looked_ && job.metadata.uid != uid_) {
    return absl::NotFoundError(
        fmt::format("job {} was replaced by another of its name", job_.name));
  }
  uid_ = job.metadata.uid;
  state_ = StateName(job.status);
  const bool over = api::IsTerminal(job.status);
  // The job is read first: the pods of a job that has ended do not change.
  LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<Object> pods,
                            ReadPods(client_, job, options_.role, options_.index));
  for (const Object& pod : pods) {
    const std::string container = ContainerOf(pod);
    if (HasLog(pod, container, options_.log.previous)) {
      Begin(pod, container);
    } else if (!looked_ && (options_.index || !options_.log.follow)) {
      ReportNoLog(pod);
    }
  }
  looked_ = true;
  return options_.log.follow && !over;
}

std::string LogCollector::ContainerOf(const Object& pod) const {
  return options_.log.container.empty() ? ContainerToBlame(pod) : options_.log.container;
}

void LogCollector::ReportNoLog(const Object& pod) const {
  const char* which = options_.log.previous ? " from before a restart"
                      : options_.log.follow ? " yet"
                                            : "";
  fmt::print(stderr, "lockstep: {} has no log{}: {}\n", ReplicaName(pod), which,
             Printable(PodState(pod)));
}

void LogCollector::Begin(const Object& pod, const std::string& container) {
  const int restarts = RestartsOf(pod, container);
  const std::scoped_lock lock(mutex_);
  Reading& reading = readings_[{kube::Uid(pod), container}];
  if (reading.goes_on || (reading.log && reading.log->restarts() == restarts)) return;
  if (!reading.log) {
    reading.log = MakeLog(pod, container, restarts, reading);
    if (options_.log.container.empty() && container == InitContainerToBlame(pod)) {
      ReportInitLog(ReplicaName(pod), container);
    }
  }
  reading.source = merge_.AddSource();
  reading.goes_on = true;
  names_.push_back(ReplicaName(pod));
  try {
    readers_.emplace_back([this, &reading, restarts] { Read(reading, restarts); });
  } catch (const std::system_error& error) {
    End(reading, absl::ResourceExhaustedError(
                     fmt::format("no thread can be started to read its log: {}", error.what())));
  }
}

std::unique_ptr<FollowedLog> LogCollector::MakeLog(const Object& pod, const std::string& container,
                                                   int restarts, Reading& reading) {
  kube::PodLogOptions log = options_.log;
  if (looked_) {  // there was no such log at the first look, so all of it is read
    log.tail_lines.reset();
    log.since.reset();
  }
  return std::make_unique<FollowedLog>(
      client_, PodContainer{kube::KeyOf(pod), kube::Uid(pod), container}, restarts, log,
      options_.poll_period,
      [this, &reading](std::string_view text) { merge_.Add(reading.source, text); });
}

void LogCollector::Read(Reading& reading, int restarts) {
  const absl::Status read = reading.log->Read(restarts);
  const std::scoped_lock lock(mutex_);
  End(reading, read);
}

void LogCollector::End(Reading& reading, const absl::Status& read) {
  merge_.End(reading.source);
  reading.goes_on = false;
  if (read.ok()) return;
  fmt::print(stderr, "lockstep: {}: {}\n", names_[static_cast<std::size_t>(reading.source)],
             Printable(std::string(read.message())));
  failure_.Update(read);
}

std::string LogCollector::NameOf(int source) {
  const std::scoped_lock lock(mutex_);
  return names_[static_cast<std::size_t>(source)];
}

bool LogCollector::HasLogs() {
  const std::scoped_lock lock(mutex_);
  return !names_.empty();
}

absl::Status LogCollector::Finish() {
  readers_.clear();  // joins
  return failure_;
}

// "worker-1  | ", as wide as the longest name so far, on a terminal in the replica's color.
class Prefix {
 public:
  explicit Prefix(std::FILE* out)
      : out_(out), color_(isatty(fileno(out)) != 0 && std::getenv("NO_COLOR") == nullptr) {}

  void Print(const std::string& name) {
    const auto place = static_cast<std::size_t>(std::ranges::find(seen_, name) - seen_.begin());
    if (place == seen_.size()) seen_.push_back(name);
    width_ = std::max(width_, name.size());
    const std::string text = fmt::format("{:<{}} | ", name, width_);
    if (!color_) {
      std::fputs(text.c_str(), out_);
      return;
    }
    fmt::print(out_, "\033[{}m{}\033[0m", kColors[place % kColors.size()], text);
  }

 private:
  std::FILE* const out_;
  const bool color_;
  std::size_t width_ = 0;
  std::vector<std::string> seen_;
};

absl::Status NoLog(const kube::Key& job, const MergedLogsOptions& options,
                   const std::string& state) {
  std::string whose;
  if (options.role) whose = fmt::format(" of role {}", api::RoleName(*options.role));
  if (options.index) whose += fmt::format(" and index {}", *options.index);
  return absl::NotFoundError(
      fmt::format("no pod of job {}{} has a log: the job is {}, and pods of a job that has ended "
                  "may have been deleted by runPolicy.cleanPodPolicy",
                  job.name, whose, state));
}

absl::Status LookUntilTheEnd(LogCollector& collector, Duration period) {
  for (int failures = 0;;) {              // in a row
    std::this_thread::sleep_for(period);  // Ctrl-C ends the program at any time
    const absl::StatusOr<bool> more = collector.Look();
    if (absl::IsNotFound(more.status()) || (more.ok() && !*more)) return absl::OkStatus();
    failures = more.ok() ? 0 : failures + 1;
    if (failures == kMostFailures) return more.status();
  }
}

// Looks at the job until there will be no further logs.
absl::Status FindLogs(LogCollector& collector, const kube::Key& job,
                      const MergedLogsOptions& options) {
  LOCKSTEP_ASSIGN_OR_RETURN(const bool goes_on, collector.Look());
  if (!collector.HasLogs()) {
    if (!goes_on) return NoLog(job, options, collector.state());
    fmt::print(stderr, "lockstep: there is no log yet: the job is {}\n",
               Printable(collector.state()));
  }
  return goes_on ? LookUntilTheEnd(collector, options.poll_period) : absl::OkStatus();
}

// Returns the pieces of a line between its carriage returns, by which programs redraw it. Each is
// printed as a line with a prefix; without one it could pass for another replica's. A line that is
// whole gives at least one piece, even if it is empty.
std::vector<std::string> RedrawsOf(const LogMerge::Line& line) {
  std::vector<std::string> redraws = absl::StrSplit(line.text, '\r', absl::SkipEmpty());
  if (redraws.empty() && line.ends && !line.continues) redraws.emplace_back();
  return redraws;
}

// Returns after the last line of the last log.
void PrintLines(LogMerge& merge, LogCollector& collector, const MergedLogsOptions& options,
                std::FILE* out) {
  Prefix prefix(out);
  LogPrinter printer(out);
  const int digits = options.index ? 9 : 3;  // of a single log's times, as the API server has them
  while (const std::optional<LogMerge::Line> line = merge.Next()) {
    const std::string time = options.timestamps ? FormatRfc3339(line->time, digits) + ' ' : "";
    if (options.index) {
      printer.Print((line->continues ? "" : time) + line->text + (line->ends ? "\n" : ""));
      continue;
    }
    for (const std::string& redraw : RedrawsOf(*line)) {
      prefix.Print(collector.NameOf(line->source));
      printer.Print(time + redraw + '\n');
    }
  }
}

}  // namespace

void ReportInitLog(const std::string& whose, const std::string& container) {
  fmt::print(stderr,
             "lockstep: {}: the main container has not started; this is the log of the init "
             "container {}, which has failed\n",
             whose, Printable(container));
}

absl::Status PrintMergedLogs(kube::RestClient& client, const kube::Key& job,
                             const MergedLogsOptions& options, std::FILE* out) {
  LogMerge merge(options.log.follow ? std::optional(options.index ? Duration::zero() : kPatience)
                                    : std::nullopt);
  LogCollector collector(client, job, options, merge);
  absl::Status looked;
  // Starts before the readers, which may be so many that no further thread can start.
  std::jthread watcher([&] {
    looked = FindLogs(collector, job, options);
    merge.Close();
  });
  PrintLines(merge, collector, options, out);
  watcher.join();
  looked.Update(collector.Finish());
  return looked;
}

}  // namespace lockstep::cli
