#include "trainer/supervisor/stop_deadline.h"

#include <algorithm>
#include <chrono>

#include "base/log.h"

namespace lockstep::train {
namespace {

constexpr Duration kLookAtSaveEvery = std::chrono::milliseconds(100);

}  // namespace

Duration StopGrace(Duration pod_grace) {
  return pod_grace - std::min<Duration>(pod_grace / 6, std::chrono::seconds(5));
}

void StopDeadline::Asked(SteadyTime now) {
  last_ = std::min(last_, now + grace_);
  if (!next_) next_ = last_;
}

void StopDeadline::Failed(SteadyTime now) {
  Superseded(now, longest_save_);
}

void StopDeadline::Superseded(SteadyTime now, Duration patience) {
  last_ = std::min(last_, now + std::max(grace_, std::min(longest_save_, patience)));
  if (!next_) next_ = now + grace_;
}

bool StopDeadline::IsDue(SteadyTime now, bool saves) {
  if (!next_ || now < *next_) return false;
  if (saves && now < last_) {
    if (!waits_for_save_) LogInfo("the grace period is over, but the leading replica still saves");
    waits_for_save_ = true;
    next_ = std::min(last_, now + kLookAtSaveEvery);
    return false;
  }
  next_ = SteadyTime::max();
  return true;
}

}  // namespace lockstep::train
