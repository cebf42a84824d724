#include "trainer/train/parameter_server_pod.h"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>

#include "api/v1/names.h"
#include "base/log.h"
#include "base/stop_signal.h"
#include "trainer/observe/server_metrics.h"
#include "trainer/rendezvous/identity_roster.h"
#include "trainer/strategy/parameter_server/parameter_server.h"
#include "trainer/supervisor/metrics_pipe.h"
#include "trainer/train/generations.h"

namespace lockstep::train {
namespace {

ParameterServerOptions OptionsFor(const Identity& identity) {
  const auto spec = identity.strategy.parameter_server.value_or(api::ParameterServerSpec{});
  const auto index = static_cast<std::size_t>(identity.index);
  ParameterServerOptions options{
      .index = identity.index,
      .address = ListenAddress(identity, identity.cluster.ps[index]),
      .job = ServerGroupHash(identity),
      .token = identity.token,
      .tasks = {.owner_role = std::string(RoleName(identity.LeaderRole())), .leases = {}},
      .stop_requested = &StopSignalled};
  options.tasks.leases = {.sync = spec.mode == api::ParameterServerMode::kSync,
                          .max_staleness = spec.max_staleness,
                          .backups = spec.backup_workers > 0};
  return options;
}

ServerMetrics MetricsOf(int index, const ShardCounts& counts) {
  return {.server = index,
          .step = counts.version,
          .updates = counts.updates,
          .dropped = counts.dropped,
          .pushed_bytes = counts.pushed_bytes,
          .pulled_bytes = counts.pulled_bytes,
          .staleness = counts.staleness};
}

// Sends the shard's counts to the supervisor every second, on its own thread, and at the end.
class CountsSender {
 public:
  CountsSender(int index, const Shard& shard)
      : index_(index), shard_(shard), thread_([this](const std::stop_token& stop) { Run(stop); }) {}

 private:
  void Run(const std::stop_token& stop) {
    std::mutex mutex;  // nothing but the end is waited for
    std::condition_variable_any stopped;
    std::unique_lock lock(mutex);
    do {
      pipe_.Write(EncodeServerMetrics(MetricsOf(index_, shard_.counts())));
    } while (!stopped.wait_for(lock, stop, std::chrono::seconds(1),
                               [&] { return stop.stop_requested(); }));
    pipe_.Write(EncodeServerMetrics(MetricsOf(index_, shard_.counts())));
  }

  const int index_;
  const Shard& shard_;
  MetricsPipeWriter pipe_{ProcessEnv};
  std::jthread thread_;  // last: uses all of the above
};

}  // namespace

int RunParameterServerPod(const Identity& identity, int threads, const Clock& clock) {
  const auto backend = MakeBackend({.name = "cpu", .threads = threads});
  const auto shard = Shard::Create(identity.training, *backend);
  if (!shard.ok()) return FailWith(shard.status());
  const auto server = ParameterServer::Start(OptionsFor(identity), **shard, clock);
  if (!server.ok()) {  // retryable: the port may be free when the process is restarted
    LogError(std::string(server.status().message()), {{"exitCode", api::kExitPeerLost}});
    return api::kExitPeerLost;
  }
  LogInfo("the parameter server has started",
          {{"index", identity.index}, {"port", (*server)->port()}});
  const CountsSender sender(identity.index, **shard);
  const ParameterServer::End end = (*server)->WaitForEnd();
  LogInfo(end == ParameterServer::End::kFinished ? "the run is over" : "asked to stop");
  return end == ParameterServer::End::kFinished ? api::kExitDone : api::kExitPreempted;
}

}  // namespace lockstep::train
