// How ranks of which each has a share of the optimizer's state get it when a run begins, and how
// rank 0 gets all of it for a checkpoint. All ranks have a part in every call. Errors are those of
// Strategy::Broadcast, and end the generation; what this rank updates is then still what it was,
// unless it was being replaced.
//
// Everything passes tensor by tensor, so that no rank holds a second copy of the whole state.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "trainer/rendezvous/rendezvous.h"
#include "trainer/strategy/strategy.h"
#include "trainer/train/session.h"
#include "trainer/train/stage_state.h"
#include "trainer/train/state_tensors.h"

namespace lockstep::train {

// Returns true if the members have the state of one step in their memory, each its share: all are
// at the same step, of at most `total_steps`. Pure.
bool IsWholeInMemory(const Membership& membership, std::int64_t total_steps);

// Gives every rank the parameters that others have updated: of each rank those of its share, or
// their averages while these are in place.
absl::Status ExchangeParameters(Session& session, Strategy& strategy);

// Gives every rank the parameters and running statistics of rank 0, and its share of what `given`
// has for the optimizer, which is that of rank 0 (null: nothing); others ignore it. Without it, the
// slots become what they are initially, and the average begins at the parameters.
absl::Status ScatterState(const Snapshot* given, Session& session, Strategy& strategy);

// Returns the tensors of a checkpoint to rank 0, as far as it needs them, and nothing to others.
// `needs` is that of rank 0; others ignore it. `best`: the model of the best evaluation, on all
// ranks; null, on all ranks, if there is none besides that of the session. With it, kModel gathers
// it alone. The average may be in place.
absl::StatusOr<StateTensors> GatherShares(Gathers needs, Session& session, Strategy& strategy,
                                          const std::vector<NamedTensor>* best);

// Returns what CopyModel returns where nothing is sharded; nothing to a rank that does not want it.
absl::StatusOr<std::vector<NamedTensor>> GatherModel(Session& session, Strategy& strategy,
                                                     bool wants);

}  // namespace lockstep::train
