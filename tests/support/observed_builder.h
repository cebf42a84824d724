// Builds what a reconcile observes, in one line:
// Seen(Job("mnist").Workers(2)).Worker(0, kReady).Worker(1, Exited(137)).Build().
#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <utility>

#include "operator/controller/children/addresses.h"
#include "operator/controller/memory/seen_evaluator.h"
#include "operator/controller/rules/deadline_rule.h"
#include "operator/controller/rules/make_plan.h"
#include "operator/controller/rules/parts/plan.h"
#include "operator/controller/rules/parts/pod_failures.h"
#include "operator/controller/rules/parts/progress_deadline.h"
#include "operator/controller/state/observed.h"
#include "tests/support/builders.h"

namespace lockstep::testing {

using PodState = std::function<void(controller::ObservedPod&)>;

inline const PodState kPending = [](controller::ObservedPod&) {};
inline const PodState kReady = [](controller::ObservedPod& pod) {
  pod.phase = controller::PodPhase::kRunning;
  pod.ready = true;
};
inline PodState Exited(int code, std::string reason = "", std::optional<Time> at = {}) {
  return [=](controller::ObservedPod& pod) {
    pod.phase = code == 0 ? controller::PodPhase::kSucceeded : controller::PodPhase::kFailed;
    pod.termination = controller::Termination{
        .exit_code = code,
        .signal = 0,
        .reason = reason,
        .message = "last words",
        .progress = std::nullopt,
        .finished_at = at,
        .started_at = Time(std::chrono::seconds(1'700'000'000))};  // Seen's `now`
  };
}
// Exited, and observed for Settings::settling, so the failure is judged at once.
inline PodState ExitedBefore(int code, Duration ago = std::chrono::seconds(10)) {
  return [=](controller::ObservedPod& pod) {
    Exited(code)(pod);
    pod.failed_since = Time(std::chrono::seconds(1'700'000'000)) - ago;  // Seen's `now`
  };
}
// Evicted by a node that is short of memory.
inline PodState Evicted() {
  return [](controller::ObservedPod& pod) {
    pod.phase = controller::PodPhase::kFailed;
    pod.reason = "Evicted";
    pod.disruption_target = true;
    pod.disruption_reason = "TerminationByKubelet";
  };
}
// Evicted by the kubelet although the node is short of nothing: the pod has filled a volume beyond
// its limit.
inline PodState EvictedForItsOwnLimit(int code = 137) {
  return [code](controller::ObservedPod& pod) {
    Exited(code, "Error")(pod);
    pod.reason = "Evicted";
    pod.message = "Usage of EmptyDir volume \"scratch\" exceeds the limit \"1Gi\".";
  };
}
inline const PodState kBeingDeleted = [](controller::ObservedPod& pod) {
  kReady(pod);
  pod.being_deleted = true;
};

class Seen {
 public:
  explicit Seen(const JobBuilder& job) : Seen(job.BuildWithDefaults()) {}
  explicit Seen(api::TrainingJob job) {
    observed_.job = std::move(job);
    observed_.now = observed_.first_seen = Time(std::chrono::seconds(1'700'000'000));
  }

  // Adds a pod of the present attempt, with uid "<name>-uid".
  Seen& Pod(api::Role role, int index, const PodState& state) {
    controller::ObservedPod pod;
    pod.role = role;
    pod.index = index;
    pod.attempt = observed_.job.status.attempt;
    pod.name = controller::PodName(observed_.job, role, index);
    pod.uid = pod.name + "-uid";
    state(pod);
    const auto place =
        std::ranges::upper_bound(observed_.pods, PlaceOf(pod), {}, controller::PlaceOf);
    observed_.pods.insert(place, std::move(pod));
    return *this;
  }
  Seen& Worker(int index, const PodState& state) { return Pod(api::Role::kWorker, index, state); }
  Seen& Service(bool has = true) {
    observed_.has_service = has;
    return *this;
  }
  // Makes the job Running, as a plan does with all workers ready. Removes the pods again.
  Seen& Running() {
    Service();
    observed_.pods.clear();
    for (int i = 0; i < observed_.job.spec.replica_specs.at(api::Role::kWorker).replicas; ++i) {
      Worker(i, kReady);
    }
    Write();
    observed_.pods.clear();
    return *this;
  }
  // Writes the plan's status, and remembers what StatusWriter would.
  Seen& Write() {
    const controller::Plan plan = Plan();
    observed_.job.status = plan.status;
    if (plan.incident) {
      observed_.last_restart = observed_.now;
      observed_.incident = plan.incident;
    }
    if (plan.ignored_edit) observed_.ignored_edit = *plan.ignored_edit;
    if (plan.names_cause) observed_.last_cause = observed_.now;
    return *this;
  }
  Seen& NoPods() {
    observed_.pods.clear();
    return *this;
  }
  Seen& Later(Duration duration) {
    observed_.now += duration;
    return *this;
  }
  Seen& With(const std::function<void(controller::Observed&)>& change) {
    change(observed_);
    return *this;
  }
  const controller::Observed& Build() {
    if (!controller::IsWaiting(observed_)) {
      observed_.waiting_since.reset();
    } else if (!observed_.waiting_since) {
      observed_.waiting_since = observed_.now;
    }
    if (!controller::IsComplete(observed_)) {
      observed_.complete_since.reset();
    } else if (!observed_.complete_since) {
      observed_.complete_since = observed_.now;
    }
    observed_.until_stranded = controller::UntilStranded(observed_);
    const auto due = evaluator_.UpdateDue(observed_, SteadyTime(observed_.now.time_since_epoch()));
    observed_.evaluator_due = due ? std::optional(Time(due->time_since_epoch())) : std::nullopt;
    observed_.evaluator_has_given_up = evaluator_.has_given_up();
    return observed_;
  }
  controller::Plan Plan() { return controller::MakePlan(Build()); }

 private:
  controller::Observed observed_;
  controller::SeenEvaluator evaluator_;
};

}  // namespace lockstep::testing
