#include "trainer/train/evaluator/unseen_checkpoints.h"

#include <utility>

namespace lockstep::train {

bool UnseenCheckpoints::UpdateMissing(std::int64_t saved, std::int64_t newest, SteadyTime now) {
  const bool has_come = newest != std::exchange(newest_, newest);
  if (saved <= newest || has_come) {
    since_.reset();
    is_told_ = false;
  }
  if (saved <= newest) return false;
  if (!since_) since_ = now;
  return now - *since_ >= kPatience && !std::exchange(is_told_, true);
}

}  // namespace lockstep::train
