// A pod's entry point: starts its replica processes, keeps them alive, and speaks for them.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "trainer/identity/identity.h"
#include "trainer/observe/metrics.h"
#include "trainer/supervisor/restart_budget.h"

namespace lockstep::train {

struct SupervisorOptions {
  // argv of a replica; argv[0] is a path, "/proc/self/exe" is this program. Each gets
  // kEnvLocalRank, kEnvMetricsFd and, in the leading pod, kEnvRendezvousAddress.
  std::vector<std::string> replica_command;
  // False: a replica's end is the pod's (restart scopes Gang and Pod).
  bool restart_in_place = true;
  RestartBudgetOptions restart_budget;
  Duration stop_grace = std::chrono::seconds(25);      // from SIGTERM to SIGKILL of the replicas
  Duration drain_deadline = std::chrono::seconds(10);  // the leader's wait for the last goodbyes
  // Both or none; called once the signals are blocked, so that its threads do not take them.
  std::function<absl::StatusOr<std::unique_ptr<MetricsServer>>()> start_metrics;
  std::function<absl::StatusOr<ReplicaMetrics>(const std::string& line)> decode_metrics;
};

// What of a pod's grace period the replicas get: the rest is for the supervisor itself and for the
// kubelet to see its end.
Duration StopGrace(Duration pod_grace);

// Returns the pod's exit code when all its replicas have ended:
//   0: all ended with 0; the leader stays until every member of the world has been released;
//   the code of the first replica that ended with 1 to 127 or kExitRendezvousDeadline, or once the
//     restart budget is spent (128 + the signal's number if it was one); the others are stopped
//     first;
//   kExitPreempted: SIGTERM or SIGINT came, the replicas were told and left with that code.
// Unavailable: the rendezvous's or the metrics' port is taken. Other errors: no replica could be
// started. Call it on the main thread, before any other thread is started: it takes over SIGTERM,
// SIGINT and SIGCHLD, and reaps every child, as PID 1 must.
absl::StatusOr<int> RunSupervisor(const Identity& identity, const Clock& clock,
                                  const SupervisorOptions& options);

}  // namespace lockstep::train
