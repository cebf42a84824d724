// How a generation of training ended on this rank. What failed is told by its kind, never guessed
// from a status code: a disk and a peer may fail with the same one.
#pragma once

#include <utility>

#include "absl/status/status.h"

namespace lockstep::train {

enum class LoopEnd {
  kDone,            // all steps done, evaluated and saved
  kStopped,         // a pod was asked to end; saved at the same step on every rank
  kDiverged,        // not finite: gradients, loss or evaluation; none of it was saved
  kGenerationOver,  // a peer is lost, late or never came: join the next generation
  kStorage,         // a checkpoint can be neither read nor written just now: join and try again
  kFailed,          // for good: the data, the configuration, a disk that is full or read-only
};

struct LoopOutcome {
  LoopEnd end = LoopEnd::kDone;
  absl::Status reason;  // Ok for kDone and kStopped
};

// Of a strategy's error. Ranks that call different collectives will do so again; any other error
// is a peer's, whatever its code.
inline LoopOutcome EndOfStrategy(absl::Status status) {
  const bool for_good = absl::IsFailedPrecondition(status);
  return {for_good ? LoopEnd::kFailed : LoopEnd::kGenerationOver, std::move(status)};
}

// Of a checkpoint store's error. An input or output error may pass (a server that restarts); what
// the store says of the checkpoints themselves, or of room and rights, does not.
inline LoopOutcome EndOfStore(absl::Status status) {
  const bool may_pass = absl::IsUnavailable(status) || absl::IsNotFound(status);
  return {may_pass ? LoopEnd::kStorage : LoopEnd::kFailed, std::move(status)};
}

inline LoopOutcome FailedFor(absl::Status status) {
  return {LoopEnd::kFailed, std::move(status)};
}

}  // namespace lockstep::train
