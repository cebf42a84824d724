// What a reconciler works with.
#pragma once

#include "base/clock.h"
#include "operator/controller/children/addresses.h"
#include "operator/controller/job_tokens.h"
#include "operator/controller/state/progress_source.h"
#include "operator/kube/client.h"
#include "operator/kube/runtime/event_recorder.h"

namespace lockstep::controller {

// What a reconciler works with. All of it outlives the reconciler.
struct Collaborators {
  kube::Client& client;
  const Addresses& addresses;
  ProgressSource& progress;
  kube::EventRecorder& events;
  const Clock& clock;
  JobTokens* tokens = nullptr;  // Settings::job_tokens needs them
};

}  // namespace lockstep::controller
