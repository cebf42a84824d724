// One generation of training: from a fresh membership to the end of the run or of the generation.
#pragma once

#include <optional>

#include "absl/status/status.h"
#include "base/clock.h"
#include "trainer/checkpoint/async_saver.h"
#include "trainer/observe/phase_clock.h"
#include "trainer/rendezvous/rendezvous.h"
#include "trainer/strategy/strategy.h"
#include "trainer/train/loop_outcome.h"
#include "trainer/train/reporter.h"
#include "trainer/train/run_state.h"
#include "trainer/train/session.h"

namespace lockstep::train {

// Collaborators of a replica, all living as long as its process. `store` may be null: no
// checkpoints. Only rank 0 touches it.
struct TrainLoop {
  Session& session;
  Strategy& strategy;
  Rendezvous& rendezvous;
  CheckpointStore* store;
  AsyncSaver* saver;
  Reporter& reporter;
  PhaseClock& phases;
  const Clock& clock;
  RunState state = {};

  // Whatever the outcome, `state` and the session are those of the last applied step.
  LoopOutcome Run(const Membership& membership);
  // Saves `state` outside of any generation, if this process is the one that saves and there is
  // anything new: kStopped, or why not.
  LoopOutcome SaveAlone();

 private:
  using Ended = std::optional<LoopOutcome>;  // nothing: training goes on

  Ended Enter(const Membership& membership);
  LoopOutcome RunSteps(int rank);
  Ended ShareState(const Membership& membership);
  absl::Status ShareTensors(int source, std::int64_t step);
  Ended RestoreOrInitialize();
  Ended EvaluateIfDue(int rank);
  Ended CheckParameters() const;
  LoopOutcome SaveAndEnd(LoopEnd end, int rank);
  Ended SaveIfDue(int rank);
  Ended LookAtSaver();
};

}  // namespace lockstep::train
