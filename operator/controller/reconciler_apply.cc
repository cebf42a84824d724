// What a plan does: the calls to the API server, and what is remembered of them.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "api/base/status.h"
#include "operator/controller/build_service.h"
#include "operator/controller/gang.h"
#include "operator/controller/kueue_calls.h"
#include "operator/controller/reconciler.h"
#include "operator/controller/status.h"

namespace lockstep::controller {
namespace {

// Between the turns of statuses that can wait, however slow the API server is.
constexpr Duration kFarthestTurns = std::chrono::milliseconds(100);

kube::EventType EventTypeOf(PlannedEvent::Type type) {
  return type == PlannedEvent::Type::kWarning ? kube::EventType::kWarning
                                              : kube::EventType::kNormal;
}

// After these nobody knows whether the server did what it was asked for; or it has moved on.
bool MayHaveHappened(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kCancelled:
    case absl::StatusCode::kInternal:
    case absl::StatusCode::kUnknown:
    case absl::StatusCode::kAborted:
      return true;
    default:
      return false;
  }
}

// The server understood and said no: what it says is for the job's owner to read.
bool IsRefusal(const absl::Status& status) {
  return absl::IsPermissionDenied(status) || absl::IsInvalidArgument(status) ||
         absl::IsNotFound(status);
}

// Gone already: that one is no more. After a conflict it may be, or not: the caller looks again.
absl::Status IgnoreGone(const absl::Status& status) {
  return absl::IsNotFound(status) ? absl::OkStatus() : status;
}

// Gone, or moved on: the cache will see the version that was missed, and this is decided again.
absl::Status IgnoreMoved(const absl::Status& status) {
  return absl::IsAborted(status) ? absl::OkStatus() : IgnoreGone(status);
}

template <typename... Ts>
struct Visitor : Ts... {
  using Ts::operator()...;
};

}  // namespace

absl::Status Reconciler::Act(const Plan& plan, Context& context) {
  if (!plan.actions.empty()) context.memory.create_fault.reset();
  const auto makes_pod = [](const Action& action) {
    return std::holds_alternative<CreatePod>(action);
  };
  if (std::ranges::any_of(plan.actions, makes_pod)) {
    context.cluster.emplace(context.observed.job, addresses_);
  }
  const auto threads = static_cast<std::size_t>(std::max(settings_.parallel_calls, 1));
  return helpers_.ForEach(plan.actions.size(), threads,
                          [&](std::size_t i) { return ApplyAction(plan.actions[i], context); });
}

// What keeps children from being made stands in the job's status, not only in a log.
absl::Status Reconciler::TellOfFault(const absl::Status& fault, Context& context) {
  if (context.memory.create_fault) {
    context.observed.create_fault = context.memory.create_fault;
    Plan plan = MakePlan(context.observed);
    LOCKSTEP_RETURN_IF_ERROR(Tell(plan, context));
  }
  return fault;
}

// A status costs the API server more than a pod does: while it has no time for both, as its answers
// tell, pods go first.
void Reconciler::WaitForTurn(Plan& plan, Context& context) {
  if (!plan.status_can_wait) return;
  std::optional<SteadyTime>& turn = context.memory.turn;
  const SteadyTime now = clock_.SteadyNow();
  if (!turn) {
    const std::lock_guard lock(mutex_);
    turn = turns_.Take(now, std::min(write_time_, kFarthestTurns));
  }
  if (*turn > now) PutOffStatus(context.observed, *turn - now, plan);
}

absl::Status Reconciler::Tell(Plan& plan, Context& context) {
  WaitForTurn(plan, context);
  if (plan.status != context.observed.job.status) {
    LOCKSTEP_RETURN_IF_ERROR(WriteStatus(plan.status, context));
  }
  for (const PlannedEvent& event : plan.events) {
    events_.Record(kTrainingJobKind, *context.job, EventTypeOf(event.type), event.reason,
                   "Reconcile", event.message);
  }
  return absl::OkStatus();
}

absl::Status Reconciler::ApplyAction(const Action& action, Context& context) {
  const api::TrainingJob& job = context.observed.job;
  return std::visit(
      Visitor{[&](const CreateService&) {
                return Create(kube::kServiceKind, BuildService(job), context);
              },
              [&](const CreatePod& create) {
                return Create(kube::kPodKind, PodOf(create, context), context);
              },
              [&](const CreatePodGroup&) {
                return Create(PodGroupKind(settings_), BuildPodGroup(job, settings_), context);
              },
              [&](const UpdatePodGroup&) { return UpdatePodGroupOf(context); },
              [&](const DeletePodGroup&) { return DeleteChild(PodGroupKind(settings_), context); },
              [&](const SetSuspend& change) { return Suspend(change, context); },
              [&](const CreateWorkload&) { return CreateWorkloadOf(context); },
              [&](const DeleteWorkload&) { return DeleteChild(kWorkloadKind, context); },
              [&](const ReleaseWorkload&) {
                return ChangeWorkload(context, [&](kube::Object workload) {
                  return Released(std::move(workload), context.observed.now);
                });
              },
              [&](const TellWorkload& tell) {
                return ChangeWorkload(context, [&](kube::Object workload) {
                  return WithWorkloadCondition(std::move(workload), tell.type, tell.value,
                                               tell.reason, tell.message, context.observed.now);
                });
              },
              [&](const DeletePod& pod) { return DeletePodOf(pod, context); },
              [&](const DeleteJob&) {
                return IgnoreGone(
                    client_.Delete(kTrainingJobKind, context.job->key, job.metadata.uid));
              }},
      action);
}

