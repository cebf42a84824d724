// A reconciler's dependencies.
#pragma once

#include <string>

#include "api/v1/job_token.h"
#include "base/clock.h"
#include "operator/controller/job_tokens.h"
#include "operator/controller/state/address.h"
#include "operator/controller/state/progress_reports.h"
#include "operator/controller/state/progress_source.h"
#include "operator/kube/client.h"
#include "operator/kube/runtime/event_recorder.h"

namespace lockstep::controller {

// A reconciler's dependencies. All of them must outlive the reconciler.
struct Collaborators {
  kube::Client& client;
  const Addresses& addresses;
  ProgressSource& progress;
  kube::EventRecorder& events;
  const Clock& clock;
  JobTokens* tokens = nullptr;         // required by Settings::job_tokens
  ProgressReports* reports = nullptr;  // null: programs report nothing

  // Returns the job's token; an unset one if there is no key, or if it is not known yet.
  api::JobToken TokenOf(const std::string& job_uid) const {
    return tokens == nullptr ? api::JobToken() : tokens->For(job_uid);
  }

  // Forgets what is known of a job that has ended, or is gone.
  void ForgetProgress(const std::string& job_uid) const {
    progress.Forget(job_uid);
    if (reports != nullptr) reports->Forget(job_uid);
  }
};

}  // namespace lockstep::controller
