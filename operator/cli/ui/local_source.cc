#include "operator/cli/ui/local_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <tuple>
#include <utility>

#include "base/folder_entries.h"
#include "base/status.h"
#include "operator/cli/local/work_dir.h"
#include "operator/cli/text/job_table.h"
#include "operator/cli/ui/local_log.h"
#include "operator/controller/observe_job.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::size_t kMostShownRuns = 100;

// Knows nothing of a run that has not written its view yet, or that is of an earlier version.
controller::ObservedJob ObserveRun(const json& view) {
  const json& job = kube::Member(view, "job");
  return job.is_object() ? controller::ObserveJob(job) : controller::ObservedJob();
}

class LocalSource final : public JobSource {
 public:
  explicit LocalSource(std::string folder) : folder_(std::move(folder)) {}

  std::string Name() const override { return fmt::format("runs on this machine in {}", folder_); }

  absl::StatusOr<std::vector<ListedJob>> List() override {
    const std::scoped_lock lock(mutex_);
    std::vector<ListedJob> jobs;
    std::map<std::string, ViewedJob> viewed;
    for (const std::string& run : Runs()) {
      const ViewedJob& now = viewed.emplace(run, JobOf(run)).first->second;
      jobs.push_back(Listed(run, now.job, WorkDir::ReadMetricsAddresses(run).ok()));
    }
    viewed_ = std::move(viewed);  // without those of folders that are gone
    return jobs;
  }

  absl::StatusOr<JobLook> Look(const kube::Key& job, bool /*events*/) override {
    if (!IsRun(job.name)) {
      return absl::NotFoundError(fmt::format("{} is no work directory of a run", job.name));
    }
    const json view = WorkDir::ReadView(job.name);
    JobLook look;
    const controller::ObservedJob observed = ObserveRun(view);
    look.facts.job = observed.job;
    if (!view.is_null()) look.facts.invalid = observed.invalid.value_or("");
    for (const json& pod : kube::ListMember(view, "pods")) look.facts.pods.push_back(pod);
    for (const json& event : kube::ListMember(view, "events")) look.facts.events.push_back(event);
    // A run whose programs serve no metrics cannot be looked at, and goes on all the same.
    const bool runs = WorkDir::ReadMetricsAddresses(job.name).ok();
    absl::StatusOr<std::vector<SeenJob>> seen = LookAtRun(job.name);
    if (seen.ok()) look.seen = std::move(seen->front());
    look.listed = Listed(job.name, look.facts.job, runs);
    look.seen.over = !runs;
    SetProgress(look.seen.ranks, look.facts.job.status, look.seen.top);
    if (look.seen.over) look.seen.top.remaining_seconds.reset();
    look.seen.top.name = job.name;
    look.seen.top.state = look.listed.state;
    look.seen.top.ready = look.facts.job.status.ready_replicas;
    look.curve = CurveFromJson(kube::Member(view, "curve"));
    return look;
  }

  std::unique_ptr<LogTail> Tail(const kube::Key& job, const std::string& replica) override {
    return MakeLocalLogTail(job.name, replica, [this, name = job.name] { return IsRun(name); });
  }

 private:
  struct ViewedJob {
    std::optional<Time> written;  // the view
    api::TrainingJob job;
  };

  // A view may have megabytes, and that of a run that has ended is the same each time. Requires
  // mutex_.
  ViewedJob JobOf(const std::string& run) {
    const auto written = WorkDir::ViewWrittenAt(run);
    const auto before = viewed_.find(run);
    if (written && before != viewed_.end() && before->second.written == written) {
      return before->second;
    }
    return {written, ObserveRun(WorkDir::ReadView(run)).job};
  }

  // The run that was started last comes first. The times of the folders would not do: a run writes
  // into its folder all the time, so two runs would keep changing places.
  std::vector<std::string> Runs() const {
    if (WorkDir::LastStart(folder_)) return {folder_};
    std::vector<std::pair<Time, std::string>> found;
    for (const fs::path& path : PathsIn(folder_)) {
      const auto start = WorkDir::LastStart(path.string());
      if (start) found.emplace_back(*start, path.string());
    }
    std::ranges::sort(found, [](const auto& one, const auto& other) {
      return std::tie(other.first, one.second) < std::tie(one.first, other.second);
    });
    if (found.size() > kMostShownRuns) found.resize(kMostShownRuns);
    std::vector<std::string> runs;
    for (auto& [time, path] : found) runs.push_back(std::move(path));
    return runs;
  }

  // A name comes from a page: it must be one of those that are listed.
  bool IsRun(const std::string& name) const {
    const std::vector<std::string> runs = Runs();
    return std::ranges::find(runs, name) != runs.end();
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
  std::mutex mutex_;
  std::map<std::string, ViewedJob> viewed_;  // by folder, at the last list; guarded by mutex_
};

}  // namespace

std::unique_ptr<JobSource> MakeLocalSource(const std::string& folder) {
  return std::make_unique<LocalSource>(folder);
}

}  // namespace lockstep::cli
