// What a change of a pod asks of the job that owns it. Pure.
#pragma once

#include <optional>

#include "operator/controller/state/observed.h"
#include "operator/kube/cache/store.h"

namespace lockstep::controller {

enum class Urgency {
  kNone,  // no look at the job can tell the two apart
  kSoon,  // the pod is well: other changes of the job may be waited for
  kNow,   // the pod is lost, is about to be, or has lost its program: the job must act
};

// `before` is null for a new pod, `after` for a deleted one.
Urgency UrgencyOf(const kube::Cached<std::optional<ObservedPod>>* before,
                  const kube::Cached<std::optional<ObservedPod>>* after);

}  // namespace lockstep::controller
