// What a strategy is, for those that must tell strategies apart. They ask these traits, never the
// type: then a new strategy is a row of strategy_traits.cc for all of them. Pure.
#pragma once

#include <cstdint>
#include <string_view>

#include "api/v1/training_job.h"

namespace lockstep::api {

struct StrategyTraits {
  // How the training processes work together. Exactly one of these three is true.

  // Each exchanges something with all others, all at the same point of a step: they form one group,
  // need each other's addresses, and miss one that is lost at once.
  bool uses_collectives = false;
  // Replicas of the role PS, at least one, have the parameters and update them; each training
  // process deals only with them, so it need not know the others, which may come and go.
  bool has_parameter_servers = false;
  // Each trains a model of its own, a variant of `training`, with batches, checkpoints and a result
  // of its own. It starts, fails and completes without the others, and so has no Chief and no
  // Evaluator; once it has completed, it does not run again.
  bool trains_alone = false;

  // Rank 0 alone has the optimizer's state and makes the updates; all others take its parameters.
  bool first_process_updates = false;
  // All training processes are in one pod.
  bool has_one_pod = false;
  // A job may have `elastic`: its number of workers may change.
  bool may_be_elastic = false;
  // A job may have `stages`: each process then has a part of the model.
  bool may_have_stages = false;
  // A job may have `sharding`: each process then has a share of the optimizer's state.
  bool may_shard_state = false;
  // What starts again when a replica of the user's own program is lost, if the job does not say.
  // The bundled trainer's supervisors restart in place with every strategy.
  RestartScope restart_scope = RestartScope::kGang;
  // Whose success is the job's, if the job does not say.
  SuccessPolicy success_policy = SuccessPolicy::kChiefOrWorker0;
  // The field of spec.strategy with the settings that only this strategy has; empty: none.
  std::string_view settings = {};
};

StrategyTraits TraitsOf(StrategyType type);
// Those of the job's strategy. A job without `training` may have none: its replicas then count as
// those of MultiWorkerMirrored, which may all depend on each other.
StrategyTraits TraitsOf(const TrainingJobSpec& spec);

// Returns into how many parts a job with so many `processes` that train divides each batch: one for
// each process but the backup workers, or for each pipeline of `stages` processes; 1 if each
// process has batches of its own, as with asynchronous parameter servers.
std::int64_t BatchParts(const StrategySpec& strategy, std::int64_t processes);

}  // namespace lockstep::api
