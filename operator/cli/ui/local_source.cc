#include "operator/cli/ui/local_source.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string_view>
#include <system_error>
#include <tuple>
#include <utility>

#include "base/new_file.h"
#include "base/rfc3339.h"
#include "base/status.h"
#include "operator/cli/local/work_dir.h"
#include "operator/cli/text/job_table.h"
#include "operator/controller/observe_job.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::size_t kMostShownRuns = 100;
constexpr std::size_t kFirstOfFile = std::size_t{256} << 10U;  // bytes of a log, from its end
constexpr std::size_t kMostOfFile = std::size_t{1} << 20U;

// Returns the newest log of each container by its name, which is empty if the pod has only one.
// Log files are called <start>.log or <start>-<container>.log.
std::map<std::string, fs::path> NewestLogs(const fs::path& folder) {
  std::map<std::string, std::pair<int, fs::path>> newest;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().extension() != ".log") continue;
    const std::string name = entry.path().stem().string();
    const std::size_t dash = std::min(name.find('-'), name.size());
    const std::string container = name.substr(std::min(dash + 1, name.size()));
    auto& [start, path] = newest.try_emplace(container, -1, fs::path()).first->second;
    const int found = std::atoi(name.c_str());
    if (found > start) std::tie(start, path) = std::pair(found, entry.path());
  }
  std::map<std::string, fs::path> paths;
  for (auto& [container, found] : newest) paths[container] = std::move(found.second);
  return paths;
}

// The time that the bundled trainer writes into each line; nullopt for other programs' lines.
std::optional<Time> TimeOf(std::string_view line) {
  constexpr std::string_view kStart = R"({"time":")";
  if (!line.starts_with(kStart)) return std::nullopt;
  line.remove_prefix(kStart.size());
  return ParseRfc3339(line.substr(0, line.find('"')));
}

// Of a run that has not written its view yet, or is of an earlier version, nothing is known.
controller::ObservedJob ObserveRun(const json& view) {
  const json& job = kube::Member(view, "job");
  return job.is_object() ? controller::ObserveJob(job) : controller::ObservedJob();
}

// A container's newest log file.
class FileTail {
 public:
  void Read(const fs::path& newest, const std::string& who, std::vector<LogLine>& lines) {
    const bool first = path_.empty();
    if (newest != path_) {
      path_ = newest;
      at_ = 0;
      line_.clear();
    }
    const Descriptor file = OpenOwnToRead(path_.string());
    struct stat status{};
    if (file.fd() < 0 || ::fstat(file.fd(), &status) != 0) return;
    const auto size = static_cast<std::size_t>(status.st_size);
    const bool cut = first && size > kFirstOfFile;
    if (cut) at_ = size - kFirstOfFile;
    if (!time_) time_ = std::chrono::system_clock::from_time_t(status.st_mtime);
    std::string text(std::min(kMostOfFile, size - std::min(at_, size)), '\0');
    const ssize_t got =
        ::pread(file.fd(), text.data(), text.size(), static_cast<std::int64_t>(at_));
    text.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    at_ += text.size();
    if (cut) text.erase(0, text.find('\n') + 1);
    Split(text, who, lines);
  }

 private:
  void Split(const std::string& text, const std::string& who, std::vector<LogLine>& lines) {
    line_ += text;
    std::size_t begin = 0;
    for (std::size_t end = 0; (end = line_.find('\n', begin)) != std::string::npos;
         begin = end + 1) {
      const std::string line = line_.substr(begin, end - begin);
      time_ = TimeOf(line).value_or(*time_);
      lines.push_back({*time_, who, line});
    }
    line_.erase(0, begin);
    if (line_.size() > kMostOfFile) line_.clear();
  }

  fs::path path_;
  std::size_t at_ = 0;
  std::string line_;  // the beginning of one
  std::optional<Time> time_;
};

// "worker-0" of the pod "mnist-worker-0": no role's name has a dash.
std::string ReplicaOf(const std::string& pod) {
  const std::size_t index = pod.rfind('-');
  const std::size_t role =
      index == 0 || index == std::string::npos ? index : pod.rfind('-', index - 1);
  return role == std::string::npos ? pod : pod.substr(role + 1);
}

class LocalLogTail final : public LogTail {
 public:
  LocalLogTail(std::string folder, std::string replica)
      : folder_(std::move(folder)), replica_(std::move(replica)) {}

