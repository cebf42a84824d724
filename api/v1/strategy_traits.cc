#include "api/v1/strategy_traits.h"

#include <algorithm>

#include "api/v1/enum_names.h"
#include "base/check.h"

namespace lockstep::api {
namespace {

// The table. Without a default case: the compiler reports a strategy that has no row.
constexpr StrategyTraits RowOf(StrategyType type) {
  switch (type) {
    case StrategyType::kMirrored:
      return {.uses_collectives = true,
              .has_one_pod = true,
              .may_have_stages = true,
              .may_shard_state = true};
    case StrategyType::kMultiWorkerMirrored:
      return {.uses_collectives = true,
              .may_be_elastic = true,
              .may_have_stages = true,
              .may_shard_state = true};
    case StrategyType::kParameterServer:
      return {.has_parameter_servers = true,
              .may_be_elastic = true,
              .restart_scope = RestartScope::kPod,
              .settings = "parameterServer"};
    case StrategyType::kCentralStorage:
      return {.uses_collectives = true,
              .first_process_updates = true,
              .has_one_pod = true,
              .settings = "centralStorage"};
    case StrategyType::kIndependent:
      return {.trains_alone = true,
              .restart_scope = RestartScope::kPod,
              .success_policy = SuccessPolicy::kAllWorkers};
  }
  LOCKSTEP_CHECK(false, "strategy: {} is not a strategy", static_cast<int>(type));
}

static_assert(std::ranges::all_of(kEnumNames<StrategyType>,
                                  [](const auto& entry) {
                                    const StrategyTraits row = RowOf(entry.first);
                                    const int ways = row.uses_collectives +
                                                     row.has_parameter_servers + row.trains_alone;
                                    return ways == 1;
                                  }),
              "the processes of a strategy work together in exactly one way");

}  // namespace

StrategyTraits TraitsOf(StrategyType type) {
  return RowOf(type);
}

StrategyTraits TraitsOf(const TrainingJobSpec& spec) {
  return RowOf(spec.strategy ? spec.strategy->type : StrategyType::kMultiWorkerMirrored);
}

std::int64_t BatchParts(const StrategySpec& strategy, std::int64_t processes) {
  const StrategyTraits traits = TraitsOf(strategy.type);
  if (traits.trains_alone) return 1;
  if (traits.may_have_stages) return std::max<std::int64_t>(1, processes / strategy.stages);
  if (!traits.has_parameter_servers) return processes;
  const auto servers = strategy.parameter_server.value_or(ParameterServerSpec{});
  if (servers.mode == ParameterServerMode::kAsync) return 1;
  return std::max<std::int64_t>(1, processes - servers.backup_workers);
}

}  // namespace lockstep::api
