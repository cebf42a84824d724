// Writes what a plan says of a job: its status, then its events.
#pragma once

#include "absl/status/statusor.h"
#include "operator/controller/collaborators.h"
#include "operator/controller/job_memory.h"
#include "operator/controller/rules/plan.h"
#include "operator/controller/state/settings.h"
#include "operator/controller/status_throttle.h"

namespace lockstep::controller {

// Thread-safe for different jobs. `with` outlives it.
class StatusWriter {
 public:
  StatusWriter(const Collaborators& with, const Settings& settings)
      : with_(with), throttle_(settings) {}
  // One write, if the status differs and its turn has come; else plan.requeue_after says when to
  // come back. Events follow a status that was written, or that did not differ.
  absl::Status Write(Plan& plan, ReconcileContext& context);

 private:
  void WaitForTurn(Plan& plan, ReconcileContext& context);
  absl::Status WriteStatus(const api::TrainingJobStatus& status, ReconcileContext& context);
  // The metadata of such a write. Asks the server for what is too large to be held.
  absl::StatusOr<kube::Object> Metadata(const ReconcileContext& context) const;

  const Collaborators& with_;
  StatusThrottle throttle_;
};

}  // namespace lockstep::controller
