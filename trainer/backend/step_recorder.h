// Queues what is the same in every step: op by op at first, and then as a whole, if the device can
// record it.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <memory>

#include "trainer/backend/backend.h"

namespace lockstep::train {

// The pieces of a step between which the host has something to do: it uploads the samples of each
// part of a batch, and ranks sum their gradients before the update.
enum class StepPiece {
  kEarlierPart,  // forward, loss and backward of a part of the batch that is not the last
  kLastPart,
  kUpdate,
};

// Not thread-safe.
class StepRecorder {
 public:
  // Requires: `backend`, and the memory that the pieces use, outlive this. `records` false: every
  // step is queued op by op.
  StepRecorder(Backend& backend, bool records) : backend_(backend), records_(records) {}

  // Queues a piece by calling `queue`, or what that has queued before. `queue` does what
  // Backend::Record allows, with the same arguments and memory each time.
  void Queue(StepPiece piece, const std::function<void()>& queue);
  // True if pieces are recorded, and all that could be: those that have run twice.
  bool has_recorded() const;

 private:
  struct Piece {
    bool has_run = false, is_tried = false;
    std::unique_ptr<Recording> recording;
  };

  Backend& backend_;
  const bool records_;
  std::array<Piece, 3> pieces_;  // by StepPiece
};

}  // namespace lockstep::train
