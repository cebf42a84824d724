#include "trainer/plan/pod_memory.h"

#include <algorithm>
#include <limits>

#include "base/check.h"

namespace lockstep::train {
namespace {

// A sum that would wrap stays at the largest number: a small one would seem to fit.
void Add(std::size_t bytes, std::size_t& sum) {
  constexpr std::size_t kMost = std::numeric_limits<std::size_t>::max();
  sum = bytes > kMost - sum ? kMost : sum + bytes;
}

// One number for each pod that trains, the leading one first.
std::vector<std::size_t> TrainingPods(const Identity& identity, const PodContents& contents) {
  const auto processes = static_cast<std::size_t>(identity.processes_per_pod);
  const std::size_t all = static_cast<std::size_t>(identity.Pods()) * processes;
  LOCKSTEP_CHECK(contents.replicas.size() == 1 || contents.replicas.size() == all,
                 "plan: found {} replicas that save, expected 1 or {}", contents.replicas.size(),
                 all);
  std::vector<std::size_t> pods(static_cast<std::size_t>(identity.Pods()), contents.supervisor);
  for (std::size_t process = 0; process < all; ++process) {
    const bool saves = process < contents.replicas.size();
    const ReplicaMemory& replica = saves ? contents.replicas[process] : contents.other;
    Add(replica.total() - contents.program, pods[process / processes]);
  }
  return pods;
}

}  // namespace

std::size_t PlannedMemory::WithoutLimit() const {
  std::size_t bytes = 0;
  for (const PlannedPods& role : pods) Add(role.limit ? 0 : role.all, bytes);
  return bytes;
}

bool PlannedMemory::Fits(std::uint64_t available) const {
  return WithoutLimit() <= available && std::ranges::all_of(pods, &PlannedPods::FitsLimit);
}

PlannedMemory MemoryOfPods(const Identity& identity, const PodContents& contents,
                           const PodLimits& limits) {
  PlannedMemory memory;
  memory.replica =
      *std::ranges::max_element(contents.replicas, {}, [](const auto& r) { return r.total(); });
  const auto add = [&](api::Role role, const std::vector<std::size_t>& pods) {
    if (pods.empty()) return;
    PlannedPods planned{.role = role,
                        .count = static_cast<int>(pods.size()),
                        .bytes = *std::ranges::max_element(pods)};
    for (const std::size_t bytes : pods) Add(bytes, planned.all);
    if (const auto limit = limits.find(role); limit != limits.end()) planned.limit = limit->second;
    Add(planned.all, memory.job);
    memory.pods.push_back(planned);
  };
  std::vector<std::size_t> pods = TrainingPods(identity, contents);
  const auto chiefs = static_cast<std::ptrdiff_t>(identity.cluster.chief.size());
  add(api::Role::kChief, {pods.begin(), pods.begin() + chiefs});
  add(api::Role::kWorker, {pods.begin() + chiefs, pods.end()});
  std::vector<std::size_t> servers, evaluators;
  const std::size_t beside = contents.supervisor - contents.program;
  for (const std::size_t bytes : contents.servers) servers.push_back(beside + bytes);
  for (const ReplicaMemory& evaluator : contents.evaluators) {
    evaluators.push_back(beside + evaluator.total());
  }
  add(api::Role::kParameterServer, servers);
  add(api::Role::kEvaluator, evaluators);
  return memory;
}

}  // namespace lockstep::train
