#include "operator/cli/ui/cluster_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <stop_token>
#include <tuple>
#include <utility>

#include "base/rfc3339.h"
#include "base/status.h"
#include "base/thread_pool.h"
#include "operator/cli/cluster/job_pods.h"
#include "operator/cli/cluster/pod_state.h"
#include "operator/cli/logs/resumed_log.h"
#include "operator/cli/text/job_table.h"
#include "operator/controller/observe_job.h"
#include "operator/controller/state/kinds.h"
#include "operator/controller/state/main_container.h"
#include "operator/kube/rest/timer_thread.h"

namespace lockstep::cli {
namespace {

using kube::Object;

constexpr Duration kMetricsTime = std::chrono::seconds(2);  // for a job's pods
constexpr Duration kLogTime = std::chrono::seconds(3);      // for a job's logs
constexpr std::size_t kMostPods = 32;                       // whose logs are read
constexpr int kTailOfOne = 1000, kTailOfEach = 200;         // lines
constexpr std::size_t kMostOfPodLog = std::size_t{1} << 20U;

// A pod's log up to now.
struct PodTail {
  Object pod;
  std::vector<LogLine> lines;  // of this reading
  ResumedLog log{[this](std::string_view line) { Take(line); }};
  absl::Status read;
  bool is_whole = false;        // was read to its end the last time
  bool is_silent = false;       // had no answer the last time
  std::optional<int> restarts;  // of the container whose log was read; nullopt: none yet

  void Take(std::string_view line) {
    const std::size_t space = line.find(' ');
    const auto time = ParseRfc3339(line.substr(0, space));
    std::string_view text = time ? line.substr(space + 1) : line;
    if (text.ends_with('\n')) text.remove_suffix(1);
    const Time last = log.latest().value_or(Time());
    lines.push_back({time.value_or(last), ReplicaName(pod), std::string(text)});
  }
};

class ClusterLogTail final : public LogTail {
 public:
  ClusterLogTail(kube::RestClient& client, kube::Key job, std::string replica)
      : client_(client), job_(std::move(job)), replica_(std::move(replica)) {}

  absl::Status Read(std::vector<LogLine>& lines) override {
    LOCKSTEP_ASSIGN_OR_RETURN(const JobFacts facts, ReadJobFacts(client_, job_));
    std::size_t with_log = 0;
    std::map<std::string, std::unique_ptr<PodTail>> present;
    for (const Object& pod : facts.pods) {
      if (!replica_.empty() && ReplicaName(pod) != replica_) continue;
      if (!HasLog(pod, controller::MainContainerName(pod), false)) continue;
      if (++with_log > kMostPods) continue;
      std::unique_ptr<PodTail>& tail = present[kube::Uid(pod)];
      const auto old = tails_.find(kube::Uid(pod));
      tail = old == tails_.end() ? std::make_unique<PodTail>() : std::move(old->second);
      tail->pod = pod;
    }
    tails_ = std::move(present);
    ReadAll();
    absl::Status first_error;
    for (const auto& [uid, tail] : tails_) {
      std::ranges::move(tail->lines, std::back_inserter(lines));
      tail->lines.clear();
      if (!tail->read.ok()) first_error.Update(tail->read);
    }
    if (with_log == 0) return absl::NotFoundError("no pod has a log now");
    if (with_log > kMostPods) {
      first_error.Update(absl::ResourceExhaustedError(
          fmt::format("the logs of {} of {} replicas are shown: choose one", kMostPods, with_log)));
    }
    return first_error;
  }

 private:
  void ReadAll() {
    std::vector<PodTail*> todo;
    for (const auto& [uid, tail] : tails_) todo.push_back(tail.get());
    // All begin at once, so that each has the whole time, however slow the others are. The
    // logs that had no answer the last time come first, for a server that takes fewer at a time.
    std::ranges::stable_sort(todo, std::greater(), &PodTail::is_silent);
    const SteadyTime end = std::chrono::steady_clock::now() + kLogTime;
    const auto read = [&](std::size_t i) {
      // False only if the pool had no thread for it in time.
      const bool has_time = std::chrono::steady_clock::now() < end;
      if (has_time) todo[i]->read = ReadPod(*todo[i], end);
    };
    readers_.VisitEach(todo.size(), todo.size(), read);
  }

