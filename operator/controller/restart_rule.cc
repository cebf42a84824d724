#include "operator/controller/restart_rule.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "api/v1/names.h"
#include "operator/controller/attempt.h"
#include "operator/controller/lost_pod_rule.h"
#include "operator/controller/replicas.h"
#include "operator/controller/status.h"
#include "operator/kube/backoff.h"

namespace lockstep::controller {
namespace {

// What a kubelet or a node controller calls an end that is not the program's doing.
constexpr std::string_view kDisruptionReasons[] = {"Evicted",
                                                   "Preempting",
                                                   "Preempted",
                                                   "Shutdown",
                                                   "NodeShutdown",
                                                   "Terminated",
                                                   "NodeLost",
                                                   "NodeAffinity",
                                                   "OutOfcpu",
                                                   "OutOfmemory",
                                                   "OutOfpods",
                                                   "OutOfnvidia.com/gpu",
                                                   "UnexpectedAdmissionError",
                                                   "TopologyAffinityError"};

// A job without progress reports that ran this long was healthy.
constexpr Duration kHealthyRun = std::chrono::minutes(10);

struct Loss {
  const ObservedPod* pod = nullptr;  // null: the pod has vanished
  Replica replica;
  LossCause cause = LossCause::kApplication;
};

bool IsNewLoss(const Observed& observed, const ObservedPod& pod) {
  if (!IsMember(observed, pod) || HasSucceeded(pod)) return false;
  if (!HasFailed(pod) && !pod.being_deleted && !IsUnreachable(observed, pod)) return false;
  const auto& counted = observed.job.status.counted_pods;
  return std::ranges::find(counted, pod.uid) == counted.end();
}

bool IsGangLoss(const Observed& observed, const Loss& loss) {
  return observed.job.spec.restart_scope == api::RestartScope::kGang &&
         loss.replica.role != api::Role::kEvaluator;
}

// A gang that has run cannot take a new member in place of one whose pod is gone without a trace.
void AddVanished(const Observed& observed, std::vector<Loss>& losses) {
  if (observed.job.spec.restart_scope != api::RestartScope::kGang) return;
  if (!IsTrue(observed.job.status, kRunning)) return;
  for (const Replica& replica : WantedReplicas(observed.job)) {
    const auto known = observed.job.status.replica_statuses.find(replica.role);
    const bool is_new = known == observed.job.status.replica_statuses.end() ||
                        replica.index >= known->second.desired;
    if (replica.role == api::Role::kEvaluator || is_new) continue;
    if (FindPod(observed, replica) == nullptr) {
      losses.push_back({nullptr, replica, LossCause::kDisruption});
    }
  }
}

std::vector<Loss> NewLosses(const Observed& observed) {
  std::vector<Loss> losses;
  for (const ObservedPod& pod : observed.pods) {
    if (!IsNewLoss(observed, pod)) continue;
    const bool node_lost = !HasFailed(pod) && IsUnreachable(observed, pod);
    losses.push_back({&pod,
                      {pod.role, pod.index},
                      node_lost ? LossCause::kDisruption : Classify(observed.job, pod)});
  }
  AddVanished(observed, losses);
  // The earliest end comes first: what follows is often its consequence.
  std::ranges::stable_sort(losses, {}, [&observed](const Loss& loss) {
    const bool known = loss.pod != nullptr && loss.pod->termination;
    return known ? loss.pod->termination->finished_at.value_or(observed.now) : observed.now;
  });
  return losses;
}

// A failure is charged whoever deletes the pod afterwards. Times are whole seconds: in doubt the
// deletion came first.
bool EndedBeforeItsDeletion(const ObservedPod& pod) {
  return pod.deletion && pod.termination && pod.termination->finished_at &&
         *pod.termination->finished_at < pod.deletion->RequestedAt();
}

std::string Describe(const Loss& loss) {
  const std::string who = Describe(loss.replica);
  if (loss.pod == nullptr) return fmt::format("the pod of {} has vanished", who);
  const ObservedPod& pod = *loss.pod;
  const std::string where = pod.node.empty() ? "" : fmt::format(" on node {}", pod.node);
  if (pod.termination) {
    const std::string& reason = pod.termination->reason;
    return fmt::format("{}{} exited with code {}{}", who, where, pod.termination->exit_code,
                       reason.empty() || reason == "Error" ? "" : fmt::format(" ({})", reason));
  }
  if (!pod.reason.empty()) return fmt::format("{}{} was lost: {}", who, where, pod.reason);
  if (pod.disruption_target) {
    return fmt::format("{}{} was disrupted: {}", who, where, pod.disruption_reason);
  }
  const char* how = "has failed";
  if (pod.being_deleted) how = "is being deleted";
  if (!HasFailed(pod) && pod.unreachable_since) how = "cannot be reached: its node is silent";
  return fmt::format("the pod of {}{} {}", who, where, how);
}

api::Failure FailureOf(const Loss& loss) {
  api::Failure failure{.role = std::string(api::RoleName(loss.replica.role)),
                       .index = loss.replica.index,
                       .node = "",
                       .exit_code = 0,
                       .reason = "PodVanished",
                       .message = ""};
  if (loss.pod == nullptr) return failure;
  failure.node = loss.pod->node;
  failure.reason = loss.pod->reason.empty() ? loss.pod->disruption_reason : loss.pod->reason;
  if (failure.reason.empty()) failure.reason = loss.pod->unreachable_since ? "NodeLost" : "PodLost";
  failure.message = loss.pod->message;
  // An end that the kubelet has made good by a restart says most of a pod that restarts for ever.
  const auto& end = loss.pod->termination ? loss.pod->termination : loss.pod->last_end;
  if (end) {
    failure.exit_code = end->exit_code;
    failure.reason = end->reason;
    failure.message = end->message;
  }
  return failure;
}

Plan FailedPlan(const Observed& observed, const api::TrainingJobStatus& charged, const Loss& first,
                const std::string& reason, const std::string& message) {
  Plan plan = TerminalPlan(observed, kFailed, reason, message);
  plan.status.restarts = charged.restarts;
  plan.status.failure = FailureOf(first);
  return plan;
}

// A gang restarts once for all that it lost; a drained member takes the blame for peers that fell
// over.
void ChargeGang(const std::vector<Loss>& losses, api::TrainingJobStatus& status) {
  const bool disrupted = std::ranges::any_of(
      losses, [](const Loss& loss) { return loss.cause == LossCause::kDisruption; });
  ++(disrupted ? status.restarts.disruption : status.restarts.application);
}

void ChargePods(const std::vector<Loss>& losses, api::TrainingJobStatus& status) {
  for (const Loss& loss : losses) {
    const bool disrupted = loss.cause == LossCause::kDisruption;
    ++(disrupted ? status.restarts.disruption : status.restarts.application);
    status.restarts.application += loss.pod->restart_count;  // they go with the pod
    status.counted_pods.push_back(loss.pod->uid);
  }
}

// In scope Pod the kubelet starts containers again by itself; those count too.
std::optional<Plan> PlanKubeletRestarts(const Observed& observed) {
  int restarts = observed.job.status.restarts.application;
  const ObservedPod* worst = nullptr;
  for (const ObservedPod& pod : observed.pods) {
    const auto& counted = observed.job.status.counted_pods;
    if (!IsMember(observed, pod) || std::ranges::find(counted, pod.uid) != counted.end()) continue;
    restarts += pod.restart_count;
    if (worst == nullptr || pod.restart_count > worst->restart_count) worst = &pod;
  }
  const int limit = observed.job.spec.run_policy.backoff_limit;
  if (worst == nullptr || worst->restart_count == 0 || restarts <= limit) return std::nullopt;
  const Replica replica{worst->role, worst->index};
  return FailedPlan(observed, observed.job.status, {worst, replica, LossCause::kApplication},
                    "BackoffLimitExceeded",
                    fmt::format("{} was restarted {} times; backoffLimit ({}) is spent",
                                Describe(replica), worst->restart_count, limit));
}

bool WasHealthy(const Observed& observed) {
  if (observed.job.spec.training) return false;  // progress says it better
  const api::Condition* running = FindCondition(observed.job.status, kRunning);
  return IsTrue(observed.job.status, kRunning) &&
         observed.now - running->last_transition_time >= kHealthyRun;
}

}  // namespace

LossCause Classify(const api::TrainingJob& job, const ObservedPod& pod) {
  const bool named =
      std::ranges::find(kDisruptionReasons, pod.reason) != std::end(kDisruptionReasons);
  const bool deleted = pod.being_deleted && !EndedBeforeItsDeletion(pod);
  if (pod.disruption_target || deleted || named) return LossCause::kDisruption;
  const auto policy = job.spec.replica_specs.at(pod.role).restart_policy;
  switch (policy.value_or(api::RestartPolicy::kExitCode)) {
    case api::RestartPolicy::kNever:
      return LossCause::kPermanent;
    case api::RestartPolicy::kAlways:
    case api::RestartPolicy::kOnFailure:
      return LossCause::kApplication;
    case api::RestartPolicy::kExitCode:
      break;
  }
  // A pod that failed without its main container's exit code deserves another try.
  const bool retryable = !pod.termination || api::IsRetryableExitCode(pod.termination->exit_code);
  return retryable ? LossCause::kApplication : LossCause::kPermanent;
}

Duration RestartDelay(const Settings& settings, int restarts) {
  if (restarts <= 1) return Duration::zero();
  return kube::BackoffDelay({.initial = settings.restart_backoff,
                             .limit = settings.restart_backoff_limit,
                             .factor = 2.0,
                             .jitter = 0.0},
                            restarts - 1, 0.0);
}

std::optional<Plan> PlanRestart(const Observed& observed) {
  const std::vector<Loss> losses = NewLosses(observed);
  if (losses.empty()) return PlanKubeletRestarts(observed);
  const Loss& first = losses.front();
  const auto permanent = std::ranges::find(losses, LossCause::kPermanent, &Loss::cause);
  Plan plan;
  plan.status = BaseStatus(observed);
  api::TrainingJobStatus& status = plan.status;
  if (permanent != losses.end()) {
    return FailedPlan(observed, status, *permanent, "ReplicaFailed",
                      Describe(*permanent) + ", which is not retried");
  }
  const bool gang = std::ranges::any_of(
      losses, [&observed](const Loss& loss) { return IsGangLoss(observed, loss); });
  gang ? ChargeGang(losses, status) : ChargePods(losses, status);
  const int limit = observed.job.spec.run_policy.backoff_limit;
  if (status.restarts.application > limit) {
    return FailedPlan(observed, status, first, "BackoffLimitExceeded",
                      fmt::format("{}; backoffLimit ({}) is spent", Describe(first), limit));
  }
  if (WasHealthy(observed)) status.restarts.since_progress = 0;
  const Duration delay = RestartDelay(observed.settings, ++status.restarts.since_progress);
  status.next_retry_time.reset();
  if (delay > Duration::zero()) status.next_retry_time = WholeSeconds(observed.now + delay);
  status.failure = FailureOf(first);
  const std::string message =
      fmt::format("{}; {} again (application failures: {} of {}, disruptions: {})", Describe(first),
                  gang ? "all replicas start" : "it starts", status.restarts.application, limit,
                  status.restarts.disruption);
  if (gang) OpenNextAttempt(observed, "Restarting", message, status);
  plan.events.push_back({PlannedEvent::Type::kWarning, "Restarting", message});
  return plan;
}

}  // namespace lockstep::controller
