// A pod's entry point: starts its replica processes, restarts them, and serves the rendezvous, an
// Evaluator's status and their metrics.
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
#include "trainer/supervisor/successor_watch.h"

namespace lockstep::train {

struct SupervisorOptions {
  // argv of a replica; argv[0] is a path. The environment adds kEnvLocalRank, kEnvPodStarted,
  // kEnvProcessNumber, kEnvMetricsFd and, in the leading pod, kEnvRendezvousAddress.
  std::vector<std::string> replica_command;
  // False: a replica's failure ends the pod (restart scopes Gang and Pod).
  bool restart_in_place = true;
  RestartBudgetOptions restart_budget;
  Duration stop_grace = std::chrono::seconds(25);      // from SIGTERM to SIGKILL of the replicas
  Duration drain_deadline = std::chrono::seconds(10);  // the leader's wait for members to hang up
  SuccessorWatchOptions successor_watch;               // of the leading pod's name
  // Set all or none. start_metrics is called once the signals are blocked, so that its threads
  // do not receive them.
  std::function<absl::StatusOr<std::unique_ptr<MetricsServer>>()> start_metrics;
  std::function<absl::StatusOr<ReplicaMetrics>(const std::string& line)> decode_metrics;
  std::function<absl::StatusOr<ServerMetrics>(const std::string& line)> decode_server_metrics;
  std::function<absl::StatusOr<EvaluatorMetrics>(const std::string& line)> decode_evaluator_metrics;
  // Where an Independent job's results go if all replicas have ended with 0; empty: nowhere.
  std::string termination_message_path;
};

// Runs until all replicas have ended. Returns the pod's exit code:
//   0: all ended with 0. The leader first waits until every member of the group has been released
//     and has hung up, at most drain_deadline.
//   The code of the first replica that failed and is not restarted (128 + the signal's number if a
// signal killed it), after the others have been stopped. While the leading replica is saving, it
// has kBusyWithin from the failure, but at most stop_grace from a SIGTERM or SIGINT. These failures
// are not restarted: codes 1 to 127, kExitRendezvousDeadline and kExitGpuGone; any failure without
// restart_in_place; any failure once the budget is spent.
//   kExitPreempted: SIGTERM or SIGINT arrived, or a later pod has got the leading pod's name, and
//     the replicas exited with that code or 0; any other code takes precedence.
// Unavailable: the rendezvous's port is taken. Other errors: a replica could not be started. If
// start_metrics fails, this pod serves no metrics, and a warning says why. Requires: called on the
// main thread before any other thread is started. SIGTERM and SIGINT are blocked in the replicas
// until these take them up (InstallStopSignal). Takes over SIGTERM, SIGINT and SIGCHLD, and reaps
// every child, as PID 1 must.
absl::StatusOr<int> RunSupervisor(const Identity& identity, const Clock& clock,
                                  const SupervisorOptions& options);

}  // namespace lockstep::train