absl::Status Reconciler::Create(const kube::Kind& kind, const kube::Object& object,
                                Context& context) {
  auto made = client_.Create(kind, object);
  const bool unsure = MayHaveHappened(made.status());
  const bool refused = IsRefusal(made.status());
  if (absl::IsAlreadyExists(made.status())) made = client_.Get(kind, kube::KeyOf(object));
  const std::lock_guard lock(context.mutex);
  if (unsure) context.memory.unsure.emplace_back(kind, kube::KeyOf(object));
  if (!made.ok()) {
    if (refused) {
      const bool permanent = kind == kube::kPodKind && absl::IsInvalidArgument(made.status());
      context.memory.create_fault = {std::string(made.status().message()), permanent};
    }
    return made.status();
  }
  // An earlier call of ours may have made it; by name alone nothing is ours.
  if (kube::ControllerUid(*made) == context.memory.job_uid) {
    context.memory.created[kube::Uid(*made)] = {&StoreOf(kind), kube::ResourceVersion(*made)};
  } else if (kind == kube::kPodKind || kind == kube::kServiceKind) {
    context.memory.conflicts[kube::Name(*made)] = clock_.Now();
  } else {
    context.memory.create_fault = {
        fmt::format("{} {} exists and belongs to another owner", kind.plural, kube::Name(*made))};
    return absl::AlreadyExistsError(context.memory.create_fault->message);
  }
  return absl::OkStatus();
}

kube::Store<kube::Object>::Ptr Reconciler::ChildOf(const kube::Store<kube::Object>& store,
                                                   const Context& context) {
  const auto owned = store.OwnedBy(context.memory.job_uid);
  return owned.empty() ? nullptr : owned.front();
}

absl::Status Reconciler::NoteUpdate(const kube::Kind& kind,
                                    const absl::StatusOr<kube::Object>& updated, Context& context) {
  if (!updated.ok()) return IgnoreMoved(updated.status());
  const std::lock_guard lock(context.mutex);
  context.memory.updated.push_back({&StoreOf(kind), kube::ResourceVersion(*updated)});
  return absl::OkStatus();
}

absl::Status Reconciler::UpdatePodGroupOf(Context& context) {
  const auto seen = ChildOf(*stores_.pod_groups, context);
  if (!seen) return absl::OkStatus();
  kube::Object group = seen->value;
  group["spec"].update(BuildPodGroup(context.observed.job, settings_).at("spec"));
  const kube::Kind& kind = PodGroupKind(settings_);
  return NoteUpdate(kind, client_.Update(kind, group), context);
}

absl::Status Reconciler::DeleteChild(const kube::Kind& kind, Context& context) {
  const auto owned = StoreOf(kind).AllOwnedBy(context.memory.job_uid);
  if (owned.empty()) return absl::OkStatus();
  return IgnoreGone(client_.Delete(kind, owned.front()->key, owned.front()->uid));
}

absl::Status Reconciler::Suspend(const SetSuspend& change, Context& context) {
  const auto changed = ChangeSuspend(client_, *context.job, change);
  if (!changed.ok()) return IgnoreMoved(changed.status());
  context.memory.job_version = kube::ResourceVersion(*changed);
  return absl::OkStatus();
}

absl::Status Reconciler::CreateWorkloadOf(Context& context) {
  const auto priority = ReadPriority(client_, context.observed.job);
  if (!priority.ok()) {
    context.memory.create_fault = {std::string(priority.status().message())};
    return priority.status();
  }
  return Create(kWorkloadKind, BuildWorkload(context.observed.job, settings_, *priority), context);
}

absl::Status Reconciler::ChangeWorkload(Context& context,
                                        const std::function<kube::Object(kube::Object)>& change) {
  const auto seen = ChildOf(*stores_.workloads, context);
  if (!seen) return absl::OkStatus();
  return NoteUpdate(kWorkloadKind, client_.UpdateStatus(kWorkloadKind, change(seen->value)),
                    context);
}

absl::Status Reconciler::DeletePodOf(const DeletePod& pod, Context& context) {
  const kube::Key key{context.observed.job.metadata.namespace_name, pod.name};
  LOCKSTEP_RETURN_IF_ERROR(IgnoreGone(pod.force ? client_.ForceDelete(kube::kPodKind, key, pod.uid)
                                                : client_.Delete(kube::kPodKind, key, pod.uid)));
  const std::lock_guard lock(context.mutex);
  context.memory.deleted[pod.uid] = key;
  return absl::OkStatus();
}

void Reconciler::NoteWriteTime(Duration took) {
  const std::lock_guard lock(mutex_);
  write_time_ += (took - write_time_) / 8;  // the last eight or so
}

absl::Status Reconciler::WriteStatus(const api::TrainingJobStatus& status, Context& context) {
  // The server takes the status alone; with the spec there it has less to compare.
  api::TrainingJob job = context.observed.job;
  job.status = status;
  const SteadyTime start = clock_.SteadyNow();
  const auto written = client_.UpdateStatus(kTrainingJobKind, api::TrainingJobToJson(job));
  if (!written.ok()) {
    if (MayHaveHappened(written.status())) {
      context.memory.unsure.emplace_back(kTrainingJobKind, context.job->key);
    }
    return written.status();
  }
  NoteWriteTime(clock_.SteadyNow() - start);
  context.memory.job_version = kube::ResourceVersion(*written);
  context.memory.last_status_write = context.observed.now;
  context.memory.turn.reset();
  return absl::OkStatus();
}

}  // namespace lockstep::controller
