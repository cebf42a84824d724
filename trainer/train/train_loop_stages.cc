// What the ranks do together if the model is cut into stages: share the state, and hand it to rank
// 0 for a checkpoint.
#include <fmt/format.h>

#include <utility>

#include "trainer/checkpoint/average_tensors.h"
#include "trainer/train/stage_state.h"
#include "trainer/train/train_loop.h"

namespace lockstep::train {

// The stages go on from the newest step that all of them have in memory. If a stage was lost with
// all its ranks, rank 0 reads the newest checkpoint for all.
TrainLoop::Ended TrainLoop::ShareStagesState(const Membership& membership, StageGroups& groups) {
  const StagePlace& place = groups.place();
  const std::vector<int> ranks = RanksWithState(membership, place.stages, session.total_steps());
  Ended not_restored;
  // What is here is of no use alone, and is about to be overwritten.
  if (ranks.empty()) state = {};
  if (ranks.empty() && membership.rank == 0) not_restored = RestoreOrInitialize();
  RunState shared = not_restored ? RunState{} : state;
  if (Ended ended =
          ShareRunState(shared, ranks.empty() ? 0 : ranks.front(), std::move(not_restored))) {
    return ended;
  }
  // One stage may have heard the result of its last evaluation, and another not; then that one has
  // the model that was the best one before it no more.
  for (const int rank : ranks) {
    RunState other = state;
    if (Ended ended = ShareRunState(other, rank, std::nullopt)) return ended;
    if (other.evaluated_step > shared.evaluated_step) shared = other;
  }
  int source = 0;  // a pipeline
  if (ranks.empty()) {
    if (membership.rank != 0) {
      session.model().InitializeParameters();
      session.optimizer().ResetSlots();
    }
    // Rank 0 has its part from the checkpoint; other pipelines get theirs from the first.
    if (membership.rank != 0) best = {};
    const bool takes_best = KeepsBest(shared) && place.pipeline == 0 && !place.is_first();
    std::vector<NamedTensor> given_best;
    const absl::Status done =
        GiveTensors(given.get(), session, groups, takes_best ? &given_best : nullptr);
    if (!done.ok()) return EndOfStrategy(done);
    if (takes_best) best = {shared.best.step, std::move(given_best)};
  } else {
    source = ranks[static_cast<std::size_t>(place.stage)] / place.stages;
  }
  if (absl::Status received = ShareStateOf(groups.peers(), source, shared); !received.ok()) {
    return EndOfStrategy(std::move(received));
  }
  // So nobody waits at a link for rank 0, which may still have other stages to serve.
  absl::Status entered = strategy.Barrier();
  if (entered.ok()) return std::nullopt;
  return EndOfStrategy(std::move(entered));
}

// Gives rank 0 the tensors that other stages have, or their shares, as far as it is about to save
// or export them. Otherwise it has all. The end of a generation would end the gathering, so nobody
// leaves before rank 0 has all: it is the last at the barrier, which the others may have left by
// then.
TrainLoop::Ended TrainLoop::GatherIfDivided(Gathers needs, int rank) {
  if (!session.is_divided()) return std::nullopt;
  rendezvous.SetActivity(api::Activity::kCheckpoint);
  StageGroups* const groups = strategy.stages();
  absl::StatusOr<StateTensors> gathered =
      groups == nullptr
          ? GatherShares(needs, session, strategy, HasOtherBest() ? &best.tensors : nullptr)
          : GatherTensors(needs, session, *groups, BestToSave());
  if (!gathered.ok()) return EndOfStrategy(std::move(gathered).status());
  gathered_tensors = *std::move(gathered);
  absl::Status left = strategy.Barrier();
  if (rank == 0 || left.ok()) return std::nullopt;
  return EndOfStrategy(std::move(left));
}

StateTensors TrainLoop::TensorsToSave() {
  if (session.is_divided()) return std::exchange(gathered_tensors, {});
  StateTensors tensors = CopyTensors(session);
  tensors.best = BestToSave();
  return tensors;
}

// Empty: that of `state` is the best one, or the run does not keep it.
std::vector<NamedTensor> TrainLoop::BestToSave() const {
  return HasOtherBest() ? best.tensors : std::vector<NamedTensor>();
}

// If they are gathered, a save takes the tensors that it needs, too, so that they are copied before
// it.
std::vector<NamedTensor> TrainLoop::ModelToExport(bool is_saved_too) {
  std::vector<NamedTensor>& model =
      gathered_tensors.best.empty() ? gathered_tensors.model : gathered_tensors.best;
  if (is_saved_too) return WithAverages(model);
  return std::exchange(model, {});
}

// Each rank has looked at its own stage or share only, and all must end alike.
TrainLoop::Ended TrainLoop::AgreeOnFinite(bool& finite) {
  if (!session.is_divided()) return std::nullopt;
  float not_finite = finite ? 0 : 1;
  if (absl::Status summed = strategy.Sum({&not_finite, 1}); !summed.ok()) {
    return EndOfStrategy(std::move(summed));
  }
  finite = not_finite == 0;
  return std::nullopt;
}

}  // namespace lockstep::train
