// Converts between a session in memory and a checkpoint's contents.
#pragma once

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "base/clock.h"
#include "trainer/checkpoint/store.h"
#include "trainer/train/run_state.h"
#include "trainer/train/session.h"

namespace lockstep::train {

// Equal for models whose tensors have the same names and shapes, whatever their memory layout.
std::string ModelHash(Session& session);

// `now` becomes Snapshot::saved.
Snapshot MakeSnapshot(Session& session, const RunState& state, Time now);

// The bytes of the tensors of a snapshot.
std::size_t SnapshotBytes(Session& session);

// FailedPrecondition: the snapshot was saved with another data set size, batch, seed or optimizer,
// or lacks a tensor or has another shape for it (names both sides). DataLoss: its run state is
// malformed. On failure, `session` and `state` are unchanged.
absl::Status RestoreSnapshot(const Snapshot& snapshot, Session& session, RunState& state);

// Restores only what evaluation needs: parameters and running statistics. The snapshot may lack the
// optimizer's tensors. Errors as above.
absl::Status RestoreModel(const Snapshot& snapshot, Session& session);

}  // namespace lockstep::train
