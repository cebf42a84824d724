#include "trainer/plan/plan_messages.h"

#include "base/status.h"
#include "trainer/strategy/make_strategy.h"
#include "trainer/strategy/parameter_server/parameter_server.h"
#include "trainer/strategy/strategy.h"
#include "trainer/train/compute_device.h"
#include "trainer/train/parameter_client.h"

namespace lockstep::train {
namespace {

absl::StatusOr<std::vector<PlannedServer>> ServersOf(const Identity& identity, bool remote,
                                                     Session& session) {
  const ShardGroupOptions group = ShardOptions(ParameterClientOptionsFor(identity), session);
  LOCKSTEP_ASSIGN_OR_RETURN(const auto shard, Shard::Create(session.training(), session.backend()));
  const auto spec = identity.strategy.parameter_server.value_or(api::ParameterServerSpec{});
  const int callers = remote ? identity.Pods() * identity.processes_per_pod : 0;
  std::vector<PlannedServer> servers;
  for (std::size_t i = 0; i < group.plan.size(); ++i) {
    const ShardLayout layout{
        .ranges = group.plan[i],
        .states = i == 0 ? group.states : 0,
        .segments = {},
        .parts = spec.mode == api::ParameterServerMode::kSync ? session.plan().world : 0,
        .parameters = group.parameters};
    LOCKSTEP_ASSIGN_OR_RETURN(const std::int64_t held, shard->FloatsToLoad(layout));
    LOCKSTEP_ASSIGN_OR_RETURN(const std::size_t most, MostBytesOfServer(*shard, layout, callers));
    servers.push_back(
        {.moved = static_cast<std::size_t>(layout.values() + layout.states) * sizeof(float),
         .held = static_cast<std::size_t>(held) * sizeof(float),
         .needed = most});
  }
  return servers;
}

}  // namespace

absl::StatusOr<PlannedMessages> MessagesOf(const Identity& identity, bool remote,
                                           Session& session) {
  PlannedMessages messages;
  if (identity.Traits().has_parameter_servers) {
    LOCKSTEP_ASSIGN_OR_RETURN(messages.servers, ServersOf(identity, remote, session));
    return messages;
  }
  const auto world = static_cast<std::size_t>(session.plan().world);
  if (world == 1) return messages;
  messages.is_memory_shared =
      identity.Pods() == 1 && AllowsSharedMemory(identity) && !ComputesOnGpu(identity);
  const bool is_summed_by_nccl =
      ComputesOnGpu(identity) && identity.strategy.communication != api::Communication::kRing;
  const int ring = messages.is_memory_shared || is_summed_by_nccl ? 1 : session.plan().world;
  const CollectiveOptions options{.layer_starts = session.LayerStarts()};
  for (const GradientReducer::Bucket& bucket : BucketsOf(session.buffer(), options, ring)) {
    const std::size_t bytes = static_cast<std::size_t>(bucket.end - bucket.begin) * sizeof(float);
    messages.buckets.push_back(bytes);
    messages.sent += 2 * (world - 1) * bytes / world;
  }
  if (identity.Traits().first_process_updates && !messages.is_memory_shared) {
    messages.broadcast = session.model().parameters().size_bytes();
  }
  if (session.shares_updates() && !messages.is_memory_shared) {
    messages.exchanged = session.model().parameters().size_bytes() / world * (world - 1);
  }
  return messages;
}

}  // namespace lockstep::train
