#include "trainer/backend/step_recorder.h"

#include <algorithm>
#include <utility>

namespace lockstep::train {

// The first time, devices load and allocate what they need for an op, which cannot be recorded.
void StepRecorder::Queue(StepPiece which, const std::function<void()>& queue) {
  Piece& piece = pieces_[static_cast<std::size_t>(which)];
  if (records_ && piece.has_run && !std::exchange(piece.is_tried, true)) {
    piece.recording = backend_.Record(queue);
  }
  piece.has_run = true;
  if (piece.recording != nullptr) {
    piece.recording->Replay();
  } else {
    queue();
  }
}

bool StepRecorder::has_recorded() const {
  const auto is_tried = [](const Piece& piece) { return piece.is_tried; };
  return std::ranges::any_of(pieces_, is_tried) &&
         std::ranges::none_of(pieces_, [](const Piece& piece) {
           return piece.is_tried && piece.recording == nullptr;
         });
}

}  // namespace lockstep::train
