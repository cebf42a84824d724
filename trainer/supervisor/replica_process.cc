#include "trainer/supervisor/replica_process.h"

#include <fmt/format.h>

#include <csignal>

#include "api/v1/names.h"
#include "trainer/rendezvous/identity_roster.h"
#include "trainer/supervisor/metrics_pipe.h"

namespace lockstep::train {
namespace {

// NVSwitches may add in another order each time, so NCCL must not leave its sums to them (NVLS)
// unless the pod's environment says how it is to sum. It reads that when it is opened, and other
// threads read the environment by then: so the process has it from its start.
void AskForReproducibleSums(Environment& env) {
  if (!env.contains("NCCL_ALGO")) env.emplace("NCCL_NVLS_ENABLE", "0");
}

// An idle thread of libgomp's spins for 300,000 pause instructions before it sleeps, which is 20 ms
// on newer processors. Meanwhile, it takes the core from a thread that decodes images, or from
// another process. 10,000 pauses are longer than the gaps between the parallel parts of a step.
void LimitSpinning(Environment& env, api::Role role) {
  // The threads of a server's team have nothing to do until the next update.
  if (role == api::Role::kParameterServer) env.emplace("OMP_WAIT_POLICY", "PASSIVE");
  if (!env.contains("OMP_WAIT_POLICY")) env.emplace("GOMP_SPINCOUNT", "10000");
}

}  // namespace

LaunchSpec ReplicaLaunch(const Identity& identity, const ReplicaStart& start, int metrics_fd) {
  LaunchSpec spec;
  spec.argv = start.command;
  spec.env = CurrentEnvironment();
  spec.fds = {metrics_fd};
  spec.dies_with_thread = true;
  // Its first milliseconds, in which nothing stands for them yet, would make a stop a failure.
  spec.blocked_signals = {SIGTERM, SIGINT};
  spec.env[kEnvLocalRank] = fmt::format("{}", start.local_rank);
  spec.env[kEnvPodStarted] = fmt::format("{}", start.pod_started.time_since_epoch().count());
  spec.env[kEnvProcessNumber] = fmt::format("{}", start.number);
  spec.env[kEnvMetricsFd] = fmt::format("{}", metrics_fd);
  LimitSpinning(spec.env, identity.role);
  if (identity.gpus > 0) AskForReproducibleSums(spec.env);
  // The results of processes that train alone are written by their supervisor.
  if (identity.Traits().trains_alone) spec.env[api::kEnvTerminationMessagePath] = "";
  if (start.rendezvous_port > 0) {
    const std::string listens = ListenAddress(identity);
    const std::string host = listens.substr(0, listens.rfind(':'));
    spec.env[kEnvRendezvousAddress] =
        fmt::format("{}:{}", host.empty() ? "127.0.0.1" : host, start.rendezvous_port);
  }
  return spec;
}

int CodeOfAll(const std::vector<int>& codes) {
  int of_all = api::kExitDone;
  for (const int code : codes) {
    if (code == api::kExitDone) continue;
    if (of_all == api::kExitDone || of_all == api::kExitPreempted) of_all = code;
  }
  return of_all;
}

bool MayPassInPlace(int exit_code) {
  // It would only wait out the rendezvous deadline again for the same peers.
  if (exit_code == api::kExitRendezvousDeadline) return false;
  // A pod keeps its GPUs for life, and a container that has lost access never regains it.
  if (exit_code == api::kExitGpuGone) return false;
  return api::IsRetryableExitCode(exit_code);
}

std::int64_t OwnStep(const ReplicaMetrics& metrics) {
  return metrics.steps_total > 0 ? metrics.step : 0;
}

std::int64_t OwnStep(const ServerMetrics& metrics) {
  return metrics.step;
}

std::int64_t OwnStep(const EvaluatorMetrics& metrics) {
  return metrics.step;
}

api::VariantResult ResultOf(const ReplicaMetrics& last, int index) {
  return {.index = index,
          .diverged = last.diverged != 0,
          .step = last.step,
          .loss = last.loss,
          .accuracy = last.accuracy,
          .test_loss = last.test_loss,
          .test_accuracy = last.test_accuracy,
          .mean_absolute_error = last.mean_absolute_error,
          .test_mean_absolute_error = last.test_mean_absolute_error,
          .test_metrics = last.test_metrics};
}

}  // namespace lockstep::train
