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
  // Programs that still run end well once so many pods named j-worker-0 have been started and the
  // job is Running. Never, if 0.
  int finish_after = 0;
  bool gang = true;
  int backoff_limit = 6;
  std::string resume_at;     // the state in which the user sets spec.suspend to false
  bool loses_a_pod = false;  // j-worker-0 vanishes with its node once the job is Running
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
  using api::CleanPodPolicy;
  // Not Running: what still runs when the first one has ended is a matter of microseconds.
  const auto gang =
      workers(2).RestartScope(RestartScope::kGang).CleanPodPolicy(CleanPodPolicy::kAll);
  const auto singly =
      workers(2).RestartScope(RestartScope::kPod).CleanPodPolicy(CleanPodPolicy::kNone);
  return {
      {"Succeeds", Job("j").Chief().Workers(2).CleanPodPolicy(CleanPodPolicy::kNone), runs,
       "Succeeded", 1},
      {"GangRestarts", gang, first_of_worker_0(Fate::kRetryable), "Succeeded", 2},
      {"GangIsEvicted", gang, first_of_worker_0(Fate::kEvicted), "Succeeded", 2},
      {"GangLosesAPod", gang, runs, "Succeeded", 2, true, 6, "", true},
      {"PodIsReplaced", singly, first_of_worker_0(Fate::kRetryable), "Succeeded", 2, false},
      {"EvictedPodIsReplaced", singly, first_of_worker_0(Fate::kEvicted), "Succeeded", 2, false},
      {"InPlacePodIsReplaced",
       workers(2)
           .Training()
           .RestartScope(RestartScope::kInPlace)
           .CleanPodPolicy(CleanPodPolicy::kNone),
       first_of_worker_0(Fate::kRetryable), "Succeeded", 2, false},
      {"BudgetIsSpent", JobBuilder(gang).BackoffLimit(1), always("j-worker-0", Fate::kRetryable),
       "Failed", 0, true, 1},
      {"FailsForGood",
       workers(2)
           .RestartPolicy(api::Role::kWorker, api::RestartPolicy::kExitCode)
           .CleanPodPolicy(CleanPodPolicy::kRunning),
       always("j-worker-1", Fate::kFails), "Failed"},
      {"IsResumed", workers(2).Suspended().CleanPodPolicy(CleanPodPolicy::kNone), runs, "Succeeded",
       1, true, 6, "Suspended"},
      {"IsDeletedWhenDone", workers(1).TtlSecondsAfterFinished(0), runs, "", 1},
  };
}

}  // namespace lockstep::testing
