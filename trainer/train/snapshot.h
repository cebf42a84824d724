// Between a session in memory and a checkpoint on disk.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "base/clock.h"
#include "trainer/checkpoint/store.h"
#include "trainer/train/run_state.h"
#include "trainer/train/session.h"

namespace lockstep::train {

// Equal for models with the same tensors: names and shapes, whatever their layout in memory.
std::string ModelHash(Session& session);

// `now`: when it is made.
Snapshot MakeSnapshot(Session& session, const RunState& state, Time now);

// FailedPrecondition: saved by a run with another data set size, batch, seed or optimizer (names
// both sides). On an error neither session nor state has changed.
absl::Status RestoreSnapshot(const Snapshot& snapshot, Session& session, RunState& state);

}  // namespace lockstep::train