  // If the kubelet has restarted the container, reads the rest of the previous log first.
  absl::Status ReadPod(PodTail& tail, SteadyTime end) {
    const int restarts = RestartsOf(tail.pod, controller::MainContainerName(tail.pod));
    if (tail.restarts.value_or(restarts) != restarts) {
      // Ignored on failure, unless time is up: the kubelet may no longer have that log.
      const absl::Status read = ReadContainer(tail, true, end);
      if (std::chrono::steady_clock::now() >= end) return read;
      if (tail.is_whole) tail.log.End();
    }
    LOCKSTEP_RETURN_IF_ERROR(ReadContainer(tail, false, end));
    tail.restarts = restarts;
    const bool runs = IsRunning(tail.pod, controller::MainContainerName(tail.pod));
    if (tail.is_whole && !runs) tail.log.End();
    return absl::OkStatus();
  }

  // Reads the newest lines only, so lines of a log that grows faster than it is read are left out.
  absl::Status ReadContainer(PodTail& tail, bool previous, SteadyTime end) {
    kube::PodLogOptions options{.container = controller::MainContainerName(tail.pod),
                                .previous = previous,
                                .tail_lines = replica_.empty() ? kTailOfEach : kTailOfOne,
                                .timestamps = true};
    options.since_time = tail.log.latest();
    tail.log.Resume();
    std::stop_source limit;
    const auto alarm = timer_.Set(end, [limit]() mutable { limit.request_stop(); });
    std::size_t bytes = 0;
    const absl::Status read = client_.ReadPodLog(kube::KeyOf(tail.pod), options, limit.get_token(),
                                                 [&](const std::string& text) {
                                                   bytes += text.size();
                                                   if (bytes > kMostOfPodLog) limit.request_stop();
                                                   if (!limit.stop_requested()) tail.log.Add(text);
                                                 });
    timer_.Cancel(alarm);
    tail.is_whole = read.ok() && !limit.stop_requested();
    tail.is_silent = bytes == 0 && limit.stop_requested();
    if (!tail.is_silent || !read.ok()) return read;
    return absl::DeadlineExceededError(fmt::format(
        "{}: found no answer within {:.0f} s, expected its log: its node or the API server may be "
        "slow or unreachable",
        ReplicaName(tail.pod), std::chrono::duration<double>(kLogTime).count()));
  }

  kube::RestClient& client_;
  const kube::Key job_;
  const std::string replica_;
  kube::TimerThread timer_;
  ThreadPool readers_{kMostPods};
  std::map<std::string, std::unique_ptr<PodTail>> tails_;  // by the pods' uids
};

class ClusterSource final : public JobSource {
 public:
  ClusterSource(kube::RestClient& client, std::string namespace_name)
      : client_(client), namespace_(std::move(namespace_name)) {}

  std::string Name() const override {
    return namespace_.empty() ? "all namespaces" : fmt::format("namespace {}", namespace_);
  }

  absl::StatusOr<std::vector<ListedJob>> List() override {
    std::vector<ListedJob> jobs;
    LOCKSTEP_RETURN_IF_ERROR(ForEachListed(
        client_, controller::kTrainingJobKind, {.namespace_name = namespace_},
        [&](const Object& object) { jobs.push_back(Listed(controller::ObserveJob(object).job)); }));
    std::ranges::sort(jobs, {}, &ListedJob::key);
    return jobs;
  }

  absl::StatusOr<JobLook> Look(const kube::Key& job, bool events) override {
    JobLook look;
    LOCKSTEP_ASSIGN_OR_RETURN(look.facts, ReadFactsAsAllowed(client_, job));
    if (events) ReadEvents(client_, look.facts);
    look.listed = Listed(look.facts.job);
    look.seen = LookAtJob(client_, look.facts.job, look.facts.pods, kMetricsTime);
    return look;
  }

  std::unique_ptr<LogTail> Tail(const kube::Key& job, const std::string& replica) override {
    return std::make_unique<ClusterLogTail>(client_, job, replica);
  }

 private:
  static ListedJob Listed(api::TrainingJob job) {
    ListedJob listed{.key = {job.metadata.namespace_name, job.metadata.name},
                     .job = {},
                     .state = StateName(job.status)};
    listed.job = std::move(job);
    return listed;
  }

  kube::RestClient& client_;
  const std::string namespace_;
};

}  // namespace

std::unique_ptr<JobSource> MakeClusterSource(kube::RestClient& client,
                                             const std::string& namespace_name) {
  return std::make_unique<ClusterSource>(client, namespace_name);
}

}  // namespace lockstep::cli