  absl::Status Read(std::vector<LogLine>& lines) override {
    std::error_code error;
    bool found = false;
    for (const fs::directory_entry& pod : fs::directory_iterator(folder_ + "/logs", error)) {
      const std::string replica = ReplicaOf(pod.path().filename().string());
      if (!replica_.empty() && replica != replica_) continue;
      found = true;
      for (const auto& [container, path] : NewestLogs(pod.path())) {
        const std::string who =
            container.empty() ? replica : fmt::format("{} {}", replica, container);
        files_[who].Read(path, who, lines);
      }
    }
    return found ? absl::OkStatus() : absl::NotFoundError("there is no log");
  }

 private:
  const std::string folder_, replica_;
  std::map<std::string, FileTail> files_;  // by replica and container
};

class LocalSource final : public JobSource {
 public:
  explicit LocalSource(std::string folder) : folder_(std::move(folder)) {}

  std::string Name() const override { return fmt::format("runs on this machine in {}", folder_); }

  absl::StatusOr<std::vector<ListedJob>> List() override {
    std::vector<ListedJob> jobs;
    for (const std::string& run : Runs()) {
      const json view = WorkDir::ReadView(run);
      jobs.push_back(Listed(run, ObserveRun(view).job, WorkDir::ReadMetricsAddresses(run).ok()));
    }
    return jobs;
  }

  absl::StatusOr<JobLook> Look(const kube::Key& job, bool /*events*/) override {
    // The name comes from a page: it must be one of those that were listed.
    const std::vector<std::string> runs = Runs();
    if (std::ranges::find(runs, job.name) == runs.end()) {
      return absl::NotFoundError(fmt::format("{} is no work directory of a run", job.name));
    }
    const json view = WorkDir::ReadView(job.name);
    JobLook look;
    const controller::ObservedJob observed = ObserveRun(view);
    look.facts.job = observed.job;
    if (!view.is_null()) look.facts.invalid = observed.invalid.value_or("");
    for (const json& pod : kube::ListMember(view, "pods")) look.facts.pods.push_back(pod);
    for (const json& event : kube::ListMember(view, "events")) look.facts.events.push_back(event);
    absl::StatusOr<std::vector<SeenJob>> seen = LookAtRun(job.name);
    if (seen.ok()) look.seen = std::move(seen->front());
    look.listed = Listed(job.name, look.facts.job, seen.ok());
    look.seen.over = !seen.ok();
    SetProgress(look.seen.ranks, look.facts.job.status, look.seen.top);
    if (look.seen.over) look.seen.top.remaining_seconds.reset();
    look.seen.top.name = job.name;
    look.seen.top.state = look.listed.state;
    look.seen.top.ready = look.facts.job.status.ready_replicas;
    look.curve = CurveFromJson(kube::Member(view, "curve"));
    return look;
  }

  std::unique_ptr<LogTail> Tail(const kube::Key& job, const std::string& replica) override {
    const std::vector<std::string> runs = Runs();
    const bool known = std::ranges::find(runs, job.name) != runs.end();
    return std::make_unique<LocalLogTail>(known ? job.name : folder_ + "/.none", replica);
  }

 private:
  std::vector<std::string> Runs() const {
    if (WorkDir::IsOne(folder_)) return {folder_};
    std::vector<std::pair<fs::file_time_type, std::string>> found;
    std::error_code error;
    for (const fs::directory_entry& entry : fs::directory_iterator(folder_, error)) {
      const std::string path = entry.path().string();
      if (!WorkDir::IsOne(path)) continue;
      found.emplace_back(fs::last_write_time(path, error), path);
    }
    std::ranges::sort(found, std::ranges::greater());
    if (found.size() > kMostShownRuns) found.resize(kMostShownRuns);
    std::vector<std::string> runs;
    for (auto& [time, path] : found) runs.push_back(std::move(path));
    return runs;
  }

  // A run that was killed leaves the state that it had.
  static ListedJob Listed(const std::string& run, api::TrainingJob job, bool runs) {
    ListedJob listed{.key = {"", run}, .job = {}, .state = job.status.state};
    if (!runs) {
      const std::string end = kube::TextMember(WorkDir::ReadReport(run), "state");
      listed.state = end.empty() ? "Ended" : end;
    } else if (listed.state.empty()) {
      listed.state = StateName(job.status);
    }
    listed.job = std::move(job);
    return listed;
  }

  const std::string folder_;
};

}  // namespace

std::unique_ptr<JobSource> MakeLocalSource(const std::string& folder) {
  return std::make_unique<LocalSource>(folder);
}

}  // namespace lockstep::cli
