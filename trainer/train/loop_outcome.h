// How a generation of training ended on this rank. LoopEnd names what failed; a status code cannot,
// because a disk, a peer and a library may fail with the same one.
#pragma once

#include <utility>

#include "absl/status/status.h"

namespace lockstep::train {

enum class LoopEnd {
  kDone,            // all steps done, evaluated and saved
  kStopped,         // a pod, not always this one, was asked to stop; at the same step on every rank
  kDiverged,        // loss, gradients, parameters or evaluation are not finite; nothing was saved
  kGenerationOver,  // a peer was lost, was too slow or never came: join the next generation
  kStorage,         // a checkpoint or the export cannot be read or written now: join and retry
  kStorageRefused,  // permanent: the disk of either is full or read-only, or denies access
  kFailed,          // permanent: bad data or configuration
};

struct LoopOutcome {
  LoopEnd end = LoopEnd::kDone;
  // Ok for kDone. For kStopped, why this rank has not saved the state; Ok on those that do not
  // save.
  absl::Status reason;
};

// Classifies an error of a Strategy. FailedPrecondition is permanent: ranks that call different
// collectives would do so again. Any other code means that a peer failed.
inline LoopOutcome EndOfStrategy(absl::Status status) {
  const bool for_good = absl::IsFailedPrecondition(status);
  return {for_good ? LoopEnd::kFailed : LoopEnd::kGenerationOver, std::move(status)};
}

// Classifies an error of a CheckpointStore or of the export. I/O errors may be transient (a file
// server restarts); errors in the checkpoints themselves, lack of space and lack of permission are
// permanent.
inline LoopOutcome EndOfStore(absl::Status status) {
  const bool may_pass = absl::IsUnavailable(status) || absl::IsNotFound(status);
  if (may_pass) return {LoopEnd::kStorage, std::move(status)};
  const bool refused = absl::IsResourceExhausted(status) || absl::IsPermissionDenied(status);
  return {refused ? LoopEnd::kStorageRefused : LoopEnd::kFailed, std::move(status)};
}

inline LoopOutcome FailedFor(absl::Status status) {
  return {LoopEnd::kFailed, std::move(status)};
}

}  // namespace lockstep::train
