#include "operator/cli/merged_logs.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "api/v1/conditions.h"
#include "api/v1/names.h"
#include "base/printable.h"
#include "base/rfc3339.h"
#include "base/status.h"
#include "operator/cli/job_pods.h"
#include "operator/cli/log_merge.h"
#include "operator/cli/log_printer.h"
#include "operator/cli/pod_state.h"
#include "operator/cli/resumed_log.h"
#include "operator/controller/observe_job.h"
#include "operator/controller/state/kinds.h"
#include "operator/controller/state/main_container.h"

namespace lockstep::cli {
namespace {

using kube::Object;

// Lines of different pods are printed in the order of their times if they arrive within this time.
constexpr Duration kPatience = std::chrono::milliseconds(300);
// Looks that fail in a row before the job's pods are not looked at any more, and readings of a log
// before it is given up.
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
  // What a log is of: the container of a pod, and how often it had restarted.
  struct Writer {
    kube::Key pod;
    std::string uid, container;
    int restarts = 0;
  };
  enum class Life { kRuns, kHasEnded, kIsGone };

  std::string ContainerOf(const Object& pod) const;
  void Begin(const Object& pod, const std::string& container);
  void Read(int source, const Writer& writer, const kube::PodLogOptions& log);
  absl::Status ReadToItsEnd(const Writer& writer, kube::PodLogOptions log, ResumedLog& lines);
  Life LifeOf(const Writer& writer);

  kube::RestClient& client_;
  const kube::Key job_;
  const MergedLogsOptions& options_;
  LogMerge& merge_;
  bool looked_ = false;
  std::string uid_, state_;
  std::set<std::pair<std::string, int>> begun_;  // a pod's uid, and how often it had restarted
  std::mutex mutex_;
  std::vector<std::string> names_;  // by source
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
  state_ = job.status.state.empty() ? "new" : job.status.state;
  const bool over = api::IsTerminal(job.status);
  // The job is read first: the pods of a job that has ended do not change.
  LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<Object> pods, ReadPods(client_, job));
  for (const Object& pod : pods) {
    if (options_.role && kube::Label(pod, api::kLabelRole) != api::RoleName(*options_.role)) {
      continue;
    }
    const std::string container = ContainerOf(pod);
    if (HasLog(pod, container, options_.log.previous)) {
      Begin(pod, container);
    } else if (!looked_ && !options_.log.follow) {
      fmt::print(stderr, "lockstep: {} has no log{}: {}\n", ReplicaName(pod),
                 options_.log.previous ? " from before a restart" : "", Printable(PodState(pod)));
    }
  }
  looked_ = true;
  return options_.log.follow && !over;
}

std::string LogCollector::ContainerOf(const Object& pod) const {
  return options_.log.container.empty() ? controller::MainContainerName(pod)
                                        : options_.log.container;
}

void LogCollector::Begin(const Object& pod, const std::string& container) {
  const Writer writer{kube::KeyOf(pod), kube::Uid(pod), container, RestartsOf(pod, container)};
  if (!begun_.emplace(writer.uid, writer.restarts).second) return;
  kube::PodLogOptions log = options_.log;
  log.container = container;
  log.timestamps = true;
  if (looked_) {  // this log has begun since
    log.tail_lines.reset();
    log.since.reset();
  }
  const int source = merge_.AddSource();
  const std::scoped_lock lock(mutex_);
  names_.push_back(ReplicaName(pod));
  readers_.emplace_back([this, source, writer, log] { Read(source, writer, log); });
}

void LogCollector::Read(int source, const Writer& writer, const kube::PodLogOptions& log) {
  ResumedLog lines([&](std::string_view text) { merge_.Add(source, text); });
  const absl::Status read = ReadToItsEnd(writer, log, lines);
  lines.End();
  merge_.End(source);
  if (read.ok()) return;
  fmt::print(stderr, "lockstep: {}: {}\n", NameOf(source), Printable(std::string(read.message())));
  const std::scoped_lock lock(mutex_);
  failure_.Update(read);
}

// Goes on behind the last line if a log that is followed ends while its container runs: if the API
// server has lost the connection to the kubelet, the log ends like any other.
absl::Status LogCollector::ReadToItsEnd(const Writer& writer, kube::PodLogOptions log,
                                        ResumedLog& lines) {
  for (int failures = 0;;) {  // in a row
    const absl::Status read = client_.ReadPodLog(
        writer.pod, log, {}, [&lines](const std::string& text) { lines.Add(text); });
    failures = read.ok() ? 0 : failures + 1;
    const bool may_pass = read.ok() || absl::IsUnavailable(read);
    if (!log.follow || !may_pass || failures == kMostFailures) return read;
    const Life life = LifeOf(writer);
    // After a failure, there may be more of a log that has ended.
    if (life == Life::kIsGone || (life == Life::kHasEnded && read.ok())) return read;
    std::this_thread::sleep_for(options_.poll_period);
    lines.Resume();
    if (!lines.latest()) continue;
    log.since_time = lines.latest();
    log.since.reset();
    log.tail_lines.reset();
  }
}

// A pod that cannot be looked at now is taken to run.
LogCollector::Life LogCollector::LifeOf(const Writer& writer) {
  const absl::StatusOr<Object> pod = client_.Get(kube::kPodKind, writer.pod);
  if (absl::IsNotFound(pod.status())) return Life::kIsGone;
  if (!pod.ok()) return Life::kRuns;
  if (kube::Uid(*pod) != writer.uid || RestartsOf(*pod, writer.container) != writer.restarts) {
    return Life::kIsGone;  // the log that there is now is another's
  }
  return IsRunning(*pod, writer.container) ? Life::kRuns : Life::kHasEnded;
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

}  // namespace

absl::Status PrintMergedLogs(kube::RestClient& client, const kube::Key& job,
                             const MergedLogsOptions& options, std::FILE* out) {
  LogMerge merge(options.log.follow ? std::optional(kPatience) : std::nullopt);
  LogCollector collector(client, job, options, merge);
  LOCKSTEP_ASSIGN_OR_RETURN(const bool goes_on, collector.Look());
  if (!goes_on && !collector.HasLogs()) {
    return absl::NotFoundError(fmt::format(
        "no pod of job {}{} has a log: the job is {}, and pods of a job that has ended may "
        "have been deleted by runPolicy.cleanPodPolicy",
        job.name, options.role ? fmt::format(" of role {}", api::RoleName(*options.role)) : "",
        collector.state()));
  }
  absl::Status looked;
  std::jthread watcher([&] {
    int failures = 0;  // in a row
    for (bool again = goes_on; again;) {
      std::this_thread::sleep_for(options.poll_period);  // Ctrl-C ends the program at any time
      const absl::StatusOr<bool> more = collector.Look();
      failures = more.ok() ? 0 : failures + 1;
      looked = absl::IsNotFound(more.status()) ? absl::OkStatus() : more.status();
      const bool may_pass = !absl::IsNotFound(more.status()) && failures < kMostFailures;
      again = more.ok() ? *more : may_pass;
    }
    merge.Close();
  });
  Prefix prefix(out);
  LogPrinter printer(out);
  while (const std::optional<LogMerge::Line> line = merge.Next()) {
    prefix.Print(collector.NameOf(line->source));
    printer.Print((options.timestamps ? FormatRfc3339(line->time, 3) + ' ' : "") + line->text +
                  '\n');
  }
  watcher.join();
  looked.Update(collector.Finish());
  return looked;
}

}  // namespace lockstep::cli
