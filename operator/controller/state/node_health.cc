#include "operator/controller/state/node_health.h"

namespace lockstep::controller {

bool NodeHealth::UpdateOutage(const kube::Cached<bool>* before, const kube::Cached<bool>* after) {
  const std::lock_guard lock(mutex_);
  const bool was_wide = IsWideOutageLocked();
  if (before != nullptr) --(before->value ? ready_ : not_ready_);
  if (after != nullptr) ++(after->value ? ready_ : not_ready_);
  return IsWideOutageLocked() != was_wide;
}

bool NodeHealth::IsWideOutage() const {
  const std::lock_guard lock(mutex_);
  return IsWideOutageLocked();
}

bool NodeHealth::IsWideOutageLocked() const {
  if (not_ready_ == 0) return false;
  return ready_ == 0 || (not_ready_ >= 3 && 100 * not_ready_ >= 55 * (ready_ + not_ready_));
}

}  // namespace lockstep::controller
