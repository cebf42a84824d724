#include "operator/controller/status_writer.h"

#include <fmt/format.h>

#include <utility>

#include "base/log.h"
#include "base/shorten.h"
#include "base/status.h"
#include "operator/controller/rules/parts/status.h"
#include "operator/controller/state/call_outcome.h"
#include "operator/controller/state/held_metadata.h"
#include "operator/controller/state/kinds.h"

namespace lockstep::controller {
namespace {

constexpr std::size_t kQuoted = 512;  // bytes of a refusal in an event

kube::EventType EventTypeOf(PlannedEvent::Type type) {
  return type == PlannedEvent::Type::kWarning ? kube::EventType::kWarning
                                              : kube::EventType::kNormal;
}

// Returns true if the job has no pods after this.
bool StopsJob(const api::TrainingJobStatus& status) {
  return IsTerminal(status) || IsTrue(status, kSuspended);
}

// Notes a time that the plan has set, if it has: then it is exact whatever the clock is set to.
void NoteTime(const std::optional<Time>& written, const Moment& moment,
              std::optional<SeenTime>& seen) {
  if (!written || (seen && seen->noted == written)) return;
  seen = {written, moment.InstantOf(*written), true};
}

// Remembers what the plan has decided; its status is written.
void NoteWritten(const Plan& plan, const Moment& moment, JobMemory& memory) {
  NoteTime(plan.status.start_time, moment, memory.start);
  NoteTime(plan.status.completion_time, moment, memory.completion);
  if (plan.incident) {
    memory.last_restart = moment.steady;
    memory.incident = plan.incident;
    memory.incident_since = moment.InstantOf(plan.incident->since);
  }
  if (plan.ignored_edit) memory.ignored_edit = *plan.ignored_edit;
  if (plan.names_cause) memory.last_cause = moment.steady;
}

}  // namespace

void StatusWriter::WaitForTurn(Plan& plan, ReconcileContext& context) {
  if (!plan.status_can_wait) return;
  const Duration wait = throttle_.Wait(context.job->key, plan, with_.clock.SteadyNow());
  if (wait > Duration::zero()) PutOffStatus(context.observed, wait, plan);
}

absl::Status StatusWriter::Write(Plan& plan, ReconcileContext& context) {
  WaitForTurn(plan, context);
  // Not context.observed's, which may be a status that the server has refused.
  const api::TrainingJobStatus& written = context.job->value.job.status;
  if (plan.status != written) {
    if (absl::Status error = WriteStatus(plan, context); !error.ok()) {
      NoteRefusal(plan.status, error, context);
      if (MayHaveHappened(error)) {
        context.memory.unanswered_write = UnansweredWrite{plan, context.moment};
      }
      return error;
    }
    NoteWritten(plan, context.moment, context.memory);
  }
  RecordEvents(plan, context);
  return absl::OkStatus();
}

void StatusWriter::TakeUpUnanswered(ReconcileContext& context) {
  const auto unanswered = std::exchange(context.memory.unanswered_write, std::nullopt);
  if (!unanswered || context.job->value.job.status != unanswered->plan.status) return;
  NoteWritten(unanswered->plan, unanswered->moment, context.memory);
  RecordEvents(unanswered->plan, context);
}

void StatusWriter::RecordEvents(const Plan& plan, ReconcileContext& context) {
  for (const PlannedEvent& event : plan.events) {
    with_.events.Record(kTrainingJobKind, *context.job, EventTypeOf(event.type), event.reason,
                        "Reconcile", event.message);
  }
  if (!plan.resize) return;
  ++(plan.resize->from < plan.resize->to ? grown_ : shrunk_);
  context.memory.resize.from.reset();
  context.memory.resize.is_untold = false;
}

absl::StatusOr<kube::Object> StatusWriter::Metadata(const ReconcileContext& context) const {
  const api::ObjectMeta& job = context.observed.job.metadata;
  kube::Object metadata;
  if (context.observed.owned_metadata) {
    metadata = kube::Object::parse(*context.observed.owned_metadata);
  } else {
    LOCKSTEP_ASSIGN_OR_RETURN(
        kube::Object live,
        with_.client.GetMetadata(kTrainingJobKind, {job.namespace_name, job.name}));
    metadata = OwnedMetadata(std::move(live["metadata"]));
  }
  metadata["name"] = job.name;
  metadata["namespace"] = job.namespace_name;
  metadata["uid"] = job.uid;
  metadata["resourceVersion"] = job.resource_version;
  return metadata;
}

absl::Status StatusWriter::WriteStatus(Plan& plan, ReconcileContext& context) {
  api::TrainingJob job;
  job.status = plan.status;
  // The server uses only the status; a spec would be decoded, defaulted and compared for nothing.
  kube::Object object = api::TrainingJobToJson(job);
  object.erase("spec");
  LOCKSTEP_ASSIGN_OR_RETURN(object["metadata"], Metadata(context));
  const SteadyTime start = with_.clock.SteadyNow();
  auto written = with_.client.UpdateStatus(kTrainingJobKind, object);
  if (absl::IsInvalidArgument(written.status())) {
    // These two hold what pods have reported, which must not keep a job from being suspended or
    // ended.
    LogWarning("the server finds a status invalid; it is written without progress and failure",
               {{"namespace", context.job->key.namespace_name},
                {"name", context.job->key.name},
                {"error", written.status().ToString()}});
    object["status"].erase("progress");
    object["status"].erase("failure");
    written = with_.client.UpdateStatus(kTrainingJobKind, object);
    if (written.ok() || MayHaveHappened(written.status())) {
      plan.status.progress.reset();
      plan.status.failure.reset();
    }
  }
  if (!written.ok()) {
    if (MayHaveHappened(written.status())) {
      context.memory.expectations.MayHaveWritten(kTrainingJobKind, context.job->key);
    }
    return written.status();
  }
  throttle_.Record(with_.clock.SteadyNow() - start);
  context.memory.expectations.WroteJob(kube::ResourceVersion(*written));
  context.memory.last_status_write = context.moment.steady;
  throttle_.Forget(context.job->key);
  context.memory.refused_status.reset();
  return absl::OkStatus();
}

// A tenant may leave no room for a status, by metadata as large as etcd takes. The decision still
// holds: the job's pods go.
void StatusWriter::NoteRefusal(const api::TrainingJobStatus& status, const absl::Status& error,
                               ReconcileContext& context) {
  const bool refused = IsRefusal(error) && !absl::IsNotFound(error);
  if (!refused || !StopsJob(status)) return;
  if (!context.memory.refused_status) {
    with_.events.Record(
        kTrainingJobKind, *context.job, kube::EventType::kWarning, "StatusRefused", "Reconcile",
        fmt::format("the job is {}, but the API server refuses the status that says so: {}",
                    StateOf(status), Shortened(std::string(error.message()), kQuoted)));
  }
  context.memory.refused_status = RefusedStatus{status, context.job->value.job.status};
}

}  // namespace lockstep::controller
