// One generation of training: from a fresh membership to the end of the run or of the generation.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "trainer/checkpoint/async_saver.h"
#include "trainer/control/rendezvous.h"
#include "trainer/strategy/strategy.h"
#include "trainer/train/reporter.h"
#include "trainer/train/run_state.h"
#include "trainer/train/session.h"

namespace lockstep::train {

enum class LoopEnd {
  kDone,      // all steps done, evaluated and saved
  kStopped,   // a pod was asked to end; saved at the same step on every rank
  kDiverged,  // the loss is not finite; nothing was saved after the last good checkpoint
};

// Collaborators of a replica, all living as long as its process. `store` may be null: no
// checkpoints. Only rank 0 touches it.
struct TrainLoop {
  Session& session;
  Strategy& strategy;
  Rendezvous& rendezvous;
  CheckpointStore* store;
  AsyncSaver* saver;
  Reporter& reporter;
  RunState state = {};
  PhaseSeconds seconds = {};

  // Unavailable, Cancelled, Aborted: the generation has ended; join the next one, `state` and the
  // session are those of the last applied step. ResourceExhausted and others from the store: the
  // last checkpoint could not be written.
  absl::StatusOr<LoopEnd> Run(const Membership& membership);

 private:
  absl::Status ShareState(const Membership& membership);
  absl::Status ShareTensors(int source, std::int64_t step);
  absl::Status RestoreOrInitialize();
  absl::Status EvaluateIfDue(int rank);
  absl::Status SaveAndWait(int rank);
  void SaveIfDue(int rank);
};

}  // namespace lockstep::train
