// Lives of a job, each with one end, that faults must not change.
#pragma once

#include <functional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/builders.h"
#include "tests/support/fake_kubelet.h"

namespace lockstep::testing {

struct Scenario {
  std::string name;
  JobBuilder job;
  // Told the pod and how often its name was seen before.
  std::function<FakeKubelet::Fate(const kube::Object& pod, int before)> script;
  std::string end;  // status.state; empty: the job is gone
  // Programs that still run end well once so many pods have been started and the job is Running.
  // Never, if 0.
  int finish_after = 0;
  bool gang = true;
  int backoff_limit = 6;
  std::string resume_at;  // the state in which the user sets spec.suspend to false
};

inline void PrintTo(const Scenario& scenario, std::ostream* out) {
  *out << scenario.name;
}

inline std::vector<Scenario> Scenarios() {
  using Fate = FakeKubelet::Fate;
  using api::RestartScope;
  const auto runs = [](const kube::Object&, int) { return Fate::kRuns; };
  const auto first_of_worker_0 = [](Fate fate) {
    return [fate](const kube::Object& pod, int before) {
      return kube::Name(pod) == "j-worker-0" && before == 0 ? fate : Fate::kRuns;
    };
  };
  const auto always = [](std::string name, Fate fate) {
    return [name = std::move(name), fate](const kube::Object& pod, int) {
      return kube::Name(pod) == name ? fate : Fate::kRuns;
    };
  };
  const auto workers = [](int count) { return Job("j").Workers(count); };
  const auto gang = workers(2).RestartScope(RestartScope::kGang);
  const auto singly = workers(2).RestartScope(RestartScope::kPod);
  return {
      {"Succeeds", Job("j").Chief().Workers(2).CleanPodPolicy(api::CleanPodPolicy::kNone), runs,
       "Succeeded", 3},
      {"GangRestarts", gang, first_of_worker_0(Fate::kRetryable), "Succeeded", 4},
      {"GangIsEvicted", gang, first_of_worker_0(Fate::kEvicted), "Succeeded", 4},
      {"GangLosesAPod", gang, first_of_worker_0(Fate::kVanishes), "Succeeded", 4},
      {"PodIsReplaced", singly, first_of_worker_0(Fate::kRetryable), "Succeeded", 3, false},
      {"EvictedPodIsReplaced", singly, first_of_worker_0(Fate::kEvicted), "Succeeded", 3, false},
      {"InPlacePodIsReplaced", workers(2).RestartScope(RestartScope::kInPlace),
       first_of_worker_0(Fate::kRetryable), "Succeeded", 3, false},
      {"BudgetIsSpent", workers(2).RestartScope(RestartScope::kGang).BackoffLimit(1),
       always("j-worker-0", Fate::kRetryable), "Failed", 0, true, 1},
      {"FailsForGood",
       workers(2)
           .RestartPolicy(api::Role::kWorker, api::RestartPolicy::kExitCode)
           .CleanPodPolicy(api::CleanPodPolicy::kRunning),
       always("j-worker-1", Fate::kFails), "Failed"},
      {"IsResumed", workers(2).Suspended(), runs, "Succeeded", 2, true, 6, "Suspended"},
      {"IsDeletedWhenDone", workers(1).TtlSecondsAfterFinished(0), runs, "", 1},
  };
}

}  // namespace lockstep::testing
