#include "trainer/train/parameter_server_pod.h"

#include <string>

#include "api/v1/names.h"
#include "base/log.h"
#include "base/stop_signal.h"
#include "trainer/rendezvous/rendezvous_service.h"
#include "trainer/strategy/parameter_server/parameter_server.h"
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
      .tasks = {.owner_role = identity.cluster.chief.empty() ? "worker" : "chief", .leases = {}},
      .stop_requested = &StopSignalled};
  options.tasks.leases = {.sync = spec.mode == api::ParameterServerMode::kSync,
                          .max_staleness = spec.max_staleness,
                          .backups = spec.backup_workers > 0};
  return options;
}

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
  const ParameterServer::End end = (*server)->WaitForEnd();
  LogInfo(end == ParameterServer::End::kFinished ? "the run is over" : "asked to stop");
  return end == ParameterServer::End::kFinished ? api::kExitDone : api::kExitPreempted;
}

}  // namespace lockstep::train
