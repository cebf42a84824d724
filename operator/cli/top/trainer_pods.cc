#include "operator/cli/top/trainer_pods.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <iterator>
#include <thread>
#include <utility>

#include "api/v1/names.h"
#include "base/status.h"
#include "operator/cli/cluster/job_pods.h"
#include "operator/cli/cluster/pod_state.h"
#include "operator/controller/children/replica_env.h"
#include "operator/controller/state/main_container.h"
#include "operator/kube/rest/http_transport.h"

namespace lockstep::cli {
namespace {

constexpr char kMetricsPath[] = "/metrics";
constexpr std::size_t kMostProcesses = 256;                // of a pod
constexpr std::size_t kMostBytes = std::size_t{1} << 20U;  // so many ranks take half of it
constexpr Duration kMostOfPod = std::chrono::seconds(2);
constexpr std::size_t kMostAtOnce = 16;

using Ranks = std::vector<RankMetrics>;

struct Pod {
  std::string replica;
  std::size_t processes = kMostProcesses;  // each is a rank
  std::function<absl::StatusOr<std::string>(Duration timeout)> read;
};

absl::StatusOr<std::string> ReadUntil(SteadyTime deadline, const Pod& pod) {
  const Duration left = deadline - std::chrono::steady_clock::now();
  if (left <= Duration::zero()) {
    return absl::DeadlineExceededError("not asked: the time was over while others were silent");
  }
  return pod.read(std::min(left, kMostOfPod));
}

// Keeps of the answer, which has megabytes if the pod's owner likes, the ranks alone.
absl::StatusOr<Ranks> RanksOf(const Pod& pod, SteadyTime deadline) {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string text, ReadUntil(deadline, pod));
  Ranks ranks = ParseRankMetrics(text, pod.processes);
  for (RankMetrics& rank : ranks) rank.replica = pod.replica;
  return ranks;
}

std::vector<absl::StatusOr<Ranks>> ReadAll(const std::vector<Pod>& pods, SteadyTime deadline) {
  std::vector<absl::StatusOr<Ranks>> answers(pods.size());
  std::atomic<std::size_t> next = 0;
  std::vector<std::jthread> readers(std::min(pods.size(), kMostAtOnce));
  for (std::jthread& reader : readers) {
    reader = std::jthread([&] {
      for (std::size_t i = next++; i < pods.size(); i = next++) {
        answers[i] = RanksOf(pods[i], deadline);
      }
    });
  }
  readers.clear();  // joins
  return answers;
}

PodsRead ReadEach(const std::vector<Pod>& pods, Duration most) {
  PodsRead all;
  const SteadyTime begin = std::chrono::steady_clock::now();
  std::vector<absl::StatusOr<Ranks>> answers = ReadAll(pods, begin + most);
  all.took = std::chrono::steady_clock::now() - begin;
  for (std::size_t i = 0; i < pods.size(); ++i) {
    if (answers[i].ok()) {
      std::ranges::move(*answers[i], std::back_inserter(all.ranks));
    } else {
      all.unread.push_back({pods[i].replica, answers[i].status()});
    }
  }
  std::ranges::stable_sort(all.ranks, {}, &RankMetrics::rank);
  return all;
}

absl::StatusOr<std::string> ReadAt(const std::string& address, Duration timeout) {
  kube::HttpTransportOptions options;
  options.server = "http://" + address;
  LOCKSTEP_ASSIGN_OR_RETURN(const auto transport, kube::MakeHttpTransport(std::move(options)));
  kube::HttpRequest request{"GET", kMetricsPath};
  request.accept = "*/*";
  request.most_bytes = kMostBytes;
  LOCKSTEP_ASSIGN_OR_RETURN(kube::HttpResponse answer, transport->Send(request, timeout));
  if (answer.status == 200 && !answer.too_long) return std::move(answer.body);
  return absl::InternalError(fmt::format("{}{} answered with status {}, expected 200", address,
                                         kMetricsPath, answer.status));
}

}  // namespace

PodsRead ReadTrainerPods(kube::RestClient& client, const api::TrainingJob& job,
                         const std::vector<kube::Object>& objects, Duration most) {
  std::vector<Pod> pods;
  for (const kube::Object& object : objects) {
    const auto role = api::RoleFromName(kube::Label(object, api::kLabelRole));
    const bool trains = role == api::Role::kChief || role == api::Role::kWorker;
    if (!trains || !IsRunning(object, controller::MainContainerName(object))) continue;
    const auto processes = static_cast<std::size_t>(controller::ProcessesPerPod(job, *role));
    pods.push_back(
        {ReplicaName(object), processes, [&client, key = kube::KeyOf(object)](Duration timeout) {
           return client.GetFromPod(key, api::kMetricsPort, kMetricsPath, kMostBytes, timeout);
         }});
  }
  return ReadEach(pods, most);
}

PodsRead ReadTrainerPods(const std::map<std::string, std::string>& addresses, Duration most) {
  std::vector<Pod> pods;
  for (const auto& [replica, address] : addresses) {
    pods.push_back({replica, kMostProcesses,
                    [&address](Duration timeout) { return ReadAt(address, timeout); }});
  }
  return ReadEach(pods, most);
}

}  // namespace lockstep::cli
