// Writes a plan's status, then its events.
#pragma once

#include <atomic>
#include <cstdint>

#include "absl/status/statusor.h"
#include "operator/controller/collaborators.h"
#include "operator/controller/memory/job_memory.h"
#include "operator/controller/rules/parts/plan.h"
#include "operator/controller/state/settings.h"
#include "operator/controller/status_throttle.h"

namespace lockstep::controller {

// Thread-safe for different jobs. `with` must outlive it.
class StatusWriter {
 public:
  StatusWriter(const Collaborators& with, const Settings& settings)
      : with_(with), throttle_(settings) {}
  // Writes the status if it differs and its turn has come; otherwise plan.requeue_after says when
  // to retry. Records the events once the status is written, or if it does not differ. On failure,
  // remembers a refused status that stops the job (JobMemory::refused_status).
  absl::Status Write(Plan& plan, ReconcileContext& context);
  // Notes, and records the events of, a plan whose status was written although the answer to that
  // was lost: the cache shows it. Requires: the cache shows what that call has done, if anything.
  void TakeUpUnanswered(ReconcileContext& context);
  // How often events have told that a job's group has followed a change of its number of workers
  // without a restart.
  std::int64_t grown() const { return grown_; }
  std::int64_t shrunk() const { return shrunk_; }
  // Forgets a job that is gone.
  void Forget(const kube::Key& job) { throttle_.Forget(job); }

 private:
  void WaitForTurn(Plan& plan, ReconcileContext& context);
  void RecordEvents(const Plan& plan, ReconcileContext& context);
  // Without progress and failure if the server does not take these; then the plan loses them, too.
  absl::Status WriteStatus(Plan& plan, ReconcileContext& context);
  void NoteRefusal(const api::TrainingJobStatus& status, const absl::Status& error,
                   ReconcileContext& context);
  // Returns the metadata for such a write. Reads it from the server if it is too large to be
  // cached.
  absl::StatusOr<kube::Object> Metadata(const ReconcileContext& context) const;

  const Collaborators& with_;
  StatusThrottle throttle_;
  std::atomic<std::int64_t> grown_{0}, shrunk_{0};
};

}  // namespace lockstep::controller
