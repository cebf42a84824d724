// How the stages of a model get their tensors when a run begins, and how rank 0 gets all of them
// for a checkpoint. Rank 0 deals with the other ranks of the first pipeline. These have a part in
// every call; the ranks of other pipelines have none, and the calls do nothing there. Errors are
// those of StageGroups, and end the generation.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "trainer/checkpoint/store.h"
#include "trainer/rendezvous/rendezvous.h"
#include "trainer/strategy/stage_groups.h"
#include "trainer/train/session.h"
#include "trainer/train/snapshot.h"

namespace lockstep::train {

// Finds the newest step, of at most `total_steps`, whose state is in memory as a whole: of each
// stage, a member has it. Returns the lowest rank of each stage that has it, by stage; empty if
// there is no such step. A step may be lost with a member that was ahead of the others. Pure.
std::vector<int> RanksWithState(const Membership& membership, int stages, std::int64_t total_steps);

// Gives each stage those of its tensors that `given` has; it keeps its own value of others. `given`
// is that of rank 0 (null: nothing); others ignore it. `best`, which rank 0 ignores, gets the best
// model that is given (the averages or parameters, if `given` has no other), as far as it is this
// stage's; null: the run keeps none. FailedPrecondition: a stage sent rank 0 names that are too
// long or no list. Other errors: those of StageGroups.
absl::Status GiveTensors(const Snapshot* given, Session& session, StageGroups& groups,
                         std::vector<NamedTensor>* best);

// What rank 0 needs of all stages.
enum class Gathers : std::uint8_t { kNothing, kModel, kAll };
// Returns the tensors of all stages to rank 0, as far as it needs them, and nothing to others.
// `needs` is that of rank 0; others ignore it. `best`: this stage's part of the best model; empty,
// on all ranks, if there is none besides that of the session. With it, kModel gathers it alone.
// Errors: as for GiveTensors; FailedPrecondition also if a stage has a tensor that the model lacks.
absl::StatusOr<StateTensors> GatherTensors(Gathers needs, Session& session, StageGroups& groups,
                                           std::vector<NamedTensor> best);

}  // namespace lockstep::train
