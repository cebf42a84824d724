#include "operator/controller/rules/parts/progress_deadline.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string>

#include "base/rfc3339.h"
#include "operator/controller/rules/parts/failure_report.h"
#include "operator/controller/rules/parts/group_size.h"
#include "operator/controller/rules/parts/readiness.h"
#include "operator/controller/rules/parts/status.h"
#include "operator/controller/state/replicas.h"
#include "operator/controller/state/times.h"

namespace lockstep::controller {
namespace {

// A report that is awaited may be a little late. Each look at the job costs something.
constexpr Duration kShortestLook = std::chrono::seconds(1);

// A readiness probe that fails may be a sign of the very stall, so it does not count here.
bool Runs(const Observed& observed, const Replica& replica) {
  const ObservedPod* pod = FindPod(observed, replica);
  if (pod == nullptr || pod->being_deleted || IsObsolete(observed, *pod)) return false;
  if (PodSucceeded(*pod)) return true;
  return IsActive(*pod) && pod->phase == PodPhase::kRunning && pod->waiting_reason.empty() &&
         !pod->node_silent_since;
}

std::string StepText(const std::optional<api::Progress>& progress) {
  if (!progress || progress->step == 0) return "has not finished its first step";
  const std::string of =
      progress->total_steps > 0 ? fmt::format(" of {}", progress->total_steps) : "";
  return fmt::format("has finished no step since step {}{}", progress->step, of);
}

// Returns the replica of the processes that the others wait for; nullopt if they are of several.
std::optional<Replica> Awaited(const Observed& observed) {
  const std::vector<Straggler>& stragglers = observed.group.stragglers;
  if (stragglers.empty()) return std::nullopt;
  const std::string& name = stragglers.front().replica;
  if (!std::ranges::all_of(stragglers, [&](const auto& one) { return one.replica == name; })) {
    return std::nullopt;
  }
  const std::vector<Replica> all = AllReplicas(observed.job);
  const auto found = std::ranges::find(all, name, [](const Replica& r) { return Describe(r); });
  return found == all.end() ? std::nullopt : std::optional(*found);
}

// "; the others wait for worker-2 (rank 2), which computes its gradients"; empty if it is not known
// for whom.
std::string StragglersText(const std::vector<Straggler>& stragglers) {
  std::string text;
  for (const Straggler& one : stragglers) {
    text += fmt::format("{}{} (rank {}), which {}",
                        text.empty() ? "; the others wait for " : ", and for ", one.replica,
                        one.rank, one.doing);
  }
  return text;
}

}  // namespace

bool IsComplete(const Observed& observed) {
  if (!observed.job.spec.run_policy.progress_deadline_seconds) return false;
  const std::vector<Replica> wanted = WantedReplicas(observed.job);
  // Workers that the group has yet to take in do not keep the others from training.
  const int members = GroupWorkers(observed).value_or(std::numeric_limits<int>::max());
  return !wanted.empty() && std::ranges::all_of(wanted, [&](const Replica& replica) {
    const bool is_new = replica.role == api::Role::kWorker && replica.index >= members;
    return is_new || !IsRequired(observed.job, replica) || Runs(observed, replica);
  });
}

std::optional<Duration> UntilStalled(const Observed& observed) {
  const auto& seconds = observed.job.spec.run_policy.progress_deadline_seconds;
  if (!seconds || !observed.complete_since || !observed.group.in_step_for) return std::nullopt;
  const Duration stalled =
      std::min(*observed.group.in_step_for, observed.now - *observed.complete_since);
  return std::chrono::seconds(*seconds) - stalled;
}

std::optional<Duration> UntilProgressDeadline(const Observed& observed) {
  const std::optional<Duration> left = UntilStalled(observed);
  if (!left || *left <= Duration::zero()) return std::nullopt;
  return std::max(*left, kShortestLook);
}

std::optional<PodFailure> FindStall(const Observed& observed) {
  const std::optional<Duration> left = UntilStalled(observed);
  const Replica leader = LeadingReplica(observed.job);
  const ObservedPod* pod = FindPod(observed, leader);
  if (!left || *left > Duration::zero() || pod == nullptr || !IsActive(*pod)) return std::nullopt;
  const std::int64_t allowed = *observed.job.spec.run_policy.progress_deadline_seconds;
  const auto stalled =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::seconds(allowed) - *left);
  // The rules of podFailurePolicy are about the leading replica, whoever keeps it waiting.
  const Replica awaited = Awaited(observed).value_or(leader);
  const ObservedPod* awaited_pod = FindPod(observed, awaited);
  return PodFailure{
      .pod = awaited_pod == nullptr ? pod : awaited_pod,
      .replica = awaited_pod == nullptr ? leader : awaited,
      .cause = Classify(observed.job, *pod),
      .rule = FindFailureRule(observed.job, {.pod = pod, .found = kProgressDeadlineExceeded}),
      .stall = fmt::format("the job makes no progress: {}{} {}, since {} ({} s ago; "
                           "progressDeadlineSeconds is {}){}",
                           Describe(leader), OnNode(pod->node), StepText(observed.progress),
                           FormatRfc3339(WholeSeconds(observed.now - stalled)), stalled.count(),
                           allowed, StragglersText(observed.group.stragglers)),
      .stall_reason = kProgressDeadlineExceeded};
}

}  // namespace lockstep::controller
